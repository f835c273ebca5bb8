//! Telling a schedule what to do, and asking how it stands.

use windlass::{
    Error, RunState, Time,
    prelude::*,
    schedule::{Status, What},
    testing::Lab,
};

use crate::world::*;

#[windlass::test]
async fn whoever_tells_a_schedule_something_sees_it_at_once(lab: Lab) -> Result<()> {
    let engine = with_job(lab.engine(), &Diary::default()).launch().await?;
    engine.schedule("poll").every(mins(10)).workflow(job::workflow(), takes(60)).await?;
    let poll = engine.schedules().get("poll").await?;
    assert_eq!(poll.in_words().await?, "every 10m");
    poll.pause("the printer is away").await?;
    let status = poll.status().await?;
    assert_eq!((status.paused.as_deref(), status.next_run), (Some("the printer is away"), None));
    poll.resume().await?;
    assert_eq!(poll.status().await?.next_run.map(short), Some("00:10".to_owned()));
    assert_eq!(poll.next(2).await?.into_iter().map(short).collect::<Vec<_>>(), ["00:10", "00:20"]);
    let key = poll.trigger().await?;
    let status = poll.status().await?;
    assert_eq!((status.status, status.running), (Status::Running, vec![key.clone()]));
    lab.advance(secs(1)).await;
    assert_eq!(engine.runs().key(key).list().await?[0].standing.state(), RunState::Running);
    lab.advance(secs(60)).await;
    assert_eq!(poll.status().await?.status, Status::Completed);
    Ok(())
}

#[windlass::test]
async fn a_paused_schedule_starts_nothing_and_then_makes_up_for_the_latest(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    engine.schedule("poll").every(mins(10)).workflow(job::workflow(), takes(1)).await?;
    let poll = engine.schedules().get("poll").await?;
    lab.advance(mins(15)).await;
    poll.pause("lunch").await?;
    lab.advance(mins(30)).await;
    assert_eq!(diary.fires(), ["00:10"]);
    poll.resume().await?;
    lab.advance(mins(6)).await;
    assert_eq!(diary.fires(), ["00:10", "00:40 at 00:45", "00:50"]);
    let told = told(&poll.history().await?);
    assert_eq!(
        told[3..6],
        [
            "00:15 paused: lunch",
            "00:45 resumed",
            "00:45 missed 2 times, from 2026-01-01T00:20:00Z to 2026-01-01T00:30:00Z",
        ]
    );
    Ok(())
}

#[windlass::test]
async fn failures_hold_a_schedule_back_and_trip_it_by_the_numbers(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    let backoff = Backoff::default().initial(secs(20)).jitter(0.0).trip_after(4);
    let poll = engine.schedule("poll").every(secs(10)).catch_up(CatchUp::Skip).backoff(backoff);
    poll.workflow(job::workflow(), fails_after(1)).await?;
    let poll = engine.schedules().get("poll").await?;
    // It fails at :11, and is held until :31; at :41 and until 1:21; at 1:31 and until 2:51; at 3:01 it trips.
    lab.advance(mins(10)).await;
    assert_eq!(diary.fires(), ["00:00:10", "00:00:40", "00:01:30", "00:03"]);
    let Status::Tripped { streak, last_error } = poll.status().await?.status else {
        panic!("it has tripped")
    };
    assert_eq!(streak, 4);
    assert!(last_error.contains("out of paper"), "{last_error}");
    poll.trigger().await?;
    lab.advance(secs(65)).await;
    assert_eq!(diary.fires().len(), 4, "a trip lets nothing through");
    poll.reset().await?;
    lab.advance(secs(4)).await;
    let status = poll.status().await?;
    assert_eq!(status.status, Status::Idle);
    lab.advance(secs(2)).await;
    assert_eq!(diary.fires().last().map(String::as_str), Some("00:11:10"));
    Ok(())
}

