use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::oneshot;
use windlass_core::{ClaimId, LaneId, Order, Seed, TaskIx, Time};
#[cfg(feature = "sqlite")]
use windlass_store::{Act, NewRun, Parent};
use windlass_store::{InboxRow, Memory, OUTCOME, SpreadKey};

use super::{Mail, RunCell, RunLoop, Subject};
use crate::{
    Done, Engine, Failure, Slot, Task, Workflow, order,
    outputs::Outputs,
    report::{Ending, Report},
};

/// What may start and is stopped before it did is the last that anybody hears of this run.
#[tokio::test]
async fn a_run_that_is_told_to_start_and_to_stop_in_one_breath_ends() {
    let body = |_| std::future::pending::<Result<u32, Failure>>();
    let workflow = Workflow::builder("idle").task(Task::new("wait", body)).build().expect("it is sound");
    let (_engine, cell, handle) = held_once_more(workflow, Vec::new()).await;
    // All of this comes before the runtime's only thread turns to the first.
    cell.tell(Mail::Describe(oneshot::channel().0));
    cell.tell(Mail::Begin(Vec::new()));
    let message = order::encode(&Order::Cancel { reason: "enough".to_owned() });
    let at = cell.node.hub.clock.now();
    let row = InboxRow { seq: 1, run: handle.id(), topic: message.topic, body: message.body, at };
    cell.tell(Mail::Inbox(Box::new(row)));
    let told = std::time::Instant::now();
    let ended = tokio::time::timeout(Duration::from_secs(5), handle).await.expect("the run ends");
    assert!(told.elapsed() < Duration::from_secs(2), "{:?}", told.elapsed());
    assert_eq!(ended.expect_err("it was cancelled").code(), "run_cancelled");
}

/// The run may have taken it in before it was parked, and has forgotten that since it was taken up again.
#[tokio::test]
async fn an_event_that_was_read_before_its_run_was_taken_up_is_read_again_and_not_delivered() {
    let body = |_| std::future::pending::<Result<u32, Failure>>();
    let workflow = Workflow::builder("idle").task(Task::new("wait", body)).build().expect("it is sound");
    let (_engine, cell, handle) = held_once_more(workflow, Vec::new()).await;
    cell.deliver(Mail::Begin(Vec::new()));
    let at = cell.node.hub.clock.now();
    let row = InboxRow { seq: 1, run: handle.id(), topic: "go".to_owned(), body: Bytes::new(), at };
    let describe = || async {
        let (sender, described) = oneshot::channel();
        cell.tell(Mail::Describe(sender));
        described.await.expect("it answers what came before");
    };
    cell.node.deliver(vec![row.clone()], cell.number);
    describe().await;
    assert!(cell.mailbox().is_empty());
    cell.node.deliver(vec![row.clone()], cell.node.point());
    cell.node.deliver(vec![row], cell.node.point());
    describe().await;
    assert_eq!(cell.mailbox().len(), 1, "it is there once");
}

type Held = (Engine, Arc<RunCell>, crate::Run<serde_json::Value>);

/// A run that was started, held once more: it has yet to begin.
async fn held_once_more(
    workflow: Workflow<serde_json::Value, serde_json::Value>,
    published: Vec<(LaneId, u32)>,
) -> Held {
    let store = Arc::new(Memory::new(|| Time(1_000_000)));
    let engine = Engine::over(store).workflow(workflow.clone()).launch().await.expect("it launches");
    let name = workflow.name().to_owned();
    let handle = engine.start(workflow, serde_json::Value::Null).await.expect("it starts");
    let (client, run) = (engine.client(), handle.id());
    let node = client.node().expect("an engine has one");
    let registered = &node.registry[name.as_str()];
    let subject = Subject {
        run,
        claim: ClaimId::first(run),
        holder: node.id().expect("it has joined"),
        generation: 1,
        epoch: 0,
        queue: "default".into(),
        key: None,
        parent: None,
        input: Slot::from_bytes(Bytes::from_static(b"null")),
        registered: Arc::clone(registered),
        #[cfg(feature = "schedule")]
        fired: None,
    };
    let seed = Seed {
        plan: Arc::clone(&registered.plan),
        generation: 1,
        recoveries: 0,
        max_recoveries: 5,
        opened_at: node.hub.clock.now(),
        timeout: None,
        fan_limit: 10,
        spread: Arc::clone(registered.routes.spread()),
        published,
        context: serde_json::Map::new(),
        steps: Vec::new(),
    };
    let outputs = Outputs::new(seed.plan.definition.tasks.len());
    let core = windlass_core::Run::new(seed).expect("it fits");
    assert!(node.reserve());
    node.release(run, subject.claim);
    let cell = RunCell::hold(Arc::clone(node), subject, RunLoop::new(core, outputs, BTreeMap::new()));
    let cell = cell.expect("nobody holds it");
    (engine, cell, handle)
}

