//! Asking triggers.

use std::sync::Arc;

use tokio::time::timeout;
use windlass_core::{
    ClaimId, Failure, NodeId, RunId, RunState, Time, format_duration,
    schedule::{Event, Firing, Outcome, Status},
};
use windlass_store::{Act, Place, Refusal, RunImage, Unit, Wait, Written};

use super::{
    Trigger, TriggerCx,
    definition::{Asked, Mark},
    ledger::{Ledger, Live},
};
use crate::{
    AnyWorkflow, Error, Task, TaskCx, Workflow,
    committer::{Fate, Lost},
    metric,
    node::Node,
    order,
    reserved::own_id,
    schedule::{Guard, Held, Message, TOLD, open, own_run, tell_all},
};

/// What the names of triggers' own workflows begin with: only a process that has the trigger claims its run.
pub(crate) const PREFIX: &str = "windlass.trigger.";
/// The key of the one run that a trigger has.
pub(super) const KEY: &str = "trigger";
/// What the runs of triggers are found by.
pub(super) const TAG: &str = "windlass.trigger";

/// A trigger remembers no more runs that are under way. It waits until some have ended.
const MOST_LIVE: usize = 1_000;

/// What wakes a trigger beside its time. That a run has ended is taken in with the next question, and wakes nobody.
const TOPICS: [&str; 2] = [TOLD, order::TERMINATE];

/// The workflow that a trigger's run is of. Its code is never executed.
pub(crate) fn own_workflow(trigger: &Trigger) -> Result<AnyWorkflow, Error> {
    let never = |_: TaskCx| async { Err::<(), _>(Failure::permanent("a trigger has no code of its own")) };
    let name = trigger.own_workflow().to_string();
    let workflow = Workflow::builder(name).version("1").task(Task::new("keep", never)).build();
    workflow.map(Into::into).map_err(|error| Error::Invalid(error.to_string()))
}

/// Makes the run of a trigger, if there is none, and opens it again if it has ended: a program that has the trigger wants
/// it to be asked.
pub(crate) async fn ensure(node: &Arc<Node>, trigger: &Trigger) -> Result<(), Error> {
    let (hub, workflow) = (&node.hub, trigger.own_workflow());
    if let Some(run) = hub.store.by_key(Arc::clone(&workflow), KEY.to_owned()).await? {
        return reopen(node, run).await;
    }
    let what = "a trigger";
    let json = serde_json::to_vec(&trigger.schedule()?)
        .map_err(|why| Error::Encode { what: what.to_owned(), why: why.to_string() })?;
    let input = hub.keep(format_args!("{what}"), json.into())?;
    let new = own_run(workflow, KEY, vec![TAG.to_owned()], input);
    let run = own_id();
    let started = hub.committer.write(run, Act::Start(Box::new(new))).await?;
    node.claim.notify_one();
    started.map(drop).map_err(|refusal| Error::refused(run, refusal))
}

async fn reopen(node: &Arc<Node>, run: RunId) -> Result<(), Error> {
    let Some(image) = node.hub.store.load(run).await? else { return Ok(()) };
    if !matches!(image.standing.place, Place::Ended(_)) {
        return Ok(());
    }
    let reopened = node.hub.committer.write(run, Act::Reopen { after: image.standing.generation }).await?;
    node.claim.notify_one();
    match reopened {
        // Another process was quicker.
        Ok(_) | Err(Refusal::Open) => Ok(()),
        Err(refusal) => Err(Error::refused(run, refusal)),
    }
}

/// Takes a turn of a trigger that was claimed.
pub(crate) fn take_up(node: &Arc<Node>, holder: NodeId, claim: ClaimId, image: RunImage) {
    let held = Held { run: image.run.id, claim, holder };
    if !held.enter(node) {
        return;
    }
    let keeper = Arc::clone(node);
    node.hub.backroom.spawn(async move {
        let _guard = Guard { node: Arc::clone(&keeper), held };
        match take_turn(&keeper, held, &image).await {
            Ok(Some(taken)) => commit(&keeper, held, taken),
            // The engine stops, or has lost the run: another asks again.
            Ok(None) => held.leave(&keeper),
            Err(error) => held.postpone(&keeper, &image, &TOPICS, &error),
        }
    });
}

/// What a turn comes to, to be written.
struct Taken {
    units: Vec<Unit>,
    /// The run that is started by the first of them, with its workflow.
    start: Option<(RunId, Arc<str>)>,
    turn: u64,
    wake: Option<Time>,
}

