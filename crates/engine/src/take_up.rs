//! Taking up a run that was claimed: from its records to a run loop.

use std::{collections::BTreeMap, sync::Arc};

use windlass_core::{
    Changed, ClaimId, Definition, Detail, LaneId, NodeId, Order, Plan, Run, RunId, RunState, Seed, Step,
    StepKind, Time, UNDO, VERDICT, VERSION, Verdict,
};
use windlass_store::{
    Act, DefinitionId, End, NewEnd, NewSpread, OUTCOME, RunImage, RunRow, SpreadKey, SpreadRow, StepRow,
    StoreError, Unit, Wait,
};

use crate::{
    Error, Slot,
    boxed::boxed,
    committer::{Fate, Reply},
    flow::{self, INHERITED},
    hub::Hub,
    node::{Node, Registered},
    order,
    outputs::Outputs,
    report::Report,
    run_loop::{Mail, RunCell, RunLoop, Subject},
};

/// Continues a claimed run, or blocks it with a reason that a person can act on. Called on threads of the user's
/// runtime: the run's code may begin here.
pub(crate) fn take_up(node: &Arc<Node>, holder: NodeId, claim: ClaimId, image: RunImage) {
    #[cfg(feature = "schedule")]
    if crate::schedule::keeps(&image) {
        return crate::schedule::take_up(node, holder, claim, image);
    }
    let Some(registered) = node.registry.get(&image.run.workflow) else {
        // The claim named the workflows of this node.
        tracing::error!(run = %image.run.id, workflow = %image.run.workflow, "a run was claimed whose workflow is not registered");
        return block(node, holder, claim, &image, None, "its workflow is not registered".to_owned());
    };
    let recorded = match definition_of(&node.hub, &image) {
        Ok(recorded) => recorded,
        Err(error) => return block(node, holder, claim, &image, Some(registered), error.to_string()),
    };
    let registered = registered.serving(recorded);
    let Some(recorded) = other_version(recorded, &image, registered) else {
        return go_on(node, holder, claim, image, registered, None);
    };
    let (node, registered) = (Arc::clone(node), Arc::clone(registered));
    node.user.clone().spawn(boxed(async move {
        match continues(&node.hub, &image, &registered, recorded).await {
            Ok(changed) => go_on(&node, holder, claim, image, &registered, Some(changed)),
            Err(Obstacle::Code(why)) => block(&node, holder, claim, &image, Some(&registered), why),
            Err(Obstacle::Store(error)) => {
                tracing::debug!(run = %image.run.id, %error, "the run is given up: its definition cannot be read now");
                dismiss(&node, holder, image.run.id, claim, Act::Release { claim }, |node| node.claim.notify_one());
            }
        }
    }));
}

/// Goes on with a run, whose definition may have changed.
fn go_on(
    node: &Arc<Node>,
    holder: NodeId,
    claim: ClaimId,
    image: RunImage,
    registered: &Arc<Registered>,
    changed: Option<Changed>,
) {
    match prepare(node, holder, claim, &image, registered) {
        Ok((subject, run)) => {
            // One that begins; those that begin with their start are counted where they get their seats.
            if subject.generation == 1
                && subject.epoch == 0
                && image.steps.iter().all(|row| row.generation == INHERITED)
            {
                let at = node.hub.clock.now();
                node.hub.scribe.count(&image.run.workflow, RunState::Running, at, 1);
            }
            let Some(cell) = RunCell::hold(Arc::clone(node), subject, run) else { return };
            if let Some(changed) = changed {
                note_change(&cell, &image, changed);
            }
            renew(&cell, &image.published);
            cell.deliver(Mail::Begin(image.inbox));
        }
        Err(why) => block(node, holder, claim, &image, Some(registered), why),
    }
}

/// What a run loop is made from, or why this code cannot go on with the run.
pub(crate) fn prepare(
    node: &Arc<Node>,
    holder: NodeId,
    claim: ClaimId,
    image: &RunImage,
    registered: &Arc<Registered>,
) -> Result<(Subject, RunLoop), String> {
    let hub = &node.hub;
    let (seed, outputs) = seed(node, image, registered).map_err(|error| error.to_string())?;
    let run = Run::new(seed).map_err(|divergence| divergence.to_string())?;
    let input = hub.read("the run's input", image.run.input.clone()).map_err(|error| error.to_string())?;
    let subject = Subject {
        run: image.run.id,
        claim,
        holder,
        generation: image.standing.generation,
        epoch: image.standing.recoveries,
        queue: Arc::clone(&image.run.queue),
        key: image.run.key.clone(),
        parent: image.run.parent.as_ref().map(|parent| parent.run),
        input: Slot::from_bytes(input),
        registered: Arc::clone(registered),
        #[cfg(feature = "schedule")]
        fired: crate::schedule::fired(hub, &image.run),
    };
    let mut saved = BTreeMap::new();
    for row in &image.saved {
        let value = hub.read("a saved value", row.value.clone()).map_err(|error| error.to_string())?;
        saved.insert(Arc::clone(&row.step), Slot::from_bytes(value));
    }
    let calls = image.steps.iter().filter(|row| row.name.contains('/')).cloned().collect();
    let undoable = undoable(image, registered);
    Ok((subject, RunLoop::new(run, outputs, saved).with_calls(calls).with_undoable(undoable)))
}