/// A run of a task that nobody executes, and of these others.
async fn far(others: &[&str], published: Vec<(LaneId, u32)>) -> Held {
    let body = |_| std::future::pending::<Result<u32, Failure>>();
    let far = Task::new("far", body).queue("nowhere");
    let others = others.iter().map(|name| Task::new(*name, body));
    let workflow = Workflow::builder("far").task(far).tasks(others).output("far").build();
    held_once_more(workflow.expect("it is sound"), published).await
}

#[tokio::test]
async fn an_outcome_that_comes_before_its_run_has_begun_is_not_lost() {
    let (_engine, cell, handle) = far(&[], vec![(LaneId::of(TaskIx::from(0)), 1)]).await;
    let hub = &cell.node.hub;
    let output = Slot::new(7).expect("a number is JSON");
    let report = Report {
        generation: 1,
        key: SpreadKey { step: "far".into(), attempt: 1 },
        started_at: hub.clock.now(),
        ending: Ending::Done(Done { output, changes: Default::default() }),
    };
    let body = report.encode(hub).expect("it can be written");
    let row = InboxRow { seq: 1, run: handle.id(), topic: OUTCOME.to_owned(), body, at: hub.clock.now() };
    cell.tell(Mail::Inbox(Box::new(row)));
    cell.tell(Mail::Begin(Vec::new()));
    let output = tokio::time::timeout(Duration::from_secs(5), handle).await.expect("the run ends");
    assert_eq!(output.expect("it completes"), 7);
}

/// What is to be published is published before it is taken back, and not the other way round.
#[tokio::test]
async fn a_run_that_is_told_to_begin_and_to_pause_in_one_breath_leaves_nothing_published() {
    // Something executes, so that the run is not parked.
    let (engine, cell, handle) = far(&["here"], Vec::new()).await;
    cell.tell(Mail::Describe(oneshot::channel().0));
    cell.tell(Mail::Begin(Vec::new()));
    let message = order::encode(&Order::Pause);
    let at = cell.node.hub.clock.now();
    let row = InboxRow { seq: 1, run: handle.id(), topic: message.topic, body: message.body, at };
    cell.tell(Mail::Inbox(Box::new(row)));
    let client = engine.client();
    let withdrawn = async {
        loop {
            let (sender, described) = oneshot::channel();
            cell.tell(Mail::Describe(sender));
            let described = described.await.expect("the run is held");
            let state = described.tasks[0].state;
            let image = client.hub().store.load(handle.id()).await.expect("the store answers");
            if state == windlass_core::TaskState::Ready && image.expect("it is there").published.is_empty() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(5), withdrawn).await.expect("it is taken back");
}

/// Another process would hear of it by a hint, and this one with its next heartbeat at the latest.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_parent_that_is_held_hears_at_once_that_its_child_has_ended() {
    let waits = |_| std::future::pending::<Result<u32, Failure>>();
    let ends = |_| std::future::ready(Ok::<u32, Failure>(1));
    let parent = Workflow::builder("parent").task(Task::new("wait", waits)).build().expect("it is sound");
    let child = Workflow::builder("child").task(Task::new("end", ends)).build().expect("it is sound");
    let never = Duration::from_secs(3600);
    let engine = Engine::open("sqlite::memory:").workflow(parent.clone()).workflow(child);
    let engine = engine.heartbeat(never).stale_after(never * 10).poll(never);
    let engine = engine.launch().await.expect("it launches");
    let parent = engine.start(parent, serde_json::Value::Null).await.expect("it starts");
    let client = engine.client();
    let node = client.node().expect("an engine has one");
    let cell = node.cell(parent.id()).expect("it is held");
    for ended_by_a_person in [false, true] {
        let child = windlass_core::RunId::new();
        let heard = async {
            while cell.heard() == usize::from(ended_by_a_person) {
                tokio::task::yield_now().await;
            }
        };
        let delay = ended_by_a_person.then_some(never);
        let told = Parent { run: parent.id(), topic: ">child".to_owned() };
        let start = Act::Start(Box::new(child_of(told, delay)));
        client.hub().committer.write(child, start).await.expect("it commits").expect("it starts");
        client.nudge().await;
        if ended_by_a_person {
            client.cancel(child, "enough").await.expect("it is cancelled");
        }
        tokio::time::timeout(Duration::from_secs(5), heard).await.expect("the parent hears of it");
    }
}

#[cfg(feature = "sqlite")]
fn child_of(parent: Parent, delay: Option<Duration>) -> NewRun {
    NewRun {
        workflow: "child".into(),
        queue: "default".into(),
        queue_key: None,
        priority: 5,
        delay,
        timeout: None,
        input: Bytes::from_static(b"null"),
        context: None,
        key: None,
        tags: Vec::new(),
        forked_from: None,
        trace: None,
        parent: Some(parent),
        steps: Vec::new(),
        owner: None,
    }
}