/// Takes in what has come, asks if it is time, and answers with what is to be written and when it is time again.
async fn take_turn(node: &Arc<Node>, held: Held, image: &RunImage) -> Result<Option<Taken>, Error> {
    let hub = &node.hub;
    let trigger = node.keeper.trigger(&image.run.workflow);
    let trigger = trigger.ok_or_else(|| Error::Invalid("this process has no such trigger".to_owned()))?;
    let mut ledger = Ledger::read(hub, image)?;
    let before = ledger.state.status();
    let (mail, mut is_notable) = (open(hub, &image.inbox)?, false);
    let (consumed, mut firing): (Vec<i64>, Option<Firing>) =
        (mail.iter().map(|(seq, ..)| *seq).collect(), None);
    for (_, _, heard) in mail {
        is_notable = true;
        let asks = ledger.hear(heard, hub.clock.now());
        firing = firing.or(asks);
    }
    let Some(ended) = look_for_ends(node, held, &ledger).await? else { return Ok(None) };
    is_notable |= !ended.is_empty();
    ledger.live.retain(|live| !ended.contains(&live.run));
    is_notable |= heal(node, held, &mut ledger).await?;
    let schedule = trigger.schedule()?;
    if schedule != ledger.schedule {
        // The program has changed.
        let now = hub.clock.now();
        let asks = ledger.feed(Event::Update(Box::new(schedule.clone())), now);
        (ledger.schedule, firing, is_notable) = (schedule, firing.or(asks), true);
    }
    firing = firing.or_else(|| ledger.feed(Event::Due, hub.clock.now()));
    let mut units = Vec::new();
    if let Some(firing) = firing {
        let Some(answer) = ask(node, held, &trigger).await else { return Ok(None) };
        // A success forgives what was written down.
        is_notable |= matches!(before, Status::Backoff { .. } | Status::Tripped { .. });
        let answer = match answer {
            Ok(asked) => fire(node, held, &trigger, &mut ledger, &firing, asked).await,
            Err(failure) => Err(failure),
        };
        let outcome = match answer {
            Ok(start) => {
                is_notable |= start.is_some();
                units.extend(start);
                Outcome::Completed
            }
            Err(failure) => {
                tracing::warn!(trigger = trigger.name(), %failure, "a trigger failed");
                is_notable = true;
                Outcome::Failed { error: failure.to_string() }
            }
        };
        // What follows at once is asked in the next turn.
        let at = hub.clock.now();
        let again = ledger.feed(Event::Ended { key: firing.key, outcome, at }, at);
        if let Some(again) = again {
            ledger.feed(Event::Existed { key: again.key }, hub.clock.now());
        }
    }
    let (now, wake) = (hub.clock.now(), ledger.state.wake());
    let Held { run, claim, .. } = held;
    let mut taken_in = consumed;
    if is_notable {
        let (steps, consumed) = (vec![ledger.write(hub, image, now)?], std::mem::take(&mut taken_in));
        units.push(Unit { run, act: Act::Record { claim, steps, consumed, forget: true } });
    }
    // A question that was answered with nothing leaves no record: whoever is next asks once for all that it missed.
    let act = Act::Park { claim, steps: Vec::new(), consumed: taken_in, wait: wait(wake) };
    units.push(Unit { run, act });
    let start = units.first().and_then(|unit| match &unit.act {
        Act::Start(new) => Some((unit.run, Arc::clone(&new.workflow))),
        _ => None,
    });
    Ok(Some(Taken { units, start, turn: ledger.turn, wake }))
}

/// Forgets runs that were never started: the answer was lost with a process. Answers whether there were any.
async fn heal(node: &Node, held: Held, ledger: &mut Ledger) -> Result<bool, Error> {
    let is_sure = node.keeper.is_sure(held.run, ledger.turn);
    let doubtful: Vec<RunId> =
        ledger.live.iter().filter(|live| !is_sure && !live.is_sure).map(|live| live.run).collect();
    let mut is_changed = false;
    for run in doubtful {
        if node.hub.store.load(run).await?.is_none() {
            ledger.take_back(&run.to_string());
            is_changed = true;
        }
    }
    ledger.live.iter_mut().for_each(|live| live.is_sure = true);
    Ok(is_changed)
}

