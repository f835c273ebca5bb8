//! A process that wakes up after its lease has run out.

use std::time::Duration;

use crate::{
    child::Child,
    eventually::{PATIENCE, eventually, eventually_async},
    ledger,
    role::{Part, Role},
    room::Room,
};

fn serving(name: &str, room: &Room) -> Child {
    let lease = (Duration::from_millis(200), Duration::from_millis(1500));
    Child::ready(Role::new(name, room, Part::Serve).lease(lease.0, lease.1))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_starts_no_step_that_another_process_has_recorded() {
    let room = Room::new();
    let mut zombie = serving("zombie", &room);
    let (client, store) = (room.client().await, room.store().await);
    zombie.tell("retry later");
    let tries = |attempt: u32| {
        ledger::effects(&room.effects()).iter().filter(|effect| effect.attempt.attempt == attempt).count()
    };
    eventually("every run has failed once", PATIENCE, || tries(1) == 50);
    let retrying = || async {
        let mut waiting = 0;
        for run in client.runs().running().limit(50).list().await.expect("runs can be found") {
            let image = store.load(run.id).await.expect("a run loads").expect("it is there");
            waiting += image.steps.len();
        }
        waiting == 50
    };
    eventually_async("every failure is recorded", PATIENCE, retrying).await;
    zombie.tell("freeze before a heartbeat");
    zombie.freeze_in_trap();
    assert_eq!(tries(2), 0, "the process was frozen after its runs were tried again, so this shows nothing");

    let sound = serving("sound", &room);
    eventually_async("the other process completes every run", PATIENCE, || async {
        client.runs().completed().limit(50).list().await.expect("runs can be found").len() == 50
    })
    .await;
    zombie.thaw();
    zombie.hear("joining");
    zombie.stop();
    sound.stop();
    let by_attempt = ledger::by_attempt(ledger::effects(&room.effects()));
    let repeated: Vec<_> = by_attempt.iter().filter(|(_, by)| by.len() > 1).collect();
    assert!(repeated.is_empty(), "{} recorded steps ran again: {repeated:?}", repeated.len());
}
