//! A task's transaction takes effect exactly once in a SQLite file, whenever its process is killed or frozen.

use std::time::Duration;

use rusqlite::Connection;

use crate::{
    child::{Child, was_killed},
    entries,
    eventually::{PATIENCE, eventually, eventually_async},
    role::{Boundary, Part, Role},
    room::Room,
};

/// A room whose file has the application's table.
async fn room() -> (Room, Connection) {
    let room = Room::new();
    drop(room.store().await);
    let conn = Connection::open(room.database()).expect("the file opens");
    conn.busy_timeout(Duration::from_secs(10)).expect("it waits");
    let make = format!("CREATE TABLE {} (run TEXT, step TEXT, made_by TEXT)", entries::table(&room));
    conn.execute_batch(&make).expect("the table is made");
    (room, conn)
}

/// Each run has made its two entries once.
fn check(conn: &Connection, runs: usize, story: &str) {
    let sql = "SELECT run, step, count(*) FROM entry GROUP BY run, step";
    let mut query = conn.prepare(sql).expect("the table is read");
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("it is read");
    let entries: Vec<(String, String, u32)> = rows.map(|row| row.expect("a row")).collect();
    assert_eq!(entries.len(), 2 * runs, "{story}: {entries:?}");
    assert!(entries.iter().all(|(.., count)| *count == 1), "{story}: {entries:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_on_either_side_of_any_commit_makes_every_entry_once() {
    let sides: [fn(u64) -> Boundary; 2] = [Boundary::Before, Boundary::After];
    for side in sides {
        for number in 1.. {
            let (room, conn) = room().await;
            let kill = side(number);
            let all = |name: &str, kill| Child::spawn(Role::new(name, &room, Part::EnterAll { kill })).end();
            let status = all("killed", Some(kill));
            if was_killed(status) {
                let status = all("sound", None);
                assert!(status.success(), "{kill:?}: {status}");
            } else {
                // It has fewer commits than that.
                assert!(status.success(), "{kill:?}: {status}");
                assert!(number > 8, "only {number} commits were on the way");
            }
            check(&conn, 3, &format!("{kill:?}"));
            if !was_killed(status) {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_frozen_in_a_body_has_the_file_and_its_entry_is_made_once() {
    let (room, conn) = room().await;
    let lease = (Duration::from_millis(200), Duration::from_millis(1000));
    let role = |name: &str| Role::new(name, &room, Part::Enter).lease(lease.0, lease.1);
    let mut frozen = Child::ready(role("frozen"));
    frozen.tell("freeze in a body");
    frozen.tell("start");
    frozen.hear("trapped");
    eventually("a body that does not end is reported by its name", PATIENCE, || {
        frozen.journal().contains("first has the database for itself and does not end")
    });
    frozen.freeze();
    let sound = Child::spawn(role("sound"));
    assert!(sound.hear_within("ready", lease.1 * 2).is_none(), "nobody else can write meanwhile");
    frozen.thaw();
    sound.hear("ready");
    let client = room.client().await;
    eventually_async("the run completes", PATIENCE, || async {
        client.runs().completed().list().await.expect("runs can be found").len() == 1
    })
    .await;
    assert!(frozen.journal().contains("first was slow in its transaction"), "{}", frozen.journal());
    frozen.stop();
    sound.stop();
    check(&conn, 1, "frozen");
}
