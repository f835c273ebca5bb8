//! Operations that meet in the middle: whatever two do to one run or one node at once, it comes out as if one had come
//! after the other.
//!
//! One of the two reaches the server through a [proxy](proxy) that can stop it before each of its statements. There it
//! waits, with all the locks it has, until the other is done or waits for it.

mod acts;
mod ask;
mod call;
mod children;
#[path = "../common/mod.rs"]
mod common;
mod database;
mod fence;
mod holding;
mod idle;
mod invariants;
mod proxy;
mod round;
mod world;

use round::Round;
use world::World;

/// Lets every pair of operations of a situation meet at every statement.
async fn meet_all(world: World) {
    let (met, breaches) = Round::of(world).await.meet_all().await;
    assert!(breaches.is_empty(), "{} of {met}:\n{}", breaches.len(), breaches.join("\n\n"));
}

#[tokio::test]
async fn whatever_meets_over_a_held_run_takes_turns() {
    meet_all(World::Held).await;
}

#[tokio::test]
async fn whatever_meets_over_a_silent_node_takes_turns() {
    meet_all(World::Stale).await;
}

#[tokio::test]
async fn whatever_meets_over_a_dead_node_takes_turns() {
    meet_all(World::Dead).await;
}

#[tokio::test]
async fn whatever_meets_over_a_ready_run_takes_turns() {
    meet_all(World::Ready).await;
}

#[tokio::test]
async fn whatever_meets_over_a_due_run_takes_turns() {
    meet_all(World::Due).await;
}

#[tokio::test]
async fn whatever_meets_over_a_blocked_run_takes_turns() {
    meet_all(World::Blocked).await;
}

#[tokio::test]
async fn whatever_meets_over_an_ended_run_takes_turns() {
    meet_all(World::Ended).await;
}

#[tokio::test]
async fn whatever_meets_over_a_run_and_its_children_takes_turns() {
    meet_all(World::Family).await;
}

#[tokio::test]
async fn whatever_meets_over_a_run_that_waits_for_its_children_takes_turns() {
    meet_all(World::Expecting).await;
}

#[tokio::test]
async fn whatever_begins_at_once_takes_turns() {
    meet_all(World::Empty).await;
}

#[tokio::test]
async fn whatever_meets_over_published_attempts_takes_turns() {
    meet_all(World::Spread).await;
}

#[tokio::test]
async fn whatever_meets_over_a_run_that_waits_for_its_attempts_takes_turns() {
    meet_all(World::Parked).await;
}

#[tokio::test]
async fn whatever_meets_over_a_run_that_some_of_its_attempts_have_stirred_takes_turns() {
    meet_all(World::Stirred).await;
}

#[tokio::test]
async fn whatever_meets_over_attempts_of_a_dead_node_takes_turns() {
    meet_all(World::SpreadDead).await;
}

#[tokio::test]
async fn whatever_meets_over_a_queue_with_limits_takes_turns() {
    meet_all(World::Limited).await;
}

#[tokio::test]
async fn whatever_meets_over_a_queue_that_keeps_its_slots_takes_turns() {
    meet_all(World::Kept).await;
}

#[tokio::test]
async fn whatever_wants_the_key_of_a_delayed_run_takes_turns() {
    meet_all(World::Taken).await;
}

#[tokio::test]
async fn whatever_wants_the_key_of_a_held_run_takes_turns() {
    meet_all(World::TakenHeld).await;
}
