//! A schedule and two processes, one of which is killed.

use std::time::Duration;

use windlass::{Client, Time, schedule::CatchUp};

use crate::{
    child::Child,
    eventually::{PATIENCE, eventually_async},
    role::{Part, Role},
    room::Room,
    three_processes::LEASE,
};

on_both!(a_schedule_fires_each_second_once_also_when_a_process_is_killed);

/// How many seconds it is watched, half of them with one process: 60 with `WINDLASS_LONG`.
fn seconds() -> usize {
    if std::env::var_os("WINDLASS_LONG").is_some() { 60 } else { 8 }
}

/// The second that each run is for, and when it was started.
async fn fired(client: &Client) -> Vec<(i64, Time)> {
    let runs = client.runs().workflow("pair").limit(1_000).list().await.expect("runs can be found");
    let second = |key: &str| {
        let time: windlass::jiff::Timestamp = key.strip_prefix("tick@")?.parse().ok()?;
        Some(time.as_second())
    };
    let fired = runs.iter().filter_map(|run| Some((second(run.key.as_deref()?)?, run.created_at)));
    let mut fired: Vec<_> = fired.collect();
    fired.sort_unstable();
    fired
}

async fn until_fired(client: &Client, runs: usize) {
    eventually_async("the schedule fires", PATIENCE * 2, || async { fired(client).await.len() >= runs })
        .await;
}

async fn a_schedule_fires_each_second_once_also_when_a_process_is_killed(room: Room) {
    let [mut killed, _sound] = ["killed", "sound"].map(|name| {
        let role = Role::new(name, &room, Part::Serve).lease(Duration::from_millis(500), LEASE);
        Child::ready(role)
    });
    let client = room.client().await;
    let tick = client.schedule("tick").every(Duration::from_secs(1)).catch_up(CatchUp::All { max: 60 });
    tick.overlap(windlass::schedule::Overlap::Allow)
        .workflow_by_name("pair", serde_json::json!(1))
        .await
        .expect("it is declared");
    until_fired(&client, seconds() / 2).await;
    killed.kill();
    until_fired(&client, seconds()).await;
    let fired = fired(&client).await;
    let first = fired[0].0;
    for (number, (second, started)) in fired.iter().enumerate() {
        assert_eq!(*second, first + number as i64, "one run for each second: {fired:?}");
        let late = started.0 - second * 1_000_000;
        assert!((0..1_000_000).contains(&late), "{late} µs late: {fired:?}");
    }
    let status = client.schedules().get("tick").await.expect("it is there").status().await;
    assert!(status.expect("it can be asked").runs >= fired.len() as u64);
}