#[windlass::test]
async fn a_trigger_passes_through_a_back_off_and_its_success_ends_it(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    let backoff = Backoff::default().initial(hours(5)).max_delay(hours(5)).jitter(0.0);
    let declare =
        |plan| engine.schedule("poll").every(mins(10)).backoff(backoff).workflow(job::workflow(), plan);
    declare(fails_after(1)).await?;
    lab.advance(mins(15)).await;
    let poll = engine.schedules().get("poll").await?;
    assert!(matches!(poll.status().await?.status, Status::Backoff { streak: 1, .. }));
    declare(takes(1)).await?;
    lab.advance(mins(30)).await;
    poll.trigger().await?;
    lab.advance(mins(10)).await;
    assert_eq!(diary.fires().len(), 4, "{:?}", diary.fires());
    assert_eq!(diary.fires().last().map(String::as_str), Some("00:50"), "its success woke the schedule");
    Ok(())
}

#[windlass::test]
async fn a_wish_that_is_told_twice_is_one_run(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    engine.schedule("by-hand").manual().workflow(job::workflow(), takes(1)).await?;
    let by_hand = engine.schedules().get("by-hand").await?;
    for _ in 0..3 {
        assert_eq!(by_hand.trigger_once("order-7").await?, "by-hand!order-7");
        by_hand.trigger_once("order-8").await?;
        lab.advance(mins(1)).await;
    }
    assert_eq!(diary.fires().len(), 2, "{:?}", diary.fires());
    Ok(())
}

#[windlass::test]
async fn past_times_are_filled_in_once_and_a_dry_run_only_lists_them(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    engine.schedule("poll").every(mins(10)).workflow(job::workflow(), takes(1)).await?;
    lab.advance(mins(25)).await;
    let poll = engine.schedules().get("poll").await?;
    let from = lab.now() - mins(55);
    let dry = poll.backfill(from..lab.now()).dry_run().await?;
    let times: Vec<String> = dry.iter().map(|time| short(*time)).collect();
    assert_eq!(
        times,
        ["2025-12-31T23:30", "2025-12-31T23:40", "2025-12-31T23:50", "00:00", "00:10", "00:20"]
    );
    lab.advance(mins(1)).await;
    assert_eq!(diary.fires().len(), 2, "a dry run starts nothing");
    for _ in 0..2 {
        assert_eq!(poll.backfill(from..lab.now()).await?, dry);
        lab.advance(mins(1)).await;
    }
    assert_eq!(diary.fires().len(), 6, "{:?}", diary.fires());
    let ten_years = poll.backfill(Time(lab.now().0 - 315_360_000_000_000)..lab.now()).await;
    let Err(Error::Invalid(why)) = ten_years else { panic!("it is too much") };
    assert!(why.contains("more than 10000 times"), "{why}");
    Ok(())
}

#[windlass::test]
async fn schedules_are_listed_by_name_and_unknown_ones_have_a_hint(lab: Lab) -> Result<()> {
    let engine = with_job(lab.engine(), &Diary::default()).launch().await?;
    for name in ["nightly", "hourly"] {
        engine.schedule(name).cron("0 2 * * *").workflow(job::workflow(), takes(1)).await?;
    }
    let names: Vec<String> = engine.schedules().list().await?.into_iter().map(|found| found.name).collect();
    assert_eq!(names, ["hourly", "nightly"]);
    let unknown = engine.schedules().get("nightli").await.expect_err("there is none");
    assert_eq!(unknown.to_string(), "there is no schedule `nightli`; did you mean `nightly`?");
    Ok(())
}

#[windlass::test]
async fn history_keeps_the_last_hundred_things_in_order(lab: Lab) -> Result<()> {
    let engine = with_job(lab.engine(), &Diary::default()).launch().await?;
    engine.schedule("poll").every(mins(1)).workflow(job::workflow(), takes(1)).await?;
    lab.advance(mins(130)).await;
    let history = engine.schedules().get("poll").await?.history().await?;
    assert_eq!(history.len(), 100);
    assert!(history.is_sorted_by_key(|happening| happening.at));
    let ended = history.iter().filter(|one| matches!(one.what, What::Ended { .. })).count();
    assert_eq!(ended, 50);
    Ok(())
}
