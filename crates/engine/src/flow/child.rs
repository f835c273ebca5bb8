//! Runs that a durable function starts and waits for.

use std::{
    collections::HashSet,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use windlass_core::{CallKind, Detail, Failure, Journal, RunId, RunState, StepKind, Time, Verdict};
use windlass_store::{Act, End, InboxRow, NewRun, Parent, StepRow, StoreError, Unit};

use super::{
    scene::{CONTINUE, Outcome, Scene, Status, Then},
    wait::Wait,
};
use crate::{
    Error, Workflow,
    client::cancel_run,
    committer::{Fate, Lost, Reply},
    handle::verdict_of,
    hub::Hub,
    node::Node,
    run_loop::Mail,
    start::{Request, new_run, registered},
    take_up,
};

/// How long to wait before the store is asked again for how a child ended.
const AGAIN: Duration = Duration::from_millis(200);

/// A child that the function has started, or is about to.
pub(super) struct Child {
    pub(super) run: RunId,
    new: NewRun,
    /// Whether it goes on when its parent ends.
    pub(super) is_left: bool,
}

/// A run that a durable function waits for.
///
/// It is started once, however often the function is run again. When the function ends before it, it is cancelled,
/// unless it is to be [left alone](Self::leave).
#[derive(Debug)]
#[must_use = "a child is started when this is awaited"]
pub struct ChildWait<'f, O> {
    wait: Wait<'f>,
    output: PhantomData<fn() -> O>,
}

impl<'f, O> ChildWait<'f, O> {
    pub(super) fn new<I>(
        scene: Result<&'f Arc<Scene>, Failure>,
        within: &str,
        workflow: Workflow<I, O>,
        input: I,
    ) -> Self
    where
        I: Serialize + Send + Sync + 'static,
    {
        let name = workflow.name().to_owned();
        let call = scene.and_then(|scene| {
            let new = prepare(scene, Request::new(workflow.into(), input))?;
            let number = scene.call(within, &name, CallKind::Child, None)?;
            scene.add_child(number, new);
            Ok((scene, number))
        });
        Self { wait: Wait { call }, output: PhantomData }
    }

    /// Lets the child go on by itself if the function ends before it. Default: it is cancelled then.
    pub fn leave(self) -> Self {
        self.with(|child| child.is_left = true)
    }

    /// Sets what the child is counted by within its queue, as [`Start::queue_key`](crate::Start::queue_key) does.
    pub fn queue_key(self, key: &str) -> Self {
        self.with(|child| child.new.queue_key = Some(key.into()))
    }

    /// Sets the queue that the child waits in. Default: `default`.
    pub fn queue(self, queue: &str) -> Self {
        self.with(|child| child.new.queue = queue.into())
    }

    /// Sets how urgent the child is: 0 is the most urgent, 9 the least. Default: 5.
    pub fn priority(self, priority: u8) -> Self {
        self.with(|child| child.new.priority = priority.min(9))
    }

    /// Sets the longest that the child may take. Default: what its workflow says.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|child| child.new.timeout = Some(timeout))
    }

    fn with(self, change: impl FnOnce(&mut Child)) -> Self {
        if let Ok((scene, number)) = &self.wait.call {
            scene.state().children.get_mut(number).map(change);
        }
        self
    }
}

impl<O: DeserializeOwned> Future for ChildWait<'_, O> {
    type Output = Result<O, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.wait.poll(cx).map(|ended| ended?.decode())
    }
}

fn prepare(scene: &Scene, request: Request) -> Result<NewRun, Failure> {
    let node = &scene.cell.node;
    if !scene.is_dry() {
        registered(node, &request.workflow).map_err(Failure::from)?;
    }
    let input = request.input?;
    new_run(&node.hub, &request.workflow, request.timeout, &input, &request.settings).map_err(Failure::from)
}

impl Scene {
    fn add_child(&self, number: u64, mut new: NewRun) {
        let mut state = self.state();
        let Some(id) = state.open.get(&number).map(|call| Arc::clone(&call.id)) else { return };
        // Several tasks of one run may start children of the same name.
        let name = if self.is_task() { self.record_name(&id) } else { Arc::clone(&id) };
        let run = state.journal.child(&name, self.cell.subject.generation);
        let topic = format!(">{name}");
        new.parent = Some(Parent { run: self.cell.subject.run, topic: topic.clone() });
        if let Some(call) = state.open.get_mut(&number) {
            call.topic = Some(topic.into());
            state.waits.insert(number);
        }
        state.children.insert(number, Child { run, new, is_left: false });
    }