/// The lanes that have completed and can be undone, in the order in which they are recorded. What another run did is its
/// own to undo.
fn undoable(image: &RunImage, registered: &Registered) -> Vec<LaneId> {
    let can_be_undone = |lane: &LaneId| registered.workflow.code()[lane.task.get()].undo.is_some();
    let own = image.steps.iter().filter(|row| row.generation != INHERITED);
    let completed = own.filter(|row| row.kind == StepKind::Completed);
    completed.filter_map(|row| registered.plan.lane(&row.name)).filter(can_be_undone).collect()
}

/// The definition that a run follows: the one that it was begun under, or the last that it went on under.
pub(crate) fn definition_of(hub: &Hub, image: &RunImage) -> Result<Option<DefinitionId>, Error> {
    Ok(match changes(hub, image)?.pop() {
        Some((_, changed)) => Some(DefinitionId(changed.definition)),
        None => image.standing.definition,
    })
}

/// When a run went on under changed definitions, oldest first.
pub(crate) fn changes(hub: &Hub, image: &RunImage) -> Result<Vec<(Time, Changed)>, Error> {
    let mut changes = Vec::new();
    for row in image.steps.iter().filter(|row| &*row.name == VERSION) {
        changes.extend(step(hub, row)?.detail.changed.map(|changed| (row.ended_at, *changed)));
    }
    Ok(changes)
}

/// The definition that a run follows, if it is another than this one, and that matters.
fn other_version(
    recorded: Option<DefinitionId>,
    image: &RunImage,
    registered: &Registered,
) -> Option<DefinitionId> {
    // A durable function that has called nothing yet follows whatever code runs it.
    let matters = !image.steps.is_empty() || registered.plan.flow().is_none();
    recorded.filter(|id| *id != registered.definition && matters)
}

/// Whether a run goes on under this code.
pub(crate) async fn check_version(
    hub: &Hub,
    image: &RunImage,
    registered: &Registered,
) -> Result<(), String> {
    let recorded = definition_of(hub, image).map_err(|error| error.to_string())?;
    match other_version(recorded, image, registered) {
        Some(recorded) => match continues(hub, image, registered, recorded).await {
            Ok(_) => Ok(()),
            Err(Obstacle::Code(why)) => Err(why),
            Err(Obstacle::Store(error)) => Err(error.to_string()),
        },
        None => Ok(()),
    }
}

/// Why a run does not go on under this code.
enum Obstacle {
    /// It does not fit.
    Code(String),
    /// The store could not be asked whether it does.
    Store(StoreError),
}

/// A run goes on under changed code if every recorded task is still there with the same dependencies. Answers what changed.
async fn continues(
    hub: &Hub,
    image: &RunImage,
    registered: &Registered,
    recorded: DefinitionId,
) -> Result<Changed, Obstacle> {
    let code = |why: String| Obstacle::Code(why);
    let row = hub.store.definition(recorded).await.map_err(Obstacle::Store)?;
    let row = row.ok_or_else(|| code("the definition that it was recorded under is missing".to_owned()))?;
    let body = hub.read("a definition", row.body).map_err(|error| code(error.to_string()))?;
    let old = Definition::from_json(&body)
        .map_err(|error| code(format!("the recorded definition cannot be read: {error}")))?;
    let plan = &registered.plan;
    plan.continues(&old, image.steps.iter().map(|step| &*step.name))
        .map_err(|divergence| code(divergence.to_string()))?;
    let (from, to) = (row.version.to_string(), plan.definition.version.to_string());
    tracing::info!(
        run = %image.run.id, workflow = %image.run.workflow, from, to, "the run goes on under changed code"
    );
    Ok(Changed { from, to, definition: registered.definition.0 })
}

