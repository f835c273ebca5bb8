use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::oneshot;
use windlass_core::{ClaimId, LaneId, Order, Seed, TaskIx, Time};
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

type Held = (Engine, Arc<RunCell>, crate::Run<serde_json::Value>);

/// A run that was started, held once more: it has yet to begin.
async fn held_once_more(
    workflow: Workflow<serde_json::Value, serde_json::Value>,
    published: Vec<(LaneId, u32)>,
) -> Held {
    let store = Arc::new(Memory::new(|| Time(1_000_000)));
    let engine = Engine::over(store).workflow(workflow.clone()).launch().await.expect("it launches");
    let handle = engine.start(workflow, serde_json::Value::Null).await.expect("it starts");
    let (client, run) = (engine.client(), handle.id());
    let node = client.node().expect("an engine has one");
    let registered = node.registry.values().next().expect("there is one workflow");
    let subject = Subject {
        run,
        claim: ClaimId::first(run),
        holder: node.id().expect("it has joined"),
        generation: 1,
        epoch: 0,
        queue: "default".into(),
        key: None,
        input: Slot::from_bytes(Bytes::from_static(b"null")),
        registered: Arc::clone(registered),
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
    let cell = RunCell::hold(Arc::clone(node), subject, RunLoop::new(core, outputs, BTreeMap::new()));
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
