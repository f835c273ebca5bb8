//! A run that kills its process.

use crate::{
    child::{Child, was_killed},
    role::{Part, Role},
    room::Room,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_kills_its_process_is_abandoned_and_its_neighbour_is_not() {
    let room = Room::new();
    let mut deaths = 0;
    let (runs, why) = loop {
        let mut child = Child::spawn(Role::new(&format!("boot{deaths}"), &room, Part::Poison));
        let runs = child.hear("runs");
        if let Some(why) = child.hear_within("abandoned", std::time::Duration::from_secs(30)) {
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
