//! Mistakes that other systems shipped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use windlass::{
    RunState, TaskState,
    prelude::*,
    store::{Call, Memory, Side, Verdict},
    testing::Lab,
};

#[workflow(output = third)]
mod chain3 {
    use super::*;

    #[task]
    pub async fn first(input: u32) -> Result<u32> {
        Ok(input + 1)
    }

    #[task]
    pub async fn second(first: u32) -> Result<u32> {
        Ok(first + 1)
    }

    #[task]
    pub async fn third(second: u32) -> Result<u32> {
        Ok(second + 1)
    }
}

#[workflow]
mod slow {
    use super::*;

    #[task]
    pub async fn sleepy(input: u64) -> Result<u64> {
        tokio::time::sleep(Duration::from_secs(input)).await;
        Ok(input)
    }
}

#[tokio::test]
async fn a_run_of_three_tasks_is_four_commits_and_no_read() -> Result<()> {
    let memory = Memory::new(|| windlass::Time(1_000_000));
    let engine = Engine::over(Arc::new(memory.clone())).workflow(chain3::workflow()).launch().await?;
    engine.start(chain3::workflow(), 1).await?.await?;
    let (commits, others) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&commits), Arc::clone(&others));
    memory.on_call(move |moment| {
        if moment.side == Side::Before && moment.call != Call::Heartbeat {
            let count = if moment.call == Call::Commit { &counts.0 } else { &counts.1 };
            count.fetch_add(1, Ordering::SeqCst);
        }
        Verdict::Proceed
    });
    assert_eq!(engine.start(chain3::workflow(), 1).await?.await?, 4);
    assert_eq!(commits.load(Ordering::SeqCst), 4, "the start, two results, and the last result with the end");
    // This store's hints go to everybody, so the engine looks around once it hears of its own commit; none of
    // that is on the way of the run.
    assert!(others.load(Ordering::SeqCst) <= 8, "{others:?}");
    engine.stop().await?;
    Ok(())
}

#[windlass::test]
async fn after_an_outage_no_node_declares_the_others_dead(lab: Lab) -> Result<()> {
    let launch = || {
        let engine = lab.engine().heartbeat(Duration::from_secs(5)).stale_after(Duration::from_secs(30));
        engine.workflow(slow::workflow()).launch()
    };
    let (first, second) = (launch().await?, launch().await?);
    let runs =
        [first.start(slow::workflow(), 100).await?.id(), second.start(slow::workflow(), 100).await?.id()];
    lab.advance(Duration::from_secs(60)).await;
    lab.cut_off(&first);
    lab.cut_off(&second);
    lab.advance(Duration::from_secs(300)).await;
    lab.reconnect(&second);
    lab.reconnect(&first);
    for id in runs {
        let run = first.run(&slow::workflow(), id);
        let recoveries = run.status().await?.recoveries;
        assert_eq!(run.await?, 100);
        assert_eq!(recoveries, 0, "each gave its own runs up; nobody declared it dead");
    }
    assert_eq!(first.nodes().await?.len(), 2);
    Ok(())
}

#[windlass::test]
async fn a_node_that_is_cut_off_stops_what_it_runs_before_its_lease_is_over(lab: Lab) -> Result<()> {
    let launch = || {
        let engine = lab.engine().heartbeat(Duration::from_secs(5)).stale_after(Duration::from_secs(30));
        engine.workflow(slow::workflow()).launch()
    };
    let first = launch().await?;
    let id = first.start(slow::workflow(), 100).await?.id();
    lab.advance(Duration::from_secs(1)).await;
    let second = launch().await?;
    lab.advance(Duration::from_secs(30)).await;
    lab.cut_off(&first);
    lab.advance(Duration::from_secs(29)).await;
    assert_eq!(lab.attempts("sleepy"), 1, "nobody runs it a second time while the first may be running it");
    // The first attempt would have ended at 100 s, had it gone on.
    assert_eq!(second.run(&slow::workflow(), id).await?, 100);
    assert_eq!(lab.attempts("sleepy"), 2);
    let status = second.run(&slow::workflow(), id).status().await?;
    assert_eq!(status.recoveries, 1);
    Ok(())
}

#[windlass::test]
async fn a_node_is_judged_by_its_own_lease_and_not_by_a_shorter_one_of_the_judge(lab: Lab) -> Result<()> {
    let slow_heart = lab.engine().heartbeat(Duration::from_secs(60)).stale_after(Duration::from_secs(300));
    let slow_heart = slow_heart.workflow(slow::workflow()).launch().await?;
    let hasty = lab.engine().heartbeat(Duration::from_secs(1)).stale_after(Duration::from_secs(3));
    let hasty = hasty.workflow(slow::workflow()).launch().await?;
    lab.advance(Duration::from_secs(600)).await;
    assert_eq!(hasty.nodes().await?.len(), 2);
    slow_heart.stop().await?;
    Ok(())
}

