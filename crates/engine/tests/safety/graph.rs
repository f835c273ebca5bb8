//! The workflows that the tests run.

use std::{sync::Arc, time::Duration};

use windlass::{Failure, Retry, Rule, Task, TaskCx, Workflow};

use crate::{ledger::Ledger, room::Room};

/// A moment of work, so that a kill has something to interrupt.
const WORK: Duration = Duration::from_millis(2);

/// A task that notes its execution and adds up what its dependencies gave.
fn noted<const N: usize>(ledger: &Arc<Ledger>, name: &str, after: [&'static str; N]) -> Task {
    let ledger = Arc::clone(ledger);
    let body = move |cx: TaskCx| {
        let ledger = Arc::clone(&ledger);
        async move {
            ledger.note(&cx);
            tokio::time::sleep(WORK).await;
            let mut sum = 1_u64;
            for task in after {
                sum += cx.outcome::<u64>(task)?.completed().unwrap_or(0);
            }
            Ok(sum)
        }
    };
    Task::new(name, body).after(after)
}

/// Twenty tasks: two branches, a `for_each`, a task that is retried, one that blocks, one that changes the
/// context, one that a rule lets run and one that a rule skips.
pub fn twenty(ledger: &Arc<Ledger>) -> Workflow<u64, u64> {
    let source = Task::new("source", {
        let ledger = Arc::clone(ledger);
        move |cx| {
            let ledger = Arc::clone(&ledger);
            async move {
                ledger.note(&cx);
                Ok(vec![cx.input::<u64>()?, 2, 3, 4])
            }
        }
    });
    let each = Task::new("each", {
        let ledger = Arc::clone(ledger);
        move |cx| {
            let ledger = Arc::clone(&ledger);
            async move {
                ledger.note(&cx);
                tokio::time::sleep(WORK).await;
                Ok(cx.item::<u64>()? * 2)
            }
        }
    });
    let sum = Task::new("sum", {
        let ledger = Arc::clone(ledger);
        move |cx| {
            let ledger = Arc::clone(&ledger);
            async move {
                ledger.note(&cx);
                Ok(cx.result::<Vec<u64>>("each")?.iter().sum::<u64>())
            }
        }
    });
    let flaky = Task::new("flaky", {
        let ledger = Arc::clone(ledger);
        move |cx| {
            let ledger = Arc::clone(&ledger);
            async move {
                ledger.note(&cx);
                if cx.attempt() < 3 { Err(Failure::new("not yet")) } else { Ok(7_u64) }
            }
        }
    });
    let heavy = Task::blocking("heavy", {
        let ledger = Arc::clone(ledger);
        move |cx| {
            ledger.note(&cx);
            std::thread::sleep(WORK);
            cx.context().set("heavy", true)?;
            Ok(1_u64)
        }
    });
    let patience = Retry::attempts(5).fixed().delay(Duration::from_millis(3)).jitter(0.0);
    Workflow::builder("twenty")
        .task(source)
        .task(each.for_each("source").limit(2))
        .task(sum.after(["each"]))
        .task(noted(ledger, "left1", []).after(["source"]))
        .task(noted(ledger, "left2", ["left1"]))
        .task(noted(ledger, "left3", ["left2"]))
        .task(noted(ledger, "left4", ["left3"]))
        .task(noted(ledger, "left5", ["left4"]))
        .task(noted(ledger, "right1", []).after(["source"]))
        .task(noted(ledger, "right2", ["right1"]))
        .task(noted(ledger, "right3", ["right2"]))
        .task(noted(ledger, "right4", ["right3"]))
        .task(flaky.after(["left1"]).retry(patience))
        .task(heavy.after(["right1"]))
        .task(noted(ledger, "then", ["flaky"]).rule(Rule::succeeded("flaky")))
        .task(noted(ledger, "otherwise", ["flaky"]).rule(Rule::failed("flaky")))
        .task(noted(ledger, "marked", ["heavy"]).rule(Rule::context("heavy").eq(true)))
        .task(noted(ledger, "both", ["left5", "right4"]))
        .task(noted(ledger, "join", ["sum", "both", "then", "marked", "otherwise"]).rule(Rule::all([
            Rule::succeeded("sum"),
            Rule::succeeded("both"),
            Rule::succeeded("then"),
            Rule::succeeded("marked"),
            Rule::done("otherwise"),
        ])))
        .task(noted(ledger, "report", ["join"]))
        .output("report")
        .build()
        .expect("the graph is sound")
        .typed()
}

/// Two tasks in a row, each taking as long as the input says, in milliseconds.
pub fn pair(ledger: &Arc<Ledger>) -> Workflow<u64, u64> {
    let step = |name: &str| {
        let ledger = Arc::clone(ledger);
        Task::new(name, move |cx| {
            let ledger = Arc::clone(&ledger);
            async move {
                ledger.note(&cx);
                let millis = cx.input::<u64>()?;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok(millis)
            }
        })
    };
    Workflow::builder("pair")
        .task(step("first"))
        .task(step("second").after(["first"]))
        .output("second")
        .build()
        .expect("the graph is sound")
        .typed()
}

/// One task that fails once, and is tried again after as many milliseconds as the input says.
pub fn second_try(ledger: &Arc<Ledger>, wait: Duration) -> Workflow<u64, u64> {
    let ledger = Arc::clone(ledger);
    let body = move |cx: TaskCx| {
        let ledger = Arc::clone(&ledger);
        async move {
            ledger.note(&cx);
            if cx.attempt() == 1 { Err(Failure::new("not yet")) } else { Ok(1_u64) }
        }
    };
    Workflow::builder("second_try")
        .task(Task::new("only", body).retry(Retry::attempts(2).fixed().delay(wait).jitter(0.0)))
        .build()
        .expect("the graph is sound")
        .typed()
}

/// The file of a room that is there when runs of [`persistent`] may complete.
pub const ENOUGH: &str = "enough";

/// One task that is tried again and again, after as many milliseconds as the input says, until it is enough.
pub fn persistent(ledger: &Arc<Ledger>, room: &Room) -> Workflow<u64, u64> {
    let (ledger, enough) = (Arc::clone(ledger), room.file(ENOUGH));
    let body = move |cx: TaskCx| {
        let (ledger, enough) = (Arc::clone(&ledger), enough.clone());
        async move {
            ledger.note(&cx);
            let pause = Duration::from_millis(cx.input()?);
            if enough.exists() { Ok(1_u64) } else { Err(Failure::retry_after("not yet", pause)) }
        }
    };
    Workflow::builder("persistent")
        .task(Task::new("only", body).retry(Retry::attempts(10_000)))
        .build()
        .expect("the graph is sound")
        .typed()
}

/// One task that gives so many numbers, one that works on each of them on any node, and one that adds them up.
pub fn wide(ledger: &Arc<Ledger>) -> Workflow<u64, u64> {
    let count =
        Task::new("count", |cx: TaskCx| async move { Ok((0..cx.input::<u64>()?).collect::<Vec<_>>()) });
    let ledger = Arc::clone(ledger);
    let each = Task::new("each", move |cx: TaskCx| {
        let ledger = Arc::clone(&ledger);
        async move {
            ledger.note(&cx);
            tokio::time::sleep(WORK * 25).await;
            cx.item::<u64>()
        }
    });
    let sum =
        Task::new("sum", |cx: TaskCx| async move { Ok(cx.result::<Vec<u64>>("each")?.iter().sum::<u64>()) });
    let graph = Workflow::builder("wide").task(count).task(each.for_each("count")).task(sum.after(["each"]));
    graph.spread().output("sum").build().expect("the graph is sound").typed()
}

/// Gives back what it got.
pub fn gather() -> Workflow<Vec<u32>, Vec<u32>> {
    let body = |cx: TaskCx| async move { cx.input::<Vec<u32>>() };
    let built = Workflow::builder("gather").tasks([Task::new("take", body)]).output("take").build();
    built.expect("the graph is sound").typed()
}