/// Records that a graph goes on under a changed definition, before anything that only this one has a place for. A durable
/// function's records do not need a definition to be read, and whether it goes on is only known when it was run again.
fn note_change(cell: &Arc<RunCell>, image: &RunImage, changed: Changed) {
    let subject = &cell.subject;
    if subject.registered.plan.flow().is_some() {
        return;
    }
    let (run, before) = (subject.run, image.steps.iter().filter(|row| &*row.name == VERSION).count());
    let detail = Detail { changed: Some(Box::new(changed)), ..Detail::default() };
    let owner = Arc::clone(cell);
    let reply = move |fate: Fate, thread| {
        if let Err(lost) = fate {
            owner.hand(Mail::Committed(0, Err(Box::new(lost))), thread);
        }
    };
    let now = cell.node.hub.clock.now();
    let detail = match cell.encode(&detail) {
        Ok(detail) => detail,
        // What is recorded under it will not be placed then, and that is said where it is looked at.
        Err(why) => return tracing::warn!(%run, why, "a change of the run's definition cannot be recorded"),
    };
    let row = StepRow {
        generation: subject.generation,
        name: VERSION.into(),
        attempt: u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1),
        epoch: subject.epoch,
        kind: StepKind::Skipped,
        started_at: now,
        ended_at: now,
        output: None,
        detail,
    };
    let act = Act::Record { claim: subject.claim, steps: vec![row], consumed: Vec::new(), forget: false };
    cell.node.hub.committer.submit(subject.holder, Unit { run, act }, Reply::Then(Box::new(reply)));
}

/// What a run is made from, with the outputs of its completed tasks.
pub(crate) fn seed(node: &Node, image: &RunImage, registered: &Registered) -> Result<(Seed, Outputs), Error> {
    let plan = &registered.plan;
    let mut outputs = Outputs::new(plan.definition.tasks.len());
    for row in &image.steps {
        if let (StepKind::Completed, Some(kept), Some(lane)) = (row.kind, &row.output, plan.lane(&row.name)) {
            let json = node.hub.read(format_args!("the result of `{}`", row.name), kept.clone())?;
            outputs.set(lane, Slot::from_bytes(json), kept.clone());
        }
    }
    let mut seed = seed_for_view(&node.hub, image, Arc::clone(plan))?;
    seed.max_recoveries = node.options.max_recoveries;
    seed.fan_limit = u32::try_from(node.options.slots).unwrap_or(u32::MAX);
    seed.spread = Arc::clone(registered.routes.spread());
    seed.published = published(&node.hub, image, plan)?;
    Ok((seed, outputs))
}

/// What a run is made from, for looking at it.
pub(crate) fn seed_for_view(hub: &Hub, image: &RunImage, plan: Arc<Plan>) -> Result<Seed, Error> {
    let steps = image.steps.iter().map(|row| Ok((row.generation, step(hub, row)?)));
    let context = match &image.run.context {
        None => serde_json::Map::new(),
        Some(kept) => {
            let json = hub.read("the run's context", kept.clone())?;
            serde_json::from_slice(&json)
                .map_err(|why| Error::Decode { what: "the run's context".to_owned(), why: why.to_string() })?
        }
    };
    Ok(Seed {
        steps: steps.collect::<Result<_, Error>>()?,
        timeout: image.run.timeout.or(plan.definition.timeout),
        plan,
        generation: image.standing.generation,
        recoveries: image.standing.recoveries,
        max_recoveries: u32::MAX,
        opened_at: image.standing.opened_at,
        fan_limit: u32::MAX,
        spread: Arc::default(),
        published: Vec::new(),
        context,
    })
}

/// The attempts that are out: published, or with an outcome that was not taken in yet.
fn published(hub: &Hub, image: &RunImage, plan: &Plan) -> Result<Vec<(LaneId, u32)>, Error> {
    let mut keys: Vec<SpreadKey> = image.published.iter().map(|row| row.key.clone()).collect();
    for row in image.inbox.iter().filter(|row| row.topic == OUTCOME) {
        let report = Report::decode(hub, row)?;
        if report.generation == image.standing.generation {
            keys.push(report.key);
        }
    }
    Ok(keys.into_iter().filter_map(|key| Some((plan.lane(&key.step)?, key.attempt))).collect())
}

/// Has what another version of the code published executed by this one: there may be no other any more.
fn renew(cell: &Arc<RunCell>, published: &[SpreadRow]) {
    let (claim, definition) = (cell.subject.claim, cell.subject.registered.definition);
    let foreign = published.iter().filter(|row| row.definition != definition);
    let tasks: Vec<NewSpread> =
        foreign.map(|row| NewSpread { key: row.key.clone(), queue: Arc::clone(&row.queue) }).collect();
    if tasks.is_empty() {
        return;
    }
    let owner = Arc::clone(cell);
    let reply = move |fate: Fate, thread| match fate {
        Ok(_) => owner.node.guests.changed.notify_one(),
        Err(lost) => owner.hand(Mail::Committed(0, Err(Box::new(lost))), thread),
    };
    let unit = Unit { run: cell.subject.run, act: Act::Publish { claim, definition, tasks } };
    cell.node.hub.committer.submit(cell.subject.holder, unit, Reply::Then(Box::new(reply)));
}

