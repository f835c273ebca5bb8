//! When runs are started.

use windlass::{
    prelude::*,
    schedule::{Declared, Origin},
    testing::Lab,
};

use crate::world::*;

#[windlass::test]
async fn a_cron_schedule_starts_a_run_at_each_of_its_times(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    let nightly = engine.schedule("nightly").cron("0 2 * * *").timezone("Europe/Paris");
    assert_eq!(nightly.workflow(job::workflow(), takes(10)).await?, Declared::Created);
    lab.advance(hours(49)).await;
    assert_eq!(diary.fires(), ["01:00", "2026-01-02T01:00"]);
    let first = &diary.entries()[0];
    assert_eq!(
        (first.name.as_str(), first.zone.as_str(), first.origin),
        ("nightly", "Europe/Paris", Origin::Clock)
    );
    let runs = engine.runs().workflow("job").list().await?;
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[1].key.as_deref(), Some("nightly@2026-01-01T01:00:00Z"));
    Ok(())
}

#[windlass::test]
async fn a_fixed_rate_keeps_its_pace_however_long_runs_take(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    engine.schedule("poll").every(mins(10)).workflow(job::workflow(), takes(420)).await?;
    lab.advance(mins(35)).await;
    assert_eq!(diary.fires(), ["00:10", "00:20", "00:30"]);
    Ok(())
}

#[windlass::test]
async fn a_fixed_delay_counts_from_the_end_of_a_run(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    engine.schedule("poll").every(mins(10)).after_finish().workflow(job::workflow(), takes(420)).await?;
    lab.advance(mins(50)).await;
    assert_eq!(diary.fires(), ["00:10", "00:27", "00:44"]);
    Ok(())
}

#[windlass::test]
async fn an_instant_fires_once_and_a_manual_schedule_never(lab: Lab) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(lab.engine(), &diary).launch().await?;
    let (soon, later) = (lab.now() + mins(3), lab.now() + mins(7));
    engine.schedule("once").at(soon).at(later).workflow(job::workflow(), takes(1)).await?;
    engine.schedule("by-hand").manual().workflow(job::workflow(), takes(1)).await?;
    lab.advance(hours(5)).await;
    assert_eq!(diary.fires(), ["00:03", "00:07"]);
    let status = engine.schedules().get("once").await?.status().await?;
    assert_eq!((status.runs, status.next_run), (2, None));
    Ok(())
}

/// Each overlap, with a run that takes 25 minutes and a time every 10 minutes.
#[windlass::test]
async fn each_overlap_does_what_it_says(_lab: Lab) -> Result<()> {
    for (overlap, expected) in [
        (Overlap::Skip, vec!["00:10", "00:40"]),
        (Overlap::BufferOne, vec!["00:10", "00:20 at 00:35", "00:40 at 01:00"]),
        (Overlap::BufferAll, vec!["00:10", "00:20 at 00:35", "00:30 at 01:00"]),
        (Overlap::CancelRunning, vec!["00:10", "00:20", "00:30", "00:40", "00:50", "01:00"]),
        (Overlap::Allow, vec!["00:10", "00:20", "00:30", "00:40", "00:50", "01:00"]),
    ] {
        let (lab, diary) = (Lab::new(), Diary::default());
        let engine = with_job(lab.engine(), &diary).launch().await?;
        let poll = engine.schedule("poll").every(mins(10)).overlap(overlap);
        poll.workflow(job::workflow(), takes(25 * 60)).await?;
        lab.advance(mins(61)).await;
        let short: Vec<String> = diary.fires().iter().map(|line| without_seconds(line)).collect();
        assert_eq!(short, expected, "{overlap:?}");
    }
    Ok(())
}

/// A run that is cancelled, or whose end is heard of, makes way a moment later.
fn without_seconds(line: &str) -> String {
    let minute = |at: &str| at.get(..5).unwrap_or(at).to_owned();
    match line.split_once(" at ") {
        Some((planned, real)) if minute(planned) != minute(real) => {
            format!("{} at {}", minute(planned), minute(real))
        }
        _ => minute(line),
    }
}

/// Each catch-up, with nobody there from 00:15 to 01:05 and a time every 10 minutes.
#[windlass::test]
async fn each_catch_up_does_what_it_says(_lab: Lab) -> Result<()> {
    for (catch_up, expected) in [
        (CatchUp::Skip, vec!["00:10 Clock", "01:10 Clock"]),
        (CatchUp::Latest, vec!["00:10 Clock", "01:00 CatchUp", "01:10 Clock"]),
        (
            CatchUp::All { max: 3 },
            vec!["00:10 Clock", "00:40 CatchUp", "00:50 CatchUp", "01:00 CatchUp", "01:10 Clock"],
        ),
    ] {
        let (lab, diary) = (Lab::new(), Diary::default());
        let engine = with_job(lab.engine(), &diary).launch().await?;
        let poll = engine.schedule("poll").every(mins(10)).overlap(Overlap::BufferAll).catch_up(catch_up);
        poll.workflow(job::workflow(), takes(1)).await?;
        lab.advance(mins(15)).await;
        lab.crash(&engine);
        lab.advance(mins(50)).await;
        let _engine = with_job(lab.engine(), &diary).launch().await?;
        lab.advance(mins(6)).await;
        let seen: Vec<String> = diary
            .entries()
            .iter()
            .map(|fired| format!("{} {:?}", short(fired.scheduled_at), fired.origin))
            .collect();
        assert_eq!(seen, expected, "{catch_up:?}");
    }
    Ok(())
}

/// Fire times by the clocks of a zone, written by hand.
#[windlass::test]
async fn zones_leap_days_and_the_ends_of_months_are_known(_lab: Lab) -> Result<()> {
    let days = |days: u64| hours(24 * days);
    for (cron, zone, from, expected) in [
        // Clocks go from 02:00 to 03:00 on the 29th of March: 02:30 is made up for at 03:00.
        (
            "30 2 * * *",
            "Europe/Berlin",
            days(86),
            vec!["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        ),
        // And from 03:00 to 02:00 on the 25th of October: 02:30 comes twice, and fires once.
        (
            "30 2 * * *",
            "Europe/Berlin",
            days(296),
            vec!["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        ),
        ("0 12 L * *", "UTC", days(57), vec!["2026-02-28T12:00:00Z"]),
        ("0 0 31 * *", "UTC", days(29), vec!["2026-01-31T00:00:00Z"]),
        ("0 0 31 * *", "UTC", days(57), vec![]),
        ("0 0 29 2 *", "UTC", days(787), vec!["2028-02-29T00:00:00Z"]),
        ("0 0 29 2 *", "UTC", days(57), vec![]),
    ] {
        let (lab, diary) = (Lab::new(), Diary::default());
        lab.advance(from).await;
        let engine = with_job(lab.engine(), &diary).launch().await?;
        engine.schedule("job").cron(cron).timezone(zone).workflow(job::workflow(), takes(1)).await?;
        lab.advance(days(3)).await;
        let fired: Vec<String> = diary.entries().iter().map(|fired| fired.fired_at.to_string()).collect();
        assert_eq!(fired, expected, "{cron} in {zone}");
        // Else it would go on while the others wait for their day.
        lab.crash(&engine);
    }
    Ok(())
}
