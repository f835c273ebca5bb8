//! Declaring schedules, again and again.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use windlass::{Error, Retention, prelude::*, schedule::Declared, testing::Lab};

use crate::{
    triggers::{fulfil, order},
    world::*,
};

#[windlass::test]
async fn the_same_declaration_changes_nothing_and_another_says_what(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    let declare = |cron: &str, seconds, priority| {
        let schedule = engine.schedule("nightly").cron(cron).priority(priority);
        schedule.workflow(job::workflow(), takes(seconds))
    };
    assert_eq!(declare("0 2 * * *", 1, 3).await?, Declared::Created);
    assert_eq!(declare("0 2 * * *", 1, 3).await?, Declared::Unchanged);
    lab.advance(hours(1)).await;
    assert_eq!(declare("0 02 * * *", 1, 3).await?, Declared::Unchanged);
    let Declared::Updated { what } = declare("0 3 * * *", 2, 4).await? else { panic!("it has changed") };
    assert_eq!(
        what,
        [
            "the times were cron `0 2 * * *` in UTC, and are cron `0 3 * * *` in UTC",
            "the input is another one",
            "the priority was 3, and is 4",
        ]
    );
    assert_eq!(
        declare("0 3 * * *", 2, 4).await?,
        Declared::Unchanged,
        "it holds before anybody has acted on it"
    );
    lab.advance(hours(3)).await;
    assert_eq!(diary.fires(), ["03:00"]);
    let run = &engine.runs().workflow("job").list().await?[0];
    assert_eq!(run.priority, 4);
    Ok(())
}

#[windlass::test]
async fn an_input_with_a_map_is_the_same_whatever_its_order(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(fulfil::workflow()).launch().await?;
    // Each map has another order.
    let declare = || engine.schedule("nightly").cron("0 2 * * *").workflow(fulfil::workflow(), order(1));
    assert_eq!(declare().await?, Declared::Created);
    for _ in 0..10 {
        assert_eq!(declare().await?, Declared::Unchanged);
    }
    Ok(())
}

#[windlass::test]
async fn everything_that_is_wrong_is_said_at_once_and_nothing_is_stored(lab: Lab) -> Result<()> {
    let engine = with_job(lab.engine(), &Diary::default()).launch().await?;
    let wrong = engine
        .schedule("nightly")
        .cron("0 24 * * *")
        .timezone("Europe/Pariss")
        .priority(12)
        .context(json!({"schedule": 1}))
        .jitter(secs(1))
        .backoff(Backoff::default().trip_after(0))
        .workflow_by_name("jobb", json!(null));
    let Err(Error::Schedule { name, problems }) = wrong.await else { panic!("it is refused") };
    assert_eq!(name, "nightly");
    assert_eq!(
        problems,
        [
            "`0 24 * * *` is not a cron expression: in the hours, at character 3, `24` is not between 0 and 23",
            "there is no time zone `Europe/Pariss`: did you mean `Europe/Paris`?",
            "the backoff of `nightly` cannot be used: it stops after 0 failures: it would never run",
            "the priority of `nightly` cannot be used: 12 does not exist, 0 is the most urgent and 9 the least",
            "the context of `nightly` cannot have `schedule`: that is where runs find what started them",
            "workflow `jobb` is not registered with this engine: did you mean `job`?",
        ]
    );
    for nothing in [
        engine.schedule("a").workflow(job::workflow(), takes(1)).await,
        engine.schedule("b").every(secs(0)).workflow(job::workflow(), takes(1)).await,
        engine.schedule("c").every(secs(1)).await,
        engine.schedule("d").every(secs(1)).workflow_by_name("windlass.schedule", json!(1)).await,
    ] {
        assert!(matches!(nothing, Err(Error::Schedule { .. })), "{nothing:?}");
    }
    assert!(engine.schedules().list().await?.is_empty());
    Ok(())
}

#[windlass::test]
async fn runs_honour_what_their_schedule_says(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).queue("slow", 3).launch().await?;
    let poll = engine.schedule("poll").every(mins(1)).queue("slow").priority(1).timeout(secs(5));
    let poll = poll.tag("eu").tag("poll").context(json!({"dry": true}));
    poll.workflow(job::workflow(), takes(3600)).await?;
    lab.advance(secs(80)).await;
    let runs = engine.runs().tag("eu").list().await?;
    assert_eq!(runs.len(), 1);
    assert_eq!(
        (&*runs[0].queue, runs[0].priority, &runs[0].tags[..]),
        ("slow", 1, &["eu".to_owned(), "poll".to_owned()][..])
    );
    let status = engine.run(&job::workflow(), runs[0].id).status().await?;
    assert_eq!(status.state, windlass::RunState::Failed, "it took too long");
    Ok(())
}