/// Which of its runs have ended, whatever became of the message; `None` when the run is not this node's any more.
async fn look_for_ends(node: &Node, held: Held, ledger: &Ledger) -> Result<Option<Vec<RunId>>, Error> {
    let hub = &node.hub;
    let mut ended = Vec::new();
    let runs: Vec<RunId> = ledger.live.iter().map(|live| live.run).collect();
    for portion in runs.chunks(500) {
        loop {
            if hub.closed.is_cancelled() || !node.is(held.holder) {
                return Ok(None);
            }
            match hub.store.ends(portion.to_vec()).await {
                Ok(ends) => break ended.extend(ends.into_iter().map(|(run, _)| run)),
                Err(error) if error.is_temporary() => tokio::time::sleep(crate::schedule::AGAIN).await,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(Some(ended))
}

/// Asks, on the user's threads. Answers nothing when the engine stops meanwhile, or may not act any more.
async fn ask(node: &Arc<Node>, held: Held, trigger: &Arc<Trigger>) -> Option<Result<Option<Asked>, Failure>> {
    let (asked, cx) = (Arc::clone(trigger), TriggerCx::new(Arc::clone(&node.resources)));
    // Its code may panic before it gives a future.
    let mut question = node.user.spawn(async move { asked.ask(cx).await });
    let answer = tokio::select! {
        answer = timeout(trigger.limit(), &mut question) => answer,
        () = node.stopping.cancelled() => { question.abort(); return None }
        () = node.hub.closed.cancelled() => { question.abort(); return None }
        () = node.hub.identity.lost(Some(held.holder)) => { question.abort(); return None }
    };
    Some(match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(Failure::permanent("the trigger panicked")),
        Err(_) => {
            question.abort();
            let limit = format_duration(trigger.limit());
            Err(Failure::permanent(format!("the trigger took longer than {limit}")))
        }
    })
}

/// The start of the run that an answer asks for, unless one like it is under way.
async fn fire(
    node: &Node,
    held: Held,
    trigger: &Trigger,
    ledger: &mut Ledger,
    firing: &Firing,
    asked: Option<Asked>,
) -> Result<Option<Unit>, Failure> {
    let Some(asked) = asked else { return Ok(None) };
    let mark = trigger.mark(&asked)?;
    if let Mark::WhileLive(key) = &mark {
        if ledger.live.iter().any(|live| live.key == *key) {
            return Ok(None);
        }
        if ledger.live.len() >= MOST_LIVE {
            return Err(Failure::permanent(format!("{MOST_LIVE} runs of the trigger are under way")));
        }
    }
    if let Mark::Once(key) = &mark
        && trigger.has_run(&node.hub, key).await.map_err(Failure::from)?
    {
        return Ok(None);
    }
    let run = trigger.run_id(firing, held.run, ledger.turn + 1);
    let new = trigger.new_run(&node.hub, held.run, &asked, &mark).map_err(Failure::from)?;
    if let Mark::WhileLive(key) = mark {
        ledger.live.push(Live { key, run, is_sure: false });
    }
    ledger.fired += 1;
    ledger.last_fired = Some(firing.fired_at);
    Ok(Some(Unit { run, act: Act::Start(Box::new(new)) }))
}

fn wait(until: Option<Time>) -> Wait {
    let topics = TOPICS.map(str::to_owned).to_vec();
    let reason = Some("waiting to be asked".to_owned());
    Wait { state: RunState::Suspended, until, topics, reason, blocked_by: None }
}

/// Writes all that the turn came to, or nothing.
fn commit(node: &Arc<Node>, held: Held, taken: Taken) {
    let Taken { units, start, turn, wake } = taken;
    let keeper = Arc::clone(node);
    node.hub.committer.submit_group(held.holder, units, move |mut fates| {
        match fates.pop() {
            Some(Ok(_)) => {
                keeper.keeper.succeeded(held.run);
                match start.zip(fates.into_iter().next()).and_then(|(start, fate)| unstarted(start, fate)) {
                    None => keeper.keeper.be_sure(held.run, turn),
                    // If this process dies before it is told, the next turn finds out by itself.
                    Some(news) => tell_all(&keeper, held.run, vec![news]),
                }
            }
            Some(Err(Lost::Failed(why))) => return held.give_up(&keeper, &why),
            lost => tracing::debug!(trigger = %held.run, ?lost, "the trigger was not ours to ask"),
        }
        // An answer that was lost comes as a refusal the second time: see the schedules.
        keeper.due(wake);
        keeper.claim.notify_one();
        held.leave(&keeper);
    });
}

/// What the trigger has to hear of a start that came to nothing. It is known by the id of the run.
fn unstarted((run, workflow): (RunId, Arc<str>), fate: Fate) -> Option<Message> {
    let key = run.to_string();
    match fate {
        Ok(Written::Existing { run: other }) if other != run => Some(Message::Existed { key }),
        Err(Lost::Refused(why)) => Some(Message::Refused { key, why: why.to_string() }),
        Ok(_) => {
            metric::run_started(&workflow);
            None
        }
        Err(_) => None,
    }
}