#[windlass::test]
async fn a_hundred_cancelled_runs_that_cannot_end_starve_nobody(lab: Lab) -> Result<()> {
    let stuck =
        Workflow::builder("stuck").task(Task::new("wait", |_| std::future::pending::<Result<()>>())).build();
    let stuck = stuck.expect("the graph is sound");
    let engine = lab
        .engine()
        .cancel_grace(Duration::from_secs(3600))
        .workflow(stuck.clone())
        .workflow(chain3::workflow())
        .launch()
        .await?;
    for _ in 0..100 {
        let run = engine.start(stuck.clone(), serde_json::Value::Null).await?;
        lab.advance(Duration::from_millis(1)).await;
        run.cancel("enough").await?;
    }
    let begun = lab.now();
    assert_eq!(engine.start(chain3::workflow(), 1).await?.await?, 4);
    assert!(lab.now().since(begun) < Duration::from_secs(1));
    assert_eq!(engine.runs().workflow("stuck").state(RunState::Running).list().await?.len(), 100);
    Ok(())
}

#[windlass::test]
async fn a_cancel_that_arrives_while_a_run_is_being_parked_is_not_lost(lab: Lab) -> Result<()> {
    #[workflow]
    mod later {
        use super::*;

        #[task(retry(attempts = 2, delay = "1h", max = "2h", jitter = 0.0))]
        pub async fn fail() -> Result<()> {
            Err("not now".into())
        }
    }
    let engine = lab.engine().workflow(later::workflow()).launch().await?;
    for steps in 0..40 {
        let run = engine.start(later::workflow(), ()).await?;
        // However far the run has come by then: before its attempt, while it is parked, or after.
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        let begun = lab.now();
        run.cancel("now").await?;
        assert_eq!(run.await.unwrap_err().code(), "run_cancelled");
        assert!(lab.now().since(begun) < Duration::from_secs(60), "after {steps} steps");
    }
    Ok(())
}