#[windlass::test]
async fn a_removed_schedule_starts_nothing_and_may_be_declared_again(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    let declare = || engine.schedule("poll").every(mins(10)).workflow(job::workflow(), takes(1));
    for pause in [mins(20), hours(30)] {
        assert_eq!(declare().await?, Declared::Created);
        lab.advance(mins(15)).await;
        let poll = engine.schedules().get("poll").await?;
        poll.remove().await?;
        assert_eq!(poll.status().await.expect_err("it is gone").code(), "unknown_schedule");
        assert!(engine.schedules().list().await?.is_empty());
        lab.advance(pause).await;
        assert!(engine.schedules().get("poll").await.is_err());
    }
    assert_eq!(declare().await?, Declared::Created, "its run has ended meanwhile");
    lab.advance(mins(15)).await;
    assert_eq!(diary.fires().len(), 3);
    let status = engine.schedules().get("poll").await?.status().await?;
    assert_eq!(status.runs, 1, "it began anew");
    Ok(())
}

#[windlass::test]
async fn what_the_engine_keeps_for_itself_is_nobodys_run(lab: Lab) -> Result<()> {
    let engine = with_job(lab.engine(), &Diary::default()).launch().await?;
    engine.schedule("poll").every(mins(10)).workflow(job::workflow(), takes(1)).await?;
    assert!(engine.runs().list().await?.is_empty());
    assert!(engine.runs().live().list().await?.is_empty());
    assert!(engine.runs().workflow("windlass.schedule").list().await?.is_empty());
    assert_eq!(engine.runs().cancel_all("no more").await?.done, 0);
    assert!(engine.start_by_name("windlass.schedule", json!(1)).await.is_err());
    lab.advance(mins(15)).await;
    assert_eq!(engine.runs().list().await?.len(), 1);
    let schedule = engine.run_by_key(&the_engines_own("windlass.schedule")?, "poll").await?;
    let mut schedule = schedule.expect("it is a run");
    let forked = schedule.fork_from("keep").await;
    assert_eq!(forked.err().map(|error| error.code()), Some("invalid"), "nobody copies a schedule");
    let refused = [
        schedule.cancel("no more").await.err(),
        schedule.terminate("no more").await.err(),
        schedule.pause().await.err(),
        schedule.resume().await.err(),
        schedule.retry().await.err(),
        schedule.discard("no more").await.err(),
        schedule.send(Event::<u32>::new("stop"), &1).await.err(),
    ];
    for refused in refused {
        let said = refused.expect("it is refused").to_string();
        assert!(said.contains("it keeps schedule `poll`; use `schedules().get(\"poll\")`"), "{said}");
    }
    lab.advance(mins(10)).await;
    assert_eq!(engine.runs().list().await?.len(), 2, "it goes on");
    let own =
        Workflow::builder("windlass.mine").task(Task::new("a", |_| async { Ok::<_, Failure>(1) })).build()?;
    let refused = lab.engine().workflow(own).launch().await.expect_err("the name is taken");
    assert!(refused.to_string().contains("the engine's own"), "{refused}");
    let refused = lab.engine().workflow(job::workflow()).queue("windlass", 5).launch().await;
    let refused = refused.expect_err("the queue is taken");
    assert!(refused.to_string().contains("queue `windlass` is the engine's own"), "{refused}");
    Ok(())
}

#[windlass::test]
async fn the_archive_gets_no_runs_of_the_engines_own(lab: Lab) -> Result<()> {
    let archived = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&archived);
    let engine = with_job(lab.engine(), &Diary::default()).retention(Retention::all(hours(1)));
    let engine = engine.archive(move |run: serde_json::Value| {
        keep.lock().push(run["workflow"].clone());
        async { Ok(()) }
    });
    let engine = engine.launch().await?;
    engine.schedule("poll").every(mins(10)).count(1).workflow(job::workflow(), takes(1)).await?;
    lab.advance(mins(15)).await;
    let own = the_engines_own("windlass.schedule")?;
    assert!(engine.run_by_key(&own, "poll").await?.is_some());
    engine.schedules().get("poll").await?.remove().await?;
    lab.advance(hours(30)).await;
    assert!(engine.run_by_key(&own, "poll").await?.is_none(), "its run is gone too");
    assert_eq!(*archived.lock(), ["job"]);
    Ok(())
}
