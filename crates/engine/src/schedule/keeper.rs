//! Taking the turns of schedules.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use windlass_core::{ClaimId, Failure, NodeId, Order, RunId, RunState, Time};
use windlass_store::{Act, KeyConflict, KeyLife, NewEnd, NewKey, NewRun, RunImage, Unit, Wait, Written};

use super::{
    findings::{Findings, Mail, open},
    held::{Guard, Held, pause_after},
    ledger::Ledger,
    message::{ENDED, Message, TOLD},
    turn::Turn,
};
use crate::{
    AnyWorkflow, Error, Task, TaskCx, Workflow, batch,
    committer::{Fate, Lost},
    metric,
    node::Node,
    order,
    reserved::is_reserved,
    trigger::{self, Trigger},
};

/// The workflow whose runs are schedules.
pub(super) const WORKFLOW: &str = "windlass.schedule";
/// The queue that they wait in. Every engine serves it.
pub(crate) const QUEUE: &str = "windlass";

/// What wakes a schedule beside its time.
const TOPICS: [&str; 3] = [TOLD, ENDED, order::TERMINATE];

/// A schedule whose next time comes so soon hears only then of runs that have ended, if nothing waits for that: half as many
/// turns, and half as often does a process die in the middle of one and keep the others waiting for its lease.
const SOON: Duration = Duration::from_secs(5);

/// So many of the last claims of each run are remembered. What comes twice does so within a heartbeat or two.
const REMEMBERED: usize = 64;

/// How soon the store is asked again that did not answer.
pub(crate) const AGAIN: Duration = Duration::from_millis(100);

/// Takes the turns of schedules: one at a time for each, in whichever process has claimed it.
///
/// Woken by the claimer, which is woken when a schedule is due or has been told something. It decides nothing itself: see
/// [`Turn`]. What a turn comes to is written in one transaction.
#[derive(Default)]
pub(crate) struct Keeper {
    /// The turns that are being taken.
    busy: Mutex<HashSet<(RunId, ClaimId)>>,
    /// The claims of each run under which its turn was taken lately.
    taken: Mutex<HashMap<RunId, VecDeque<ClaimId>>>,
    /// The last turn of each schedule and trigger of which this process knows that all its runs were started.
    sure: Mutex<HashMap<RunId, u64>>,
    /// The triggers of this process.
    triggers: OnceLock<trigger::Set>,
    /// The last page of each batch that this process has written: its generation, and its number.
    written: Mutex<HashMap<RunId, (u32, u64)>>,
    /// How many turns have failed in a row.
    failures: Mutex<HashMap<RunId, u32>>,
}

impl Keeper {
    /// Takes note of the triggers of this process, once.
    pub(crate) fn know(&self, triggers: trigger::Set) {
        // It is told when it is made, and never again.
        let _ = self.triggers.set(triggers);
    }

    /// The trigger whose own workflow this is.
    pub(crate) fn trigger(&self, workflow: &str) -> Option<Arc<Trigger>> {
        self.triggers.get()?.get(workflow).map(Arc::clone)
    }

    /// Begins a turn, unless it is being taken already or was: one turn is taken under one claim.
    ///
    /// Whoever hears twice of a claim whose answer was lost has two images of the run, and the older one knows nothing of
    /// what was started in the turn before. A store refuses what the second turn would record, but runs that it starts do
    /// not depend on the claim. That no other process takes a turn under the claim is what claims are for.
    pub(crate) fn enter(&self, run: RunId, claim: ClaimId) -> Entry {
        let mut busy = self.busy.lock();
        if self.taken.lock().get(&run).is_some_and(|claims| claims.contains(&claim)) {
            return Entry::Taken;
        }
        if busy.insert((run, claim)) { Entry::Free } else { Entry::Busy }
    }

    /// Ends a turn.
    pub(crate) fn leave(&self, run: RunId, claim: ClaimId) {
        let mut busy = self.busy.lock();
        let mut taken = self.taken.lock();
        let claims = taken.entry(run).or_default();
        if claims.len() == REMEMBERED {
            claims.pop_front();
        }
        claims.push_back(claim);
        busy.remove(&(run, claim));
    }

    /// Takes note that all runs of a turn were started.
    pub(crate) fn be_sure(&self, run: RunId, turn: u64) {
        self.sure.lock().insert(run, turn);
    }