    /// Records that a child is about to be started: if the run is stopped, the child has to be found.
    pub(super) fn begin_child(self: &Arc<Self>, number: u64, id: &Arc<str>) {
        let now = self.now();
        let left = self.state().children.get(&number).is_some_and(|child| child.is_left);
        match self.cell.encode(&Detail { call: CallKind::Child, left, ..Detail::default() }) {
            Ok(detail) => {
                let row = self.row(id, 1, StepKind::Started, now, now, None, detail);
                self.record(row, Vec::new(), Then::Begun(Arc::clone(id), left));
            }
            Err(why) => self.cell.break_off(why),
        }
    }

    /// Starts a child. It is a repeat if it was started before.
    pub(super) fn start_child(self: &Arc<Self>, number: u64) {
        let state = self.state();
        let Some(child) = state.children.get(&number) else { return };
        let Some(id) = state.open.get(&number).map(|call| Arc::clone(&call.id)) else { return };
        let (run, new) = (child.run, child.new.clone());
        drop(state);
        let scene = Arc::clone(self);
        let reply = move |fate: Fate, thread| match fate {
            Ok(_) => {
                scene.set_status(number, Status::Away);
                scene.cell.node.claim.notify_one();
            }
            Err(Lost::Refused(refusal)) => {
                let failure = Failure::permanent(format!("the child run was not started: {refusal}"));
                scene.end_child(&id, Outcome::Failed(Box::new(failure)), Vec::new());
            }
            Err(lost) => scene.cell.hand(Mail::Committed(0, Err(Box::new(lost))), thread),
        };
        // Here and now, and in the name of this node: a cancel that follows must find the child, and a node that has
        // lost the parent must not start one that nobody knows of any more.
        let unit = Unit { run, act: Act::Start(Box::new(new)) };
        self.cell.node.hub.committer.submit(self.cell.subject.holder, unit, Reply::Then(Box::new(reply)));
    }

    /// Finds out how a child ended, of which a message says that it did.
    pub(super) fn hear_of_child(self: &Arc<Self>, number: u64, row: &InboxRow) {
        let (scene, seq) = (Arc::clone(self), row.seq);
        let state = self.state();
        let Some(run) = state.children.get(&number).map(|child| child.run) else { return };
        let Some(id) = state.open.get(&number).map(|call| Arc::clone(&call.id)) else { return };
        drop(state);
        self.cell.node.user.spawn(async move {
            let hub = &scene.cell.node.hub;
            let end = loop {
                match hub.store.ends(vec![run]).await {
                    Ok(ends) => break ends.into_iter().next().map(|(_, end)| end),
                    Err(StoreError::Closed) => return,
                    Err(error) => tracing::debug!(%error, "how a child ended is asked again"),
                }
                tokio::time::sleep(AGAIN).await;
            };
            match end {
                Some(end) => scene.end_child(&id, scene.outcome_of(run, &end), vec![seq]),
                None => scene.drop_message(number, seq),
            }
        });
    }

    fn outcome_of(&self, run: RunId, end: &End) -> Outcome {
        let hub = &self.cell.node.hub;
        let why = match end.state {
            RunState::Completed => {
                match end.output.clone().map(|kept| hub.read("the output of a child", kept)) {
                    None => return Outcome::Nothing,
                    Some(Ok(json)) => return Outcome::Value(json),
                    Some(Err(error)) => return Outcome::Failed(Box::new(Failure::from(error))),
                }
            }
            _ => verdict_of(hub, end),
        };
        let failure = match why {
            Ok(Some(Verdict::Failed { step, failure, .. })) => {
                let mut failure = *failure;
                failure.message = format!("the child run {run} failed: {step}: {}", failure.message);
                failure
            }
            Ok(Some(Verdict::Cancelled { reason })) => {
                Failure::new(format!("the child run {run} was cancelled: {reason}"))
            }
            Ok(Some(verdict)) => Failure::new(format!("the child run {run} ended: {verdict:?}")),
            Ok(None) => Failure::new(format!("the child run {run} ended: {}", end.state)),
            Err(error) => Failure::from(error),
        };
        Outcome::Failed(Box::new(Failure::permanent(failure)))
    }

