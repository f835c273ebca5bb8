//! Putting things in order before a run ends.

use std::{collections::HashSet, sync::Arc};

use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use windlass_core::{Detail, LaneId, RunId, StepKind, VERDICT, Verdict};
use windlass_store::{Act, StepRow, StoreError};

use super::{Live, Mail, RunCell, RunLoop, submit};
use crate::{
    boxed::boxed,
    committer::{Fate, Lost, Reply},
    flow::{self, Scene, Undone},
};

/// How a run ends as soon as things are in order.
pub(super) struct Ending {
    pub(super) verdict: Verdict,
    /// Puts them in order.
    job: JoinHandle<()>,
    /// Answers when nothing of that is left, until somebody waits for it.
    over: Option<oneshot::Receiver<()>>,
    /// Whose undos are run.
    scenes: Vec<Arc<Scene>>,
    /// What is recorded with the end.
    pub(super) steps: Vec<StepRow>,
}

impl Ending {
    /// Lets no further undo begin.
    pub(super) fn halt(&self) {
        self.scenes.iter().for_each(|scene| scene.halt());
    }

    /// Stops it where it is.
    pub(super) fn abort(self) -> JoinHandle<()> {
        self.job.abort();
        self.job
    }

    /// Stops it, and has the run given up when it has stopped: an undo is not to be executed by two nodes at once.
    pub(super) fn hand_over(&mut self, cell: &Arc<RunCell>) {
        self.job.abort();
        let Some(over) = self.over.take() else { return };
        let cell = Arc::clone(cell);
        cell.node.user.clone().spawn(boxed(async move {
            // Nobody sends anything: it is dropped.
            over.await.ok();
            cell.deliver(Mail::Surrender);
        }));
    }
}

impl RunLoop {
    /// Ends the run, once what its tasks have done is undone if it has to be, and nothing that they have started is left
    /// behind.
    pub(super) fn close(&mut self, cell: &Arc<RunCell>, steps: Vec<StepRow>, verdict: Verdict) {
        if self.is_terminated {
            return self.stop_and_end(cell, steps, verdict);
        }
        let children = match self.children(cell) {
            Ok(children) => children,
            Err(why) => return self.lost(cell, &Lost::Failed(StoreError::Broken(why))),
        };
        let undos = match verdict {
            Verdict::Failed { .. } | Verdict::TimedOut { .. } | Verdict::Cancelled { .. } => self.undos(cell),
            Verdict::Completed | Verdict::Abandoned { .. } => Ok(Vec::new()),
        };
        let undos = match undos {
            Ok(undos) if undos.is_empty() && children.is_empty() => return self.end(cell, steps, verdict),
            Ok(undos) => undos,
            Err(why) => return self.lost(cell, &Lost::Failed(StoreError::Broken(why))),
        };
        let (kept, is_kept) = oneshot::channel();
        if let Err(why) = self.keep_verdict(cell, steps, &verdict, kept) {
            return self.lost(cell, &Lost::Failed(StoreError::Broken(why)));
        }
        let scenes = undos.iter().map(|undone| Arc::clone(&undone.scene)).collect();
        let closing = Arc::clone(cell);
        let (left, over) = oneshot::channel::<()>();
        let job = cell.node.user.spawn(async move {
            // Dropped last.
            let _left = left;
            // The verdict stands before anything follows from it.
            if is_kept.await.is_ok() {
                closing.put_in_order(children, undos).await;
            }
        });
        let ending = Ending { verdict, job, over: Some(over), scenes, steps: Vec::new() };
        if cell.node.stopping.is_cancelled() {
            ending.halt();
        }
        self.ending = Some(Box::new(ending));
    }