    /// Whether all runs of a turn, the last one, are known to be started.
    pub(crate) fn is_sure(&self, run: RunId, turn: u64) -> bool {
        self.sure.lock().get(&run) == Some(&turn)
    }

    /// Takes note of a page that was written.
    pub(crate) fn wrote(&self, run: RunId, page: (u32, u64)) {
        let mut written = self.written.lock();
        let last = written.entry(run).or_insert(page);
        *last = page.max(*last);
    }

    /// Whether an image with this page is from before one that was written here. The claims that are remembered do not
    /// always tell: a batch takes many turns within a second.
    pub(crate) fn is_old(&self, run: RunId, page: (u32, u64)) -> bool {
        self.written.lock().get(&run).is_some_and(|last| page < *last)
    }

    /// Takes note of a turn that failed. Answers how long it is put off.
    pub(crate) fn failed(&self, run: RunId) -> Duration {
        let mut failures = self.failures.lock();
        let streak = failures.entry(run).or_default();
        *streak = streak.saturating_add(1);
        pause_after(*streak)
    }

    /// Whether the last turn failed.
    pub(crate) fn has_failed(&self, run: RunId) -> bool {
        self.failures.lock().contains_key(&run)
    }

    /// Takes note of a turn that was taken.
    pub(crate) fn succeeded(&self, run: RunId) {
        self.failures.lock().remove(&run);
    }
}

/// Whether a turn may be taken under a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It may.
    Free,
    /// It is being taken.
    Busy,
    /// It was taken.
    Taken,
}

/// What a turn comes to, to be written.
struct Outcome {
    units: Vec<Unit>,
    /// The runs among them, with their keys and workflow.
    starts: Vec<(RunId, String)>,
    workflow: Arc<str>,
    turn: u64,
    wake: Option<Time>,
    cancels: bool,
}

/// Whether a claimed run is a schedule or a trigger.
pub(crate) fn keeps(image: &RunImage) -> bool {
    is_reserved(&image.run.workflow)
}

/// The engine's own workflows: their code is never executed, but their names and versions are claimed by.
pub(crate) fn own_workflows() -> Result<Vec<AnyWorkflow>, Error> {
    let never = |_: TaskCx| async { Err::<(), _>(Failure::permanent("a schedule has no code of its own")) };
    let workflow = Workflow::builder(WORKFLOW).version("1").task(Task::new("keep", never)).build();
    let schedules = workflow.map_err(|error| Error::Store(error.to_string()))?;
    Ok(vec![schedules.into(), batch::own_workflow()?])
}

/// The one run of a schedule or a trigger. Under its key it is made once.
pub(crate) fn own_run(workflow: Arc<str>, key: &str, tags: Vec<String>, input: Bytes) -> NewRun {
    let (life, conflict) = (KeyLife::Kept, KeyConflict::ReturnExisting);
    NewRun {
        workflow,
        queue: QUEUE.into(),
        queue_key: None,
        priority: 0,
        delay: None,
        timeout: None,
        input,
        context: None,
        key: Some(NewKey { key: key.to_owned(), digest: [0; 16], life, conflict }),
        tags,
        forked_from: None,
        trace: None,
        parent: None,
        steps: Vec::new(),
        owner: None,
    }
}

/// Takes a turn of a schedule or a trigger that was claimed.
pub(crate) fn take_up(node: &Arc<Node>, holder: NodeId, claim: ClaimId, image: RunImage) {
    if image.run.workflow.starts_with(trigger::PREFIX) {
        return trigger::take_up(node, holder, claim, image);
    }
    if &*image.run.workflow == batch::WORKFLOW {
        return batch::take_up(node, holder, claim, image);
    }
    let held = Held { run: image.run.id, claim, holder };
    if !held.enter(node) {
        return;
    }
    let keeper = Arc::clone(node);
    node.hub.backroom.spawn(async move {
        let guard = Guard { node: keeper, held };
        take_turn(&guard.node, held, image).await;
    });
}