    fn end_child(self: &Arc<Self>, id: &Arc<str>, outcome: Outcome, consumed: Vec<i64>) {
        let (now, hub) = (self.now(), &self.cell.node.hub);
        let (kind, output, failure) = match &outcome {
            Outcome::Value(json) => (
                StepKind::Completed,
                Some(hub.keep(format_args!("the output of a child"), json.clone())),
                None,
            ),
            Outcome::Nothing => (StepKind::Completed, None, None),
            Outcome::Failed(failure) => (StepKind::Failed, None, Some(failure.clone())),
        };
        let detail = self.cell.encode(&Detail { call: CallKind::Child, failure, ..Detail::default() });
        match (output.transpose(), detail) {
            (Ok(output), Ok(detail)) => {
                let row = self.row(id, 1, kind, now, now, output, detail);
                self.record(row, consumed, Then::Ended(Arc::clone(id), CallKind::Child, now, outcome));
            }
            (Err(why), _) => self.cell.break_off(why.to_string()),
            (_, Err(why)) => self.cell.break_off(why),
        }
    }

    /// Takes in a message that says nothing new: its child has been opened again since.
    fn drop_message(self: &Arc<Self>, number: u64, seq: i64) {
        let subject = &self.cell.subject;
        let act = Act::Record { claim: subject.claim, steps: Vec::new(), consumed: vec![seq], forget: false };
        let scene = Arc::clone(self);
        let reply = move |fate: Fate, thread| match fate {
            Ok(_) => scene.set_status(number, Status::Away),
            Err(lost) => scene.cell.hand(Mail::Committed(0, Err(Box::new(lost))), thread),
        };
        let unit = Unit { run: subject.run, act };
        self.cell.node.hub.committer.submit(subject.holder, unit, Reply::Then(Box::new(reply)));
    }

    /// Cancels the children that nobody waits for any more, but for those that are to be left alone.
    pub(super) async fn cancel_children(&self) -> Result<(), Error> {
        let children: Vec<RunId> = {
            let mut state = self.state();
            let children = std::mem::take(&mut state.children);
            children.into_values().filter(|child| !child.is_left).map(|child| child.run).collect()
        };
        cancel(&self.cell.node.hub, Some(&self.cell.node), children).await
    }
}

/// The children that a run has started by these records of it, and has not heard of, but for those that are to be left alone.
pub(crate) fn children(
    hub: &Hub,
    run: RunId,
    generation: u32,
    records: &[StepRow],
) -> Result<Vec<RunId>, Error> {
    let (mut round, mut begun, mut heard) = (0, Vec::new(), HashSet::new());
    for row in records.iter().filter(|row| row.name.contains('/')) {
        match row.kind {
            _ if row.name.strip_prefix('/') == Some(CONTINUE) => round = row.attempt,
            // Those of earlier generations were cancelled when these ended.
            _ if row.generation != generation => {}
            StepKind::Started => {
                let detail = take_up::step(hub, row)?.detail;
                if detail.call == CallKind::Child && !detail.left {
                    begun.push(&row.name);
                }
            }
            StepKind::Completed | StepKind::Failed => drop(heard.insert(&row.name)),
            StepKind::Retrying | StepKind::Skipped | StepKind::Cancelled => {}
        }
    }
    let journal = Journal::new(run, round, Time(0), Vec::new());
    let unheard = begun.into_iter().filter(|name| !heard.contains(name));
    Ok(unheard.map(|name| journal.child(name.strip_prefix('/').unwrap_or(name), generation)).collect())
}

/// Cancels runs whose parent has ended.
pub(crate) async fn cancel(hub: &Hub, node: Option<&Arc<Node>>, children: Vec<RunId>) -> Result<(), Error> {
    for run in children {
        match cancel_run(hub, node, run, "the run that started it has ended").await {
            // One that was never started needs no end.
            Ok(_) | Err(Error::UnknownRun(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
