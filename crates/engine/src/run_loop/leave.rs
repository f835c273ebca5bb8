//! How a run leaves this node: it ends, is parked, or is given up.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::{Rest, RunState, StepKind, TaskIx, Time, Verdict};
use windlass_store::{Act, End, NewEnd, OUTCOME, StepRow, StoreError, Wait, Written};

use super::{RunCell, RunLoop, submit};
use crate::{
    boxed::boxed,
    committer::{Lost, Reply},
    flow, order,
    take_up::SETTLED,
};

impl RunLoop {
    pub(super) fn end(&mut self, cell: &Arc<RunCell>, steps: Vec<StepRow>, verdict: Verdict) {
        self.over = true;
        let state = verdict.state();
        let output = match (&verdict, self.run.plan().definition.output) {
            (Verdict::Completed, Some(task)) => self.run_output(cell, task),
            _ => Ok(None),
        };
        let failure = match &verdict {
            Verdict::Completed => Ok(None),
            verdict => encode_verdict(cell, verdict).map(Some),
        };
        let (output, failure) = match (output, failure) {
            (Ok(output), Ok(failure)) => (output, failure),
            (Err(why), _) | (_, Err(why)) => {
                return self.lost(cell, &Lost::Failed(StoreError::Broken(why)));
            }
        };
        self.log_end(cell, &verdict);
        let end = NewEnd { state, output: output.clone(), failure: failure.clone() };
        let act = Act::End { claim: cell.subject.claim, steps, end };
        let leaving = Arc::clone(cell);
        cell.node.ends();
        let reply = move |fate, _| {
            leaving.node.ended();
            // First the room, then the word: whoever waits for this end may start the next run at once.
            leaving.release();
            let (node, run) = (&leaving.node, leaving.subject.run);
            if leaving.subject.registered.routes.any() {
                // What was published went with the end; whoever executes it here is to be told.
                node.guests.changed.notify_one();
            }
            match fate {
                Ok(written) => {
                    leaving.subject.registered.meters.ended(state);
                    let at = match written {
                        Written::Done { at } => at,
                        _ => node.hub.clock.now(),
                    };
                    node.throughput.note(&leaving.subject.queue, at);
                    let workflow = &leaving.subject.registered.plan.definition.name;
                    node.hub.scribe.count(workflow, state, at, 1);
                    node.hub.ended(run, || End { state, at, output, failure });
                    if let Some(parent) = leaving.subject.parent {
                        node.delivered_to(parent);
                    }
                }
                Err(Lost::Refused(why)) => {
                    tracing::warn!(%run, %why, "the run's end was refused: it is another node's");
                }
                Err(Lost::Fenced) => {
                    tracing::debug!(%run, "the run's end was not written: the node lost its lease")
                }
                Err(Lost::Failed(why)) => {
                    tracing::error!(%run, %why, "the run's end could not be written");
                    leaving.forsake();
                }
            }
        };
        submit(cell, act, Reply::Then(Box::new(reply)));
    }

    /// The run's output is what its output task's is; a single task's is encoded already.
    fn run_output(&mut self, cell: &RunCell, task: TaskIx) -> Result<Option<Bytes>, String> {
        if self.run.outcome(task) != Some(StepKind::Completed) {
            return Ok(None);
        }
        if let Some(kept) = self.outputs.kept(windlass_core::LaneId::of(task)) {
            return Ok(Some(kept));
        }
        let Some(slot) = self.result_of(task) else { return Ok(None) };
        cell.node.hub.codec.encode(slot.bytes().clone()).map(Some).map_err(|error| error.to_string())
    }

    /// Gives the run up when nothing of it executes and nothing will for a while.
    pub(super) fn rest(&mut self, cell: &Arc<RunCell>) {
        if self.over {
            return;
        }
        self.lingers = None;
        let is_away = self.run.is_away();
        let topics = |names: &[&str]| {
            let outcome = is_away.then_some(OUTCOME);
            names.iter().copied().chain(outcome).map(str::to_owned).collect()
        };
        let rest = match self.run.rest() {
            Rest::Busy => return,
            Rest::Waiting(Some(until)) if !is_far(cell, until) => return,
            Rest::Waiting(_) if (is_away || self.is_listening()) && self.lingers(cell) => return,
            rest => rest,
        };
        // A durable function may have gone on since it said that it waits.
        let Some(latest) = self.let_go() else { return };
        let wait = match rest {
            Rest::Busy => return,
            Rest::Halted => {
                return self.give_up(cell, Act::Release { claim: cell.subject.claim }, None);
            }
            Rest::Waiting(until) => Wait {
                state: RunState::Suspended,
                until: until.into_iter().chain(Some(latest).filter(|at| *at < Time::MAX)).min(),
                topics: {
                    let mut topics: Vec<String> = topics(&[order::CANCEL, order::PAUSE, order::TERMINATE]);
                    topics.extend(self.scenes().flat_map(|scene| scene.topics()));
                    topics
                },
                reason: Some(match (is_away, self.is_listening()) {
                    (true, _) => "waiting for published tasks".to_owned(),
                    (_, true) => "waiting for an event".to_owned(),
                    _ => "waiting for its time".to_owned(),
                }),
                blocked_by: None,
            },
            Rest::Paused(until) => Wait {
                state: RunState::Paused,
                until,
                topics: topics(&[order::CANCEL, order::RESUME, order::TERMINATE]),
                reason: Some("paused by a person".to_owned()),
                blocked_by: None,
            },
        };
        if wait.state == RunState::Paused {
            self.withdraw_unbegun(cell);
        }
        let until = wait.until;
        let consumed = std::mem::take(&mut self.consumed);
        let act = Act::Park { claim: cell.subject.claim, steps: Vec::new(), consumed, wait };
        self.give_up(cell, act, until);
    }