async fn take_turn(node: &Arc<Node>, held: Held, image: RunImage) {
    let outcome = match prepare(node, held, &image).await {
        Ok(Some((ledger, mail, findings))) => {
            // A mistake of ours in the arithmetic must not be made again and again.
            let decided = catch_unwind(AssertUnwindSafe(|| decide(node, held, ledger, mail, &findings)));
            decided.unwrap_or_else(|_| Err(Error::Store("the engine failed in this schedule".to_owned())))
        }
        // The node has lost the run, or is closed.
        Ok(None) => return held.leave(node),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(outcome) => commit(node, held, outcome),
        Err(error) => held.postpone(node, &image, &TOPICS, &error),
    }
}

/// Reads what the turn is decided on, again while the store does not answer.
async fn prepare(
    node: &Arc<Node>,
    held: Held,
    image: &RunImage,
) -> Result<Option<(Ledger, Mail, Findings)>, Error> {
    let hub = &node.hub;
    let mut ledger = Ledger::read(hub, image)?;
    if node.keeper.is_sure(held.run, ledger.turn) {
        ledger.runs.iter_mut().for_each(|known| known.is_sure = true);
    }
    let mail = open(hub, &image.inbox)?;
    loop {
        if hub.closed.is_cancelled() || !node.is(held.holder) {
            return Ok(None);
        }
        match Findings::gather(hub, &ledger, &mail).await {
            Ok(findings) => return Ok(Some((ledger, mail, findings))),
            Err(Error::Stopped) => return Ok(None),
            Err(error @ Error::Unavailable(_)) => {
                tracing::debug!(schedule = %held.run, %error, "the runs of a schedule are asked for again");
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Takes the turn.
fn decide(
    node: &Node,
    held: Held,
    ledger: Ledger,
    mail: Mail,
    findings: &Findings,
) -> Result<Outcome, Error> {
    let (hub, now) = (&node.hub, node.hub.clock.now());
    let Held { run, claim, .. } = held;
    let mut turn = Turn::new(ledger, run, findings, now);
    let mut consumed = Vec::new();
    for (seq, at, heard) in mail {
        if turn.is_full() {
            // What is left wakes it again at once.
            break;
        }
        turn.hear(heard, at);
        consumed.push(seq);
    }
    turn.heal();
    let wake = turn.look_at_clock();
    let Turn { starts, cancels, news, is_declared, is_changed, .. } = &turn;
    let (mut units, news, is_declared, is_over) = (Vec::new(), *news, *is_declared, turn.is_over());
    for (id, firing) in starts {
        let new = turn.ledger.declaration.new_run(hub, run, firing)?;
        units.push(Unit { run: *id, act: Act::Start(Box::new(new)) });
    }
    for id in cancels {
        let reason =
            format!("schedule `{}` has come to its next time", turn.ledger.declaration.schedule.name());
        units.push(Unit { run: *id, act: Act::Send(order::encode(&Order::Cancel { reason })) });
    }
    let (cancels, is_changed) = (!cancels.is_empty(), *is_changed);
    let starts = starts.iter().map(|(run, firing)| (*run, firing.key.clone())).collect();
    let mut ledger = turn.ledger;
    let awaits_ends = ledger.state.awaits_ends(&ledger.declaration.schedule);
    let is_soon = wake.is_some_and(|wake| wake.since(now) <= SOON);
    let mut steps = Vec::new();
    if is_over {
        let end = NewEnd { state: RunState::Completed, output: None, failure: None };
        units.push(Unit { run, act: Act::End { claim, steps, end } });
    } else {
        if is_changed {
            let written = ledger.write(hub, news, is_declared, now)?;
            if written.is_whole {
                let (steps, consumed) = (vec![written.row], std::mem::take(&mut consumed));
                units.push(Unit { run, act: Act::Record { claim, steps, consumed, forget: true } });
            } else {
                steps.push(written.row);
            }
        }
        let act = Act::Park { claim, steps, consumed, wait: wait(wake, awaits_ends || !is_soon) };
        units.push(Unit { run, act });
    }
    let workflow = Arc::from(ledger.declaration.schedule.workflow());
    Ok(Outcome { units, starts, workflow, turn: ledger.turn, wake, cancels })
}

fn wait(until: Option<Time>, hears_ends: bool) -> Wait {
    let topics =
        TOPICS.into_iter().filter(|topic| hears_ends || *topic != ENDED).map(str::to_owned).collect();
    let reason = Some("waiting for its next time".to_owned());
    Wait { state: RunState::Suspended, until, topics, reason, blocked_by: None }
}

/// Writes all that the turn came to, or nothing.
fn commit(node: &Arc<Node>, held: Held, outcome: Outcome) {
    let Outcome { units, starts, workflow, turn, wake, cancels } = outcome;
    let keeper = Arc::clone(node);
    node.hub.committer.submit_group(held.holder, units, move |mut fates| {
        let own = fates.pop();
        match own {
            Some(Ok(_)) => {
                keeper.keeper.succeeded(held.run);
                settle(&keeper, held.run, turn, &workflow, starts.into_iter().zip(fates));
                if cancels {
                    keeper.mail.add_any();
                }
            }
            Some(Err(Lost::Failed(why))) => return held.give_up(&keeper, &why),
            lost => {
                tracing::debug!(schedule = %held.run, ?lost, "the schedule was not ours to keep");
            }
        }
        // An answer that was lost comes as a refusal the second time, and all was written: the next time comes all the same.
        keeper.due(wake);
        keeper.claim.notify_one();
        held.leave(&keeper);
    });
}

/// Makes sure that every run was started, and tells the schedule which were not.
fn settle(
    node: &Arc<Node>,
    schedule: RunId,
    turn: u64,
    workflow: &Arc<str>,
    starts: impl Iterator<Item = ((RunId, String), Fate)>,
) {
    let mut news = Vec::new();
    for ((run, key), fate) in starts {
        match fate {
            Ok(Written::Existing { run: other }) if other != run => news.push(Message::Existed { key }),
            Ok(_) => metric::run_started(workflow),
            Err(Lost::Refused(why)) => news.push(Message::Refused { key, why: why.to_string() }),
            Err(_) => {}
        }
    }
    if news.is_empty() {
        return node.keeper.be_sure(schedule, turn);
    }
    // If this process dies before they are told, the next turn finds out by itself.
    tell_all(node, schedule, news);
}

/// Tells a schedule or a trigger what became of its starts.
pub(crate) fn tell_all(node: &Arc<Node>, schedule: RunId, news: Vec<Message>) {
    let teller = Arc::clone(node);
    node.hub.backroom.spawn(async move {
        for message in news {
            if let Err(error) = tell(&teller, schedule, &message).await {
                tracing::warn!(%schedule, %error, "a schedule was not told of a run that was not started");
            }
        }
        teller.claim.notify_one();
    });
}

async fn tell(node: &Node, schedule: RunId, message: &Message) -> Result<(), Error> {
    let message = message.encode(&node.hub)?;
    let written = node.hub.committer.write(schedule, Act::Send(message)).await?;
    written.map(drop).map_err(|refusal| Error::refused(schedule, refusal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_from_before_a_page_that_was_written_is_old() {
        let (keeper, run) = (Keeper::default(), RunId::new());
        assert!(!keeper.is_old(run, (1, 0)));
        keeper.wrote(run, (1, 7));
        keeper.wrote(run, (1, 6));
        let old = [(1, 6), (1, 7), (2, 0)].map(|page| keeper.is_old(run, page));
        assert_eq!(old, [true, false, false]);
        assert!(!keeper.is_old(RunId::new(), (1, 0)));
    }

    #[test]
    fn one_turn_is_taken_under_one_claim_however_often_that_is_heard_of() {
        let (keeper, run) = (Keeper::default(), RunId::new());
        let (first, second) = (ClaimId::new(), ClaimId::new());
        assert_eq!(keeper.enter(run, first), Entry::Free);
        assert_eq!(keeper.enter(run, first), Entry::Busy);
        keeper.leave(run, first);
        assert_eq!(keeper.enter(run, first), Entry::Taken);
        assert_eq!(keeper.enter(RunId::new(), first), Entry::Free, "a claim takes many runs");
        assert_eq!(keeper.enter(run, second), Entry::Free);
        keeper.leave(run, second);
        for _ in 0..REMEMBERED - 2 {
            let later = ClaimId::new();
            assert_eq!(keeper.enter(run, later), Entry::Free);
            keeper.leave(run, later);
        }
        assert_eq!(keeper.enter(run, first), Entry::Taken, "also after others");
    }
}
