//! A process that is frozen in the middle of a write holds the file until it continues or dies.

use std::time::Duration;

use crate::{
    child::Child,
    eventually::{PATIENCE, eventually, eventually_async},
    role::{Part, Role},
    room::Room,
};

/// A process that is frozen in a write, and another that wants to write.
fn scene(room: &Room) -> (Child, Child) {
    let serving = |name| Child::ready(Role::new(name, room, Part::Serve));
    let (mut frozen, mut waiting) = (serving("frozen"), serving("waiting"));
    frozen.tell("freeze in a write");
    frozen.freeze_in_trap();
    waiting.tell("start");
    let report = format!("process {} holds sqlite://", frozen.pid());
    eventually("the holder is reported", PATIENCE, || waiting.journal().contains(&report));
    // Nothing may be acknowledged while nothing can be written.
    assert_eq!(waiting.hear_within("started", Duration::from_millis(200)), None);
    (frozen, waiting)
}

async fn completes(room: &Room, run: &str) {
    let client = room.client().await;
    eventually_async("the run completes", PATIENCE, || async {
        let done = client.runs().completed().list().await.expect("runs can be found");
        done.iter().any(|done| done.id.to_string() == run)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_name_the_process_that_is_frozen_in_a_write_and_go_on_when_it_continues() {
    let room = Room::new();
    let (mut frozen, waiting) = scene(&room);
    frozen.thaw();
    completes(&room, &waiting.hear("started")).await;
    waiting.stop();
    frozen.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn others_go_on_when_the_process_that_is_frozen_in_a_write_is_killed() {
    let room = Room::new();
    let (mut frozen, waiting) = scene(&room);
    frozen.kill();
    completes(&room, &waiting.hear("started")).await;
    waiting.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_frozen_while_it_waits_for_its_turn_is_named_and_others_go_on_with_it() {
    let room = Room::new();
    let serving = |name| Child::ready(Role::new(name, &room, Part::Serve));
    let (mut writing, mut one, mut other) = (serving("writing"), serving("one"), serving("other"));
    writing.tell("freeze in a write");
    writing.freeze_in_trap();
    let report = format!("process {} holds sqlite://", writing.pid());
    for child in [&mut one, &mut other] {
        child.tell("start");
        eventually("the turn is waited for", PATIENCE, || child.journal().contains(&report));
    }
    // One of them stands right before the turn, and the other one behind it.
    let first =
        std::fs::read_to_string(room.file("app.db-locks/next")).expect("the first in line has signed");
    let one_is_first = first.trim() == one.pid().to_string();
    let (mut stuck, waiting) = if one_is_first { (one, other) } else { (other, one) };
    stuck.freeze();
    // Now nobody writes, and yet nobody can.
    writing.kill();
    let report = format!("process {} holds sqlite://", stuck.pid());
    eventually("the one who stands in the way is reported", PATIENCE, || waiting.journal().contains(&report));
    stuck.thaw();
    completes(&room, &waiting.hear("started")).await;
    completes(&room, &stuck.hear("started")).await;
    waiting.stop();
    stuck.stop();
}