    /// Until when the run's durable functions and tasks wait. They do nothing more from here on; none if one of them does
    /// not wait, and then they go on.
    fn let_go(&self) -> Option<Time> {
        let mut scenes = self.attempts.values().filter_map(|live| {
            let inner = live.cx.inner();
            inner.scene().map(|scene| scene.let_go(inner.pulse.waited().is_none()))
        });
        let until = scenes.try_fold(Time::MAX, |until, scene| Some(until.min(scene?)));
        drop(scenes);
        if until.is_none() {
            self.scenes().for_each(|scene| scene.stay());
        }
        until
    }

    /// Whether a durable function or task waits for something to come.
    fn is_listening(&self) -> bool {
        self.scenes().any(|scene| !scene.topics().is_empty())
    }

    /// Gives the run up as it is: whoever takes it up goes on from its records.
    pub(super) fn surrender(&mut self, cell: &Arc<RunCell>) {
        self.give_up(cell, Act::Release { claim: cell.subject.claim }, None);
    }

    /// Gives the run up until there is code that fits its records.
    pub(super) fn block(&mut self, cell: &Arc<RunCell>, why: String) {
        let (run, workflow) = (cell.subject.run, &cell.subject.registered.plan.definition.name);
        let why = if self.run.closing().is_some() { format!("{why}; {SETTLED}") } else { why };
        tracing::error!(%run, %workflow, why, "the run is blocked");
        // Past its time limit, or with its verdict recorded, there is no time that would change anything.
        let until = self.run.deadline().filter(|at| *at > self.at && self.run.closing().is_none());
        let mut topics = vec![order::TERMINATE.to_owned()];
        if self.run.closing().is_none() && self.early.is_none() {
            topics.push(order::CANCEL.to_owned());
        }
        let wait = Wait {
            state: RunState::Blocked,
            until,
            topics,
            reason: Some(why),
            blocked_by: Some(cell.subject.registered.definition),
        };
        let consumed = std::mem::take(&mut self.consumed);
        if self.run.closing().is_some() {
            self.cancel_children(cell);
        }
        self.give_up(cell, Act::Park { claim: cell.subject.claim, steps: Vec::new(), consumed, wait }, None);
    }

    /// Cancels what a run has started whose end is settled, and that waits for code that can undo it.
    fn cancel_children(&self, cell: &Arc<RunCell>) {
        let Ok(mut children) = self.children(cell) else { return };
        children.extend(self.scenes().flat_map(|scene| scene.unended_children()));
        let cell = Arc::clone(cell);
        cell.node.user.clone().spawn(boxed(async move {
            // Where this fails, whoever undoes the run does it.
            if let Err(error) = flow::cancel(&cell.node.hub, Some(&cell.node), children).await {
                tracing::warn!(run = %cell.subject.run, %error, "what a blocked run has started was not cancelled");
            }
        }));
    }

    /// Whether the run stays for a while, since outcomes may come soon.
    fn lingers(&mut self, cell: &RunCell) -> bool {
        let until = self.news + cell.node.options.park_after;
        // Where there is no room for others, what waits makes some.
        let stays = self.now < until && !cell.node.is_full();
        self.lingers = stays.then(|| cell.node.hub.clock.at(until));
        stays
    }

    fn give_up(&mut self, cell: &Arc<RunCell>, act: Act, until: Option<Time>) {
        self.over = true;
        let leaving = Arc::clone(cell);
        let reply = move |fate, _| {
            let run = leaving.subject.run;
            if let Err(Lost::Refused(why)) = &fate {
                tracing::debug!(%run, %why, "the run was not ours to give up");
            }
            leaving.release();
            match fate {
                Ok(_) => {
                    // What came while the run was being parked has made it ready.
                    leaving.node.due(until);
                    leaving.node.claim.notify_one();
                }
                Err(Lost::Failed(why)) => {
                    tracing::error!(%run, %why, "the run could not be given up");
                    leaving.forsake();
                }
                Err(Lost::Refused(_) | Lost::Fenced) => {}
            }
        };
        submit(cell, act, Reply::Then(Box::new(reply)));
    }
}

fn is_far(cell: &RunCell, until: Time) -> bool {
    until.since(cell.node.hub.clock.now()) > cell.node.options.park_after
}

fn encode_verdict(cell: &RunCell, verdict: &Verdict) -> Result<Bytes, String> {
    let json = verdict.to_json().map_err(|error| error.to_string())?;
    cell.node.hub.codec.encode(json.into()).map_err(|error| error.to_string())
}