    /// Ends the run without undoing anything, at once; or, if undos are executed here, or code that starts runs, as soon as
    /// that is gone, and the runs that it has started are cancelled. Whoever takes the run up before hears of it again.
    pub(super) fn stop_and_end(&mut self, cell: &Arc<RunCell>, steps: Vec<StepRow>, verdict: Verdict) {
        let undoing = self.ending.take().map(|ending| ending.abort());
        let known = match self.children(cell) {
            Ok(known) => known,
            Err(why) => return self.lost(cell, &Lost::Failed(StoreError::Broken(why))),
        };
        let may_start = |live: &Live| !live.is_blocking && live.cx.inner().scene().is_some();
        let lanes: Vec<LaneId> =
            self.attempts.iter().filter(|(_, live)| may_start(live)).map(|(lane, _)| *lane).collect();
        if undoing.is_none() && lanes.is_empty() && known.is_empty() {
            return self.end(cell, steps, verdict);
        }
        let (mut scenes, mut stopped) = (Vec::new(), Vec::from_iter(undoing));
        for live in lanes.iter().filter_map(|lane| self.attempts.remove(lane)) {
            live.cx.inner().stop.set();
            live.task.abort();
            scenes.extend(live.cx.inner().scene().cloned());
            stopped.push(live.task);
        }
        let closing = Arc::clone(cell);
        let (left, over) = oneshot::channel::<()>();
        let job = cell.node.user.spawn(async move {
            // Dropped last.
            let _left = left;
            let patience = Instant::now() + closing.node.options.cancel_grace;
            for task in stopped {
                if timeout_at(patience, task).await.is_err() {
                    let run = closing.subject.run;
                    tracing::warn!(%run, "the run is terminated, and code of it still executes here that does not yield");
                }
            }
            let begun = scenes.iter().flat_map(|scene| scene.unended_children());
            closing.put_in_order(known.into_iter().chain(begun).collect(), Vec::new()).await;
        });
        self.ending = Some(Box::new(Ending { verdict, job, over: Some(over), scenes: Vec::new(), steps }));
    }

    /// The children that no code looks after now.
    pub(super) fn children(&self, cell: &RunCell) -> Result<Vec<RunId>, String> {
        let mut children: Vec<RunId> = self.rooms.values().flat_map(|room| room.unended_children()).collect();
        // Those of a durable function that has not begun here.
        let (hub, subject) = (&cell.node.hub, &cell.subject);
        let recorded = flow::children(hub, subject.run, subject.generation, &self.calls);
        children.extend(recorded.map_err(|error| error.to_string())?);
        Ok(children)
    }

    /// Notes that a lane has completed, if it can be undone.
    pub(super) fn note_undoable(&mut self, cell: &RunCell, lane: LaneId) {
        if cell.code(lane.task).undo.is_some() && self.run.has_completed(lane) {
            self.undoable.push(lane);
        }
    }

    /// What has to be undone, newest first.
    fn undos(&mut self, cell: &Arc<RunCell>) -> Result<Vec<Undone>, String> {
        let (mut undos, mut seen) = (Vec::new(), HashSet::new());
        for lane in std::mem::take(&mut self.undoable).into_iter().rev() {
            if !seen.insert(lane) {
                // It was undone, and done again since.
                continue;
            }
            let (result, code) = (self.outputs.slot(lane), cell.code(lane.task).undo.clone());
            let (Some(result), Some(code), true) = (result, code, self.run.has_completed(lane)) else {
                continue;
            };
            let scene = match self.rooms.get(&lane) {
                Some(room) => Arc::clone(room),
                None => {
                    let room = Scene::of_task(cell, lane, self.run.step_name(lane), &[], &self.saved);
                    Arc::new(room.map_err(|error| error.to_string())?)
                }
            };
            scene.note_undo_deaths(self.run.undo_deaths());
            undos.push(Undone { scene, result, code });
        }
        Ok(undos)
    }

    /// Records how the run will end, together with all that led to it, and says when that is durable: it is final from here
    /// on.
    fn keep_verdict(
        &mut self,
        cell: &Arc<RunCell>,
        mut steps: Vec<StepRow>,
        verdict: &Verdict,
        kept: oneshot::Sender<()>,
    ) -> Result<(), String> {
        let detail = Detail { verdict: Some(Box::new(verdict.clone())), ..Detail::default() };
        let (subject, now) = (&cell.subject, self.at);
        steps.push(StepRow {
            generation: subject.generation,
            name: VERDICT.into(),
            attempt: 0,
            epoch: subject.epoch,
            kind: StepKind::Skipped,
            started_at: now,
            ended_at: now,
            output: None,
            detail: cell.encode(&detail)?,
        });
        let consumed = std::mem::take(&mut self.consumed);
        let act = Act::Record { claim: subject.claim, steps, consumed, forget: false };
        let closing = Arc::clone(cell);
        let reply = move |fate: Fate, thread| match fate {
            // Whoever waits for it may have been stopped.
            Ok(_) => drop(kept.send(())),
            Err(lost) => closing.hand(Mail::Committed(0, Err(Box::new(lost))), thread),
        };
        submit(cell, act, Reply::Then(Box::new(reply)));
        Ok(())
    }
}

impl RunCell {
    /// Cancels children that nobody waits for any more, and undoes tasks, in this order.
    async fn put_in_order(self: Arc<Self>, children: Vec<RunId>, undos: Vec<Undone>) {
        if let Err(error) = flow::cancel(&self.node.hub, Some(&self.node), children).await {
            return self.break_off(error.to_string());
        }
        let mail = if flow::undo_all(undos).await { Mail::InOrder } else { Mail::Surrender };
        self.deliver(mail);
    }
}
