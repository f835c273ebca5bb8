//! A run that kills its process.

use std::time::Duration;

use crate::{
    child::{Child, was_killed},
    role::{Part, Role},
    room::Room,
};

async fn a_run_that_kills_its_process_is_abandoned_and_its_neighbour_is_not(room: Room) {
    let mut deaths = 0;
    let (runs, why) = loop {
        // On a server, nobody knows that a process is dead before its lease is over.
        let role = Role::new(&format!("boot{deaths}"), &room, Part::Poison)
            .lease(Duration::from_millis(200), Duration::from_secs(2));
        let mut child = Child::spawn(role);
        let runs = child.hear("runs");
        if let Some(why) = child.hear_within("abandoned", Duration::from_secs(30)) {
            let status = child.end();
            assert!(status.success(), "{status}\n{}", child.last_words());
            break (runs, why);
        }
        let status = child.end();
        assert!(was_killed(status), "{status}\n{}", child.last_words());
        deaths += 1;
        assert!(deaths < 10, "the run is never abandoned");
    };
    // The first death leaves no trace of what was started; of those after it, two are survived.
    assert_eq!(deaths, 4);
    assert!(why.contains("died 3 times in a row while `bad` was running"), "{why}");
    let store = room.store().await;
    let neighbour = runs.split(' ').next().expect("two runs").parse().expect("a run id");
    let image = store.load(neighbour).await.expect("a run can be loaded").expect("the run is there");
    assert_eq!(image.standing.state(), windlass::RunState::Completed);
    assert_eq!(image.standing.recoveries, deaths, "the neighbour was there at every death");
}

on_both! {
    a_run_that_kills_its_process_is_abandoned_and_its_neighbour_is_not,
}
