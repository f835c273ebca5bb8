//! What others shipped: each is a defect of a published scheduler.

use windlass::{RunState, prelude::*, schedule::Origin, testing::Lab};

use crate::world::*;

#[windlass::test]
async fn firing_never_waits_for_a_run_to_finish(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    engine.schedule("slow").every(mins(10)).workflow(job::workflow(), takes(86_400)).await?;
    engine.schedule("quick").every(mins(10)).workflow(job::workflow(), takes(1)).await?;
    engine
        .schedule("many")
        .every(mins(10))
        .overlap(Overlap::Allow)
        .workflow(job::workflow(), takes(86_400))
        .await?;
    lab.advance(mins(35)).await;
    let of = |name: &str| diary.entries().iter().filter(|fired| fired.name == name).count();
    assert_eq!((of("slow"), of("quick"), of("many")), (1, 3, 3));
    Ok(())
}

#[windlass::test]
async fn a_node_without_room_still_fires_and_makes_way(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).max_runs(1).launch().await?;
    let poll = engine.schedule("poll").every(mins(10)).overlap(Overlap::CancelRunning);
    poll.workflow(job::workflow(), takes(7_200)).await?;
    lab.advance(mins(35)).await;
    assert_eq!(diary.fires().len(), 3, "{:?}", diary.fires());
    engine.schedules().get("poll").await?.pause("enough").await?;
    engine.schedule("other").every(mins(1)).workflow(job::workflow(), takes(1)).await?;
    lab.advance(mins(5)).await;
    let other = engine.schedules().get("other").await?.status().await?;
    assert_eq!((other.runs, other.running.len()), (1, 1), "its run waits for room, but is there");
    Ok(())
}

#[windlass::test]
async fn recovery_does_not_fire_a_finished_slot_again(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let mut engine = with_job(lab.engine(), &diary).launch().await?;
    engine.schedule("daily").cron("0 1 * * *").workflow(job::workflow(), takes(1)).await?;
    lab.advance(mins(61)).await;
    for _ in 0..20 {
        lab.crash(&engine);
        engine = with_job(lab.engine(), &diary).launch().await?;
        lab.advance(hours(1)).await;
    }
    assert_eq!(diary.fires(), ["01:00"]);
    Ok(())
}

#[windlass::test]
async fn catch_up_does_not_run_the_oldest_slots_for_ever(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    let poll =
        engine.schedule("poll").every(mins(1)).catch_up(CatchUp::All { max: 2 }).overlap(Overlap::BufferAll);
    poll.workflow(job::workflow(), takes(1)).await?;
    lab.crash(&engine);
    lab.advance(hours(10)).await;
    let _engine = with_job(lab.engine(), &diary).launch().await?;
    lab.advance(secs(125)).await;
    let seen: Vec<String> = diary.entries().iter().map(|fired| short(fired.scheduled_at)).collect();
    assert_eq!(seen, ["09:59", "10:00", "10:01", "10:02"]);
    assert_eq!(diary.entries()[2].origin, Origin::Clock);
    Ok(())
}

#[windlass::test]
async fn sunday_is_0_and_7_and_monday_is_1(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    for (name, cron) in
        [("zero", "0 0 * * 0"), ("seven", "0 0 * * 7"), ("one", "0 0 * * 1"), ("name", "0 0 * * mon")]
    {
        engine.schedule(name).cron(cron).workflow(job::workflow(), takes(1)).await?;
    }
    lab.advance(hours(24 * 6)).await;
    let mut seen: Vec<String> = diary
        .entries()
        .iter()
        .map(|fired| format!("{} {}", fired.name, &fired.fired_at.to_string()[..10]))
        .collect();
    seen.sort_unstable();
    // The 4th of January 2026 is a Sunday.
    assert_eq!(seen, ["name 2026-01-05", "one 2026-01-05", "seven 2026-01-04", "zero 2026-01-04"]);
    Ok(())
}

#[windlass::test]
async fn seconds_may_be_said_and_need_not_be(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    engine.schedule("six").cron("*/20 * * * * *").workflow(job::workflow(), takes(1)).await?;
    engine.schedule("five").cron("* * * * *").workflow(job::workflow(), takes(1)).await?;
    lab.advance(secs(61)).await;
    assert_eq!(diary.fires(), ["00:00:20", "00:00:40", "00:01", "00:01"]);
    Ok(())
}

#[windlass::test]
async fn a_time_fires_when_it_comes_and_not_at_the_next_poll(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).poll(hours(5)).heartbeat(hours(1)).launch().await?;
    engine.schedule("poll").cron("17 3 * * *").workflow(job::workflow(), takes(1)).await?;
    lab.advance(hours(4)).await;
    assert_eq!(diary.fires(), ["03:17"]);
    Ok(())
}

#[windlass::test]
async fn stopping_does_not_wait_for_the_next_time_nor_lose_it(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    engine.schedule("poll").every(hours(1)).workflow(job::workflow(), takes(86_400)).await?;
    lab.advance(mins(61)).await;
    let begun = lab.now();
    engine.stop().await?;
    assert!(lab.now().since(begun) <= secs(45), "a long run does not hold up the stop");
    let next = with_job(lab.engine(), &diary).launch().await?;
    lab.advance(hours(26)).await;
    let status = next.schedules().get("poll").await?.status().await?;
    let last = status.last_run.map(|last| last.key);
    assert_eq!((status.runs, last.as_deref()), (2, Some("poll@2026-01-02T02:00:00Z")));
    Ok(())
}

#[windlass::test]
async fn scheduled_runs_obey_the_time_out_of_their_workflow(lab: Lab) -> Result<()> {
    let slow = Workflow::builder("slow")
        .timeout(secs(30))
        .task(Task::new("sleep", |_| async {
            tokio::time::sleep(hours(1)).await;
            Ok::<_, Failure>(())
        }))
        .build()?;
    let engine = lab.engine().workflow(slow.clone()).launch().await?;
    engine.schedule("poll").every(mins(10)).workflow(slow, serde_json::json!(null)).await?;
    lab.advance(mins(11)).await;
    let runs = engine.runs().workflow("slow").list().await?;
    assert_eq!(runs[0].standing.state(), RunState::Failed);
    Ok(())
}

#[windlass::test]
async fn a_sleeping_back_off_is_woken_by_a_reset(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    let backoff = Backoff::default().initial(hours(20)).max_delay(hours(20)).jitter(0.0);
    let poll = engine.schedule("poll").every(mins(10)).backoff(backoff);
    poll.workflow(job::workflow(), fails_after(1)).await?;
    lab.advance(mins(32)).await;
    assert_eq!(diary.fires(), ["00:10"]);
    engine.schedules().get("poll").await?.reset().await?;
    lab.advance(secs(1)).await;
    assert_eq!(diary.fires(), ["00:10", "00:30 at 00:32"]);
    Ok(())
}
