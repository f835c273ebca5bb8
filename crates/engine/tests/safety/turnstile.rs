//! The writers of several processes take turns.

use std::time::Duration;

use crate::{
    child::Child,
    role::{Part, Role},
    room::Room,
};

#[test]
fn with_three_busy_writers_no_heartbeat_waits_longer_than_a_second() {
    let room = Room::new();
    let role = |name| {
        let role = Role::new(name, &room, Part::Serve);
        role.lease(Duration::from_millis(100), Duration::from_secs(30))
    };
    let mut children = ["one", "two", "three"].map(|name| Child::ready(role(name)));
    for child in &mut children {
        child.tell("be busy");
    }
    for child in &children {
        for _ in 0..30 {
            child.hear("beat");
        }
    }
    for child in &mut children {
        child.tell("tell the slowest heartbeat");
        let slowest: u64 = child.hear("slowest").parse().expect("milliseconds");
        assert!(slowest < 1000, "a heartbeat waited {slowest} ms");
    }
}