#[windlass::test]
async fn pipelined_dependents_start_at_once_and_the_end_waits_for_every_record(lab: Lab) -> Result<()> {
    #[workflow(output = third, durability = "pipelined")]
    mod quick {
        use super::*;

        #[task]
        pub async fn first(input: u32) -> Result<u32> {
            Ok(input)
        }

        #[task]
        pub async fn second(first: u32) -> Result<u32> {
            Ok(first)
        }

        #[task]
        pub async fn third(second: u32) -> Result<u32> {
            Ok(second)
        }
    }
    let engine = lab.engine().workflow(quick::workflow()).launch().await?;
    let mut run = engine.start(quick::workflow(), 7).await?;
    assert_eq!((&mut run).await?, 7);
    let status = run.status().await?;
    assert!(status.tasks.iter().all(|task| task.attempts.len() == 1), "every record is there");
    let boundaries = lab
        .crash_everywhere(|engine| async move {
            let engine = engine.workflow(quick::workflow()).launch().await?;
            assert_eq!(engine.start(quick::workflow(), 7).key("seven").await?.await?, 7);
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 4, "{boundaries}");
    Ok(())
}

#[workflow(output = load)]
mod imports {
    use super::*;

    #[task]
    pub async fn load() -> Result<u32> {
        Err("the file is gone".into())
    }

    #[task]
    pub async fn check(load: u32) -> Result<u32> {
        Ok(load)
    }
}

#[workflow(output = load)]
mod exports {
    use super::*;

    #[task]
    pub async fn load() -> Result<u32> {
        Ok(5)
    }
}

#[windlass::test]
async fn task_names_are_unique_in_a_workflow_and_not_in_a_program(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(imports::workflow()).workflow(exports::workflow()).launch().await?;
    assert_eq!(engine.start(exports::workflow(), ()).await?.await?, 5);
    assert_eq!(engine.start(imports::workflow(), ()).await?.await.unwrap_err().code(), "run_failed");
    let task = || Task::new("load", |_| async { Ok(()) });
    let problems = Workflow::builder("twice").task(task()).task(task()).build().unwrap_err().to_string();
    assert!(problems.contains("two tasks are called `load`"), "{problems}");
    Ok(())
}

#[windlass::test]
async fn the_error_of_a_failed_task_is_read_where_it_was_written(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(imports::workflow()).launch().await?;
    let run = engine.start(imports::workflow(), ()).await?;
    let id = run.id();
    let error = run.await.unwrap_err().to_string();
    assert!(error.contains("load: the file is gone"), "{error}");
    lab.crash(&engine);
    let other = lab.engine().workflow(imports::workflow()).launch().await?;
    let status = other.run(&imports::workflow(), id).status().await?;
    let load = status.task("load").unwrap();
    let messages = [load.failure.as_ref(), load.attempts[0].failure.as_ref()];
    assert_eq!(messages.map(|failure| &*failure.unwrap().message), ["the file is gone"; 2]);
    let check = status.task("check").unwrap();
    assert_eq!((check.state, check.failure.is_some()), (TaskState::Skipped, false), "it never began");
    Ok(())
}

#[windlass::test]
async fn a_rescue_resurrects_no_finished_run(lab: Lab) -> Result<()> {
    let first = lab.engine().workflow(slow::workflow()).launch().await?;
    let finished = first.start(slow::workflow(), 1).await?;
    let id = finished.id();
    let live = first.start(slow::workflow(), 100).await?.id();
    assert_eq!(finished.await?, 1);
    lab.crash(&first);
    let second = lab.engine().workflow(slow::workflow()).launch().await?;
    assert_eq!(second.run(&slow::workflow(), live).await?, 100);
    let status = second.run(&slow::workflow(), id).status().await?;
    assert_eq!((status.state, status.recoveries), (RunState::Completed, 0));
    assert_eq!(second.run(&slow::workflow(), live).status().await?.recoveries, 1);
    assert_eq!(lab.attempts("sleepy"), 3, "the finished one once, the other again");
    Ok(())
}

/// Fails in every way that there is.
#[workflow(output = flaky)]
mod trouble {
    use super::*;

    #[task(retry(attempts = 3, delay = "1ms", jitter = 0.0))]
    pub async fn flaky(cx: &Cx) -> Result<u32> {
        match cx.attempt() {
            3 => Ok(1),
            attempt => Err(Failure::new(format!("attempt {attempt}"))),
        }
    }

    #[task(retry(attempts = 2, delay = "1ms", jitter = 0.0))]
    pub async fn panics() -> Result<u32> {
        panic!("on purpose")
    }

    #[task(timeout = "20ms", retry(on = never))]
    pub async fn slow() -> Result<u32> {
        std::future::pending().await
    }

    #[task(retry(attempts = 9, delay = "1ms"))]
    pub async fn gives_up() -> Result<u32> {
        Err(Failure::permanent("no such account"))
    }

    #[task(allow_failure, retry(on = never))]
    pub async fn tolerated() -> Result<u32> {
        Err("never mind".into())
    }

    #[task]
    pub async fn skipped(slow: u32) -> Result<u32> {
        Ok(slow)
    }

    #[task(when = failed(panics))]
    pub async fn tidies(panics: Option<u32>) -> Result<bool> {
        Ok(panics.is_none())
    }
}

/// What is recorded of a run, without its times.
async fn recorded(engine: Engine) -> Result<Vec<String>> {
    let mut run = engine.start(trouble::workflow(), ()).await?;
    let error = (&mut run).await.unwrap_err();
    let status = run.status().await?;
    let mut lines =
        vec![format!("{} {} {error}", status.state, error.code()).replace(&run.id().to_string(), "")];
    let told =
        |failure: &Option<Failure>| failure.as_ref().map(|failure| (failure.kind, failure.message.clone()));
    for task in &status.tasks {
        lines.push(format!("{} {} {:?} {:?}", task.name, task.state, task.skip, told(&task.failure)));
        for attempt in &task.attempts {
            lines.push(format!(
                "{} {} {:?} {:?}",
                attempt.step, attempt.number, attempt.kind, attempt.failure
            ));
        }
    }
    engine.stop().await?;
    Ok(lines)
}

#[cfg(feature = "sqlite")]
#[test]
fn a_program_fails_in_the_laboratory_as_it_fails_on_a_database() {
    let in_the_lab = windlass::testing::lab_test(|lab: Lab| async move {
        recorded(lab.engine().workflow(trouble::workflow()).launch().await?).await
    });
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let on_a_database = runtime.block_on(async {
        recorded(Engine::open("sqlite::memory:").workflow(trouble::workflow()).launch().await?).await
    });
    let (in_the_lab, on_a_database) = (in_the_lab.expect("it plays"), on_a_database.expect("it plays"));
    assert_eq!(in_the_lab, on_a_database);
    for part in [
        "attempt 2",
        "on purpose",
        "longer than its timeout",
        "no such account",
        "never mind",
        "Skipped",
        "tidies Completed",
    ] {
        assert!(in_the_lab.iter().any(|line| line.contains(part)), "{part} is missing: {in_the_lab:#?}");
    }
}