/// A step as it was recorded.
pub(crate) fn step(hub: &Hub, row: &StepRow) -> Result<Step, Error> {
    let detail = match &row.detail {
        None => Detail::default(),
        Some(kept) => {
            let what = || format!("the record of `{}`", row.name);
            let json = hub.read(what(), kept.clone())?;
            Detail::from_json(&json).map_err(|why| Error::Decode { what: what(), why: why.to_string() })?
        }
    };
    Ok(Step {
        name: Arc::clone(&row.name),
        attempt: row.attempt,
        epoch: row.epoch,
        kind: row.kind,
        started_at: row.started_at,
        ended_at: row.ended_at,
        detail,
    })
}

/// What a blocked run says that has a verdict, and waits for code that can undo what it did.
pub(crate) const SETTLED: &str =
    "how it ends is settled, and what it did is undone when there is code that agrees";

fn block(
    node: &Arc<Node>,
    holder: NodeId,
    claim: ClaimId,
    image: &RunImage,
    registered: Option<&Arc<Registered>>,
    why: String,
) {
    let run = image.run.id;
    let timeout = image.run.timeout.or(registered.and_then(|known| known.plan.definition.timeout));
    let mut until = timeout.map(|timeout| image.standing.opened_at + timeout);
    let is_judged = |row: &StepRow| &*row.name == VERDICT && row.generation == image.standing.generation;
    let (mut why, mut topics) = (why, vec![order::TERMINATE.to_owned()]);
    if image.steps.iter().any(is_judged) {
        // What is still to be undone waits for code that can do it.
        (why, until) = (format!("{why}; {SETTLED}"), None);
    } else {
        topics.push(order::CANCEL.to_owned());
        let cancelled = image.inbox.iter().find_map(|row| match order::decode(row) {
            Some(Order::Cancel { reason }) => Some(Verdict::Cancelled { reason }),
            _ => None,
        });
        let is_late = until.is_some_and(|until| until <= node.hub.clock.now());
        let late = timeout.filter(|_| is_late);
        let late = late.map(|after| Verdict::TimedOut { after, unfinished: Vec::new() });
        if let Some(verdict) = cancelled.or(late) {
            let (node, image, registered) = (Arc::clone(node), image.clone(), registered.cloned());
            node.user.clone().spawn(boxed(async move {
                settle(&node, holder, claim, &image, registered.as_deref(), verdict, why).await;
            }));
            return;
        }
    }
    tracing::error!(%run, workflow = %image.run.workflow, why, "the run is blocked");
    let wait = Wait {
        state: RunState::Blocked,
        until,
        topics,
        reason: Some(why),
        blocked_by: registered.map(|known| known.definition),
    };
    dismiss(
        node,
        holder,
        run,
        claim,
        Act::Park { claim, steps: Vec::new(), consumed: Vec::new(), wait },
        |_| {},
    );
}

