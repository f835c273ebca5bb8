use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass_store::{Side, Verdict};

use super::{Lab, lab_test};
use crate::{Failure, Task, TaskCx, Workflow, WorkflowBuilder};

const EVERY: Duration = Duration::from_secs(5);

/// One task, which waits for a time that does not come.
fn waits(name: &str) -> WorkflowBuilder {
    let wait = |cx: TaskCx| async move {
        cx.defer_until(EVERY * 10_000, || async { false }).await?;
        Ok::<_, Failure>(0_u32)
    };
    Workflow::builder(name).task(Task::new("wait", wait))
}

/// What an engine with these workflows asks of its store in a hundred heartbeats and polls, with a parked run.
fn asked(workflows: Vec<Workflow>) -> BTreeMap<String, u32> {
    lab_test(async |lab: Lab| {
        let (process, counts) = (lab.shared.memory.process(), Arc::new(Mutex::new(BTreeMap::new())));
        let asked = Arc::clone(&counts);
        process.on_call(move |moment| {
            if moment.side == Side::Before {
                *asked.lock().entry(format!("{:?}", moment.call)).or_default() += 1;
            }
            Verdict::Proceed
        });
        let engine = lab.engine_on(process).heartbeat(EVERY).poll(EVERY);
        let engine = workflows.iter().fold(engine, |engine, workflow| engine.workflow(workflow.clone()));
        let engine = engine.launch().await.expect("it launches");
        engine.start(workflows[0].clone(), serde_json::Value::Null).await.expect("it starts");
        lab.advance(EVERY * 10).await;
        counts.lock().clear();
        lab.advance(EVERY * 100).await;
        counts.lock().clone()
    })
}

/// The same with what is asked now and then: whose turn it is to discard, and that what is left of a run be gone.
fn with_janitor(asked: BTreeMap<&str, u32>) -> BTreeMap<String, u32> {
    let mut asked: BTreeMap<String, u32> =
        asked.into_iter().map(|(call, times)| (call.to_owned(), times)).collect();
    *asked.entry("Read".to_owned()).or_default() += 1;
    asked.insert("Discard".to_owned(), 1);
    asked
}

/// Waking is by news. All else is a safety net, which is to cost next to nothing.
#[test]
fn an_idle_engine_asks_one_thing_with_each_heartbeat_and_one_with_each_poll() {
    let asked = asked(vec![waits("plain").build().expect("it is sound")]);
    assert_eq!(asked, with_janitor([("Heartbeat", 100), ("Read", 100)].into()));
}

#[test]
fn an_idle_engine_that_executes_published_attempts_asks_for_them_with_each_poll() {
    let workflows = [waits("plain"), waits("wide").spread()];
    let asked = asked(workflows.map(|workflow| workflow.build().expect("it is sound")).into());
    let wanted = ["ClaimTasks", "Heartbeat", "Read"].map(|call| (call, 100));
    assert_eq!(asked, with_janitor(wanted.into()));
}
