//! One run for each time, whatever happens.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use windlass::{
    Time,
    prelude::*,
    store::{Call, Memory, Moment, Side, Verdict},
    testing::Lab,
};

use crate::world::*;

#[windlass::test]
async fn a_crash_at_any_boundary_neither_loses_a_time_nor_fires_it_twice(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|engine| async move {
            let diary = Diary::default();
            let engine = with_job(engine, &diary).launch().await?;
            let poll = engine.schedule("poll").every(mins(10)).catch_up(CatchUp::All { max: 10 });
            poll.overlap(Overlap::BufferAll)
                .starting_at(windlass::Time(1_767_225_600_000_000))
                .count(3)
                .workflow(job::workflow(), takes(1))
                .await?;
            let poll = engine.schedules().get("poll").await?;
            while poll.status().await?.runs < 3 || !poll.status().await?.running.is_empty() {
                tokio::time::sleep(mins(1)).await;
            }
            let mut keys: Vec<_> =
                engine.runs().workflow("job").list().await?.into_iter().filter_map(|run| run.key).collect();
            keys.sort_unstable();
            assert_eq!(keys.len(), 3, "{keys:?}");
            keys.dedup();
            assert_eq!(keys.len(), 3, "{keys:?}");
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries > 12, "{boundaries}");
    Ok(())
}

#[windlass::test]
async fn two_engines_fire_each_time_once_and_go_on_without_each_other(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let first = with_job(lab.engine(), &diary).launch().await?;
    let second = with_job(lab.engine(), &diary).launch().await?;
    first.schedule("poll").every(secs(1)).workflow(job::workflow(), takes(0)).await?;
    lab.advance(secs(20)).await;
    lab.crash(&first);
    lab.advance(Duration::from_millis(20_500)).await;
    let fires = diary.fires();
    assert_eq!(fires.len(), 40, "{fires:?}");
    assert_eq!(second.runs().workflow("job").limit(100).list().await?.len(), 40);
    Ok(())
}

#[windlass::test]
async fn a_run_that_is_there_under_the_key_is_not_started_again(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    engine.start(job::workflow(), takes(1)).key("poll@2026-01-01T00:10:00Z").await?.await?;
    engine.schedule("poll").every(mins(10)).workflow(job::workflow(), takes(1)).await?;
    lab.advance(mins(25)).await;
    assert_eq!(diary.fires(), ["00:20"]);
    let history = engine.schedules().get("poll").await?.history().await?;
    let told = told(&history);
    assert!(told.contains(&"00:10 poll@2026-01-01T00:10:00Z was there already".to_owned()), "{told:#?}");
    let status = engine.schedules().get("poll").await?.status().await?;
    assert_eq!(status.runs, 1);
    Ok(())
}

#[windlass::test]
async fn an_outage_while_a_time_is_fired_is_made_up_for(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    engine.schedule("poll").every(mins(10)).workflow(job::workflow(), takes(1)).await?;
    lab.advance(secs(599)).await;
    lab.cut_off(&engine);
    lab.advance(secs(5)).await;
    lab.reconnect(&engine);
    lab.advance(mins(15)).await;
    let fires: Vec<String> = diary.entries().iter().map(|fired| short(fired.scheduled_at)).collect();
    assert_eq!(fires, ["00:10", "00:20"]);
    Ok(())
}

/// Every third answer to a commit is lost: what was written is written again, and is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_starts_no_run_twice() -> Result<()> {
    let begun = std::time::Instant::now();
    let store = Memory::new(move || Time(1_767_225_600_000_000) + begun.elapsed());
    let commits = AtomicUsize::new(0);
    store.on_call(move |Moment { call, side, .. }| match (call, side) {
        (Call::Commit, Side::After) if commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) => {
            Verdict::Unavailable
        }
        _ => Verdict::Proceed,
    });
    let diary = Diary::default();
    let engine = with_job(Engine::over(Arc::new(store)), &diary).launch().await?;
    let tick = engine.schedule("tick").every(Duration::from_millis(20)).catch_up(CatchUp::All { max: 100 });
    tick.overlap(Overlap::Allow).workflow(job::workflow(), takes(0)).await?;
    let schedule = engine.schedules().get("tick").await?;
    while schedule.status().await?.runs < 50 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    schedule.remove().await?;
    let runs = engine.runs().workflow("job").limit(1_000).list().await?;
    let mut times: Vec<Time> = Vec::new();
    for run in &runs {
        let key = run.key.as_deref().unwrap_or_default();
        let time: windlass::jiff::Timestamp = key.trim_start_matches("tick@").parse()?;
        times.push(time.into());
        let late = run.created_at.since(time.into());
        assert!(late < secs(4), "{key} was found by the next poll only: {late:?}");
    }
    times.sort_unstable();
    for pair in times.windows(2) {
        assert_eq!(pair[0] + Duration::from_millis(20), pair[1], "each time is there, and once");
    }
    engine.stop().await?;
    Ok(())
}