/// A time limit, and a person who cancels, hold for a blocked run too. It ends without its code if nothing has to be undone;
/// else that waits for code that agrees, and what the run has started does not.
async fn settle(
    node: &Arc<Node>,
    holder: NodeId,
    claim: ClaimId,
    image: &RunImage,
    registered: Option<&Registered>,
    verdict: Verdict,
    why: String,
) {
    let (run, generation) = (image.run.id, image.standing.generation);
    let release = |error: Error| {
        tracing::debug!(%run, %error, "the run is given up: how it ends cannot be settled now");
        dismiss(node, holder, run, claim, Act::Release { claim }, |node| node.claim.notify_one());
    };
    let children = flow::children(&node.hub, run, generation, &image.steps).unwrap_or_else(|error| {
        tracing::error!(%run, %error, "what the run has started cannot be read, and is not cancelled");
        Vec::new()
    });
    let has_undos = match may_be_undone(&node.hub, image, registered).await {
        Ok(has_undos) => has_undos,
        Err(error) => return release(error),
    };
    if !has_undos {
        // Whoever takes it up after a crash does the same again.
        return match flow::cancel(&node.hub, Some(node), children).await {
            Ok(()) => end(node, holder, claim, &image.run, &verdict),
            Err(error) => release(error),
        };
    }
    let why = format!("{why}; {SETTLED}");
    tracing::error!(%run, workflow = %image.run.workflow, why, "the run is blocked");
    let detail = Detail { verdict: Some(Box::new(verdict)), ..Detail::default() };
    let detail = detail.to_json().map(|json| node.hub.codec.encode(json.into()));
    let Ok(Ok(detail)) = detail else {
        let what = "a verdict".to_owned();
        return release(Error::Encode { what, why: "the codec refuses it".to_owned() });
    };
    let now = node.hub.clock.now();
    let row = StepRow {
        generation,
        name: VERDICT.into(),
        attempt: 0,
        epoch: image.standing.recoveries,
        kind: StepKind::Skipped,
        started_at: now,
        ended_at: now,
        output: None,
        detail: Some(detail),
    };
    let wait = Wait {
        state: RunState::Blocked,
        until: None,
        topics: vec![order::TERMINATE.to_owned()],
        reason: Some(why),
        blocked_by: registered.map(|known| known.definition),
    };
    let node_again = Arc::clone(node);
    let act = Act::Park { claim, steps: vec![row], consumed: Vec::new(), wait };
    dismiss(node, holder, run, claim, act, move |node| {
        node.user.clone().spawn(boxed(async move {
            // Where this fails, whoever undoes the run does it.
            if let Err(error) = flow::cancel(&node_again.hub, Some(&node_again), children).await {
                tracing::warn!(%run, %error, "what a blocked run has started was not cancelled");
            }
        }));
    });
}

/// Whether something that the run did has an undo, as far as is known without its code.
async fn may_be_undone(hub: &Hub, image: &RunImage, registered: Option<&Registered>) -> Result<bool, Error> {
    let recorded = match definition_of(hub, image)? {
        Some(id) => hub.store.definition(id).await?,
        None => None,
    };
    let recorded = match recorded {
        Some(row) => Definition::from_json(&hub.read("a definition", row.body)?).ok(),
        None => None,
    };
    let definitions: Vec<&Definition> =
        recorded.iter().chain(registered.map(|known| &*known.plan.definition)).collect();
    let is_undone = |of: &StepRow| {
        let undo = |row: &&StepRow| row.name.strip_suffix(UNDO) == Some(&*of.name);
        let done = image.steps.iter().filter(|row| row.kind == StepKind::Completed);
        done.filter(undo).any(|row| row.generation >= of.generation)
    };
    let has_undo = |row: &StepRow| match row.name.split_once('/') {
        // What a durable function did is known to its code alone.
        Some(("", call)) => !call.starts_with('/'),
        Some(_) => false,
        None => {
            let task = row.name.split('[').next().unwrap_or(&row.name);
            let mut known =
                definitions.iter().filter_map(|known| Some(known.task(known.find(task)?))).peekable();
            known.peek().is_none() || known.any(|task| task.undo)
        }
    };
    let own = image.steps.iter().filter(|row| row.generation != INHERITED);
    let completed = own.filter(|row| row.kind == StepKind::Completed);
    Ok(completed.filter(|row| has_undo(row)).any(|row| !is_undone(row)))
}

/// Ends a run for which no run loop was made.
fn end(node: &Arc<Node>, holder: NodeId, claim: ClaimId, row: &RunRow, verdict: &Verdict) {
    let (run, parent) = (row.id, row.parent.as_ref().map(|parent| parent.run));
    let failure = match verdict.to_json().map(|json| node.hub.codec.encode(json.into())) {
        Ok(Ok(kept)) => Some(kept),
        _ => None,
    };
    let state = verdict.state();
    let end = NewEnd { state, output: None, failure: failure.clone() };
    dismiss(node, holder, run, claim, Act::End { claim, steps: Vec::new(), end }, move |node| {
        let at = node.hub.clock.now();
        node.hub.ended(run, || End { state, at, output: None, failure });
        if let Some(parent) = parent {
            node.delivered_to(parent);
        }
    });
}

/// Gives up a run for which no run loop was made.
fn dismiss(
    node: &Arc<Node>,
    holder: NodeId,
    run: RunId,
    claim: ClaimId,
    act: Act,
    then: impl FnOnce(&Node) + Send + 'static,
) {
    let node_again = Arc::clone(node);
    let reply = Reply::Then(Box::new(move |fate: Fate, _| {
        match fate {
            Ok(_) => then(&node_again),
            Err(lost) => {
                tracing::debug!(%run, ?lost, "the run was not given up");
                node_again.forsake(holder, run, claim);
            }
        }
        // Room was reserved for the run, which no run loop ever took.
        node_again.unreserve(1);
    }));
    node.hub.committer.submit(holder, Unit { run, act }, reply);
}
