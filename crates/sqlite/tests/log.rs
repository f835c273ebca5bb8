//! Room in the log never costs anything that was written.

mod common;

use std::{collections::HashSet, fs::File, path::Path, process::Command, sync::Arc, time::Duration};

use common::{count, start, write};
use rusqlite::Connection;
use windlass_core::RunId;
use windlass_sqlite::{Sqlite, SqliteOptions, Synchronous};
use windlass_store::{Act, KeyConflict, KeyLife, NewKey, Store};

fn log_of(file: &Path) -> std::path::PathBuf {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// The runs in a database file and its log, as whoever opens them after a crash finds them.
fn found(file: &Path) -> i64 {
    let conn = Connection::open(file).unwrap();
    let check: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    conn.query_row("SELECT count(*) FROM run", [], |row| row.get(0)).unwrap()
}

/// Whatever length a large commit leaves the log at, the next one is written.
#[tokio::test]
async fn a_log_of_any_length_is_written_on() {
    for pages in (3_990..4_080).step_by(10) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("app.db");
        let options = SqliteOptions::new().synchronous(Synchronous::Normal);
        let store = options.open(file.to_str().unwrap()).await.unwrap();
        write(&store, vec![start(pages * 4_092)]).await.unwrap();
        let len = std::fs::metadata(log_of(&file)).unwrap().len();
        write(&store, vec![start(10)]).await.unwrap_or_else(|error| panic!("{len} bytes: {error}"));
        assert_eq!(count(&store).await, 2);
    }
}

/// A copy of what is on disk, as a power cut leaves it: the log ends at `cut`, or has rubbish from there on.
fn copy(file: &Path, to: &Path, cut: usize, rubbish: &[u8]) {
    std::fs::copy(file, to).unwrap();
    let mut log = std::fs::read(log_of(file)).unwrap();
    log.truncate(cut);
    log.extend_from_slice(rubbish);
    std::fs::write(log_of(to), log).unwrap();
    let mut index = to.as_os_str().to_owned();
    index.push("-shm");
    drop(std::fs::remove_file(index));
}

#[tokio::test]
async fn a_log_that_is_cut_anywhere_holds_the_first_commits_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (file, after) = (dir.path().join("app.db"), dir.path().join("after.db"));
    let store = Sqlite::open(file.to_str().unwrap()).await.unwrap();
    // In the second round the log is used from its beginning again, over what was there.
    let (mut moved, mut written) = (0, 0);
    for round in 0..2 {
        let mut wholes = vec![moved];
        for units in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1] {
            write(&store, (0..units).map(|n| start(n * 700)).collect()).await.unwrap();
            written += units as i64;
            wholes.push(written);
        }
        let log = std::fs::read(log_of(&file)).unwrap();
        let used = log.iter().rposition(|byte| *byte != 0).unwrap();
        assert!(used + 10_000 < log.len(), "no room was made");
        let mut before = moved;
        for cut in (0..used + 10_000).step_by(if round == 0 { 7_373 } else { 9_111 }).chain([log.len()]) {
            let tail = log.get(cut..).unwrap_or_default();
            let torn: Vec<u8> = tail.iter().map(|byte| byte ^ 0x55).collect();
            for rubbish in [&[][..], &vec![0; tail.len()], &torn] {
                copy(&file, &after, cut, rubbish);
                // Before the tables are in the file there is nothing to be counted.
                if moved == 0 && cut < 200_000 && !has_tables(&after) {
                    continue;
                }
                let found = found(&after);
                assert!(wholes.contains(&found) && found >= before, "{cut}: {found} after {before}");
                if rubbish.is_empty() {
                    before = found;
                }
            }
        }
        assert_eq!(before, written);
        let all = Connection::open(&file).unwrap();
        all.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
        moved = written;
    }
}

fn has_tables(file: &Path) -> bool {
    let conn = Connection::open(file).unwrap();
    conn.prepare("SELECT 1 FROM run").is_ok()
}

#[tokio::test]
async fn whatever_others_do_to_the_log_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (file, after) = (dir.path().join("app.db"), dir.path().join("after.db"));
    let url = file.to_str().unwrap();
    let store = Sqlite::open(url).await.unwrap();
    let mut written = 0;
    for round in 0..40 {
        for units in 1..=3 {
            write(&store, (0..units).map(|n| start(n * round * 900)).collect()).await.unwrap();
            written += units;
        }
        let other = Connection::open(&file).unwrap();
        let checkpoint = |mode| other.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
        match round % 5 {
            0 => checkpoint("TRUNCATE").unwrap(),
            1 => checkpoint("RESTART").unwrap(),
            2 => {
                other.execute_batch("PRAGMA journal_size_limit = 0; PRAGMA wal_checkpoint(RESTART)").unwrap();
                other
                    .execute_batch("CREATE TABLE IF NOT EXISTS theirs (x); INSERT INTO theirs VALUES (1)")
                    .unwrap();
            }
            3 => {
                let peer = Sqlite::open(url).await.unwrap();
                write(&peer, vec![start(50_000)]).await.unwrap();
                written += 1;
                peer.close().await;
            }
            _ => {}
        }
        drop(other);
        copy(&file, &after, usize::MAX, &[]);
        assert_eq!(found(&after), written as i64, "round {round}");
    }
    assert_eq!(count(&store).await, written);
    store.close().await;
    assert_eq!(found(&file), written as i64);
}

/// Writes until it is killed, and says what was acknowledged. Only a child of the next test.
#[tokio::test]
async fn write_for_ever() {
    let Ok(file) = std::env::var("WINDLASS_WRITE_TO") else { return };
    let store = Sqlite::open(&file).await.unwrap();
    let mut size = std::process::id() as usize;
    loop {
        size = size * 7919 % 10_007;
        let units: Vec<_> = (0..1 + size % 40).map(|_| start(size % 3_000)).collect();
        let ids: Vec<_> = units.iter().map(|unit| unit.run.to_string()).collect();
        write(&store, units).await.unwrap();
        println!("wrote {} .", ids.join(" "));
    }
}

fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn what_processes_acknowledged_before_they_were_killed_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.db");
    let mut acknowledged = HashSet::new();
    for round in 0..4_u64 {
        let said = [0, 1].map(|child| dir.path().join(format!("said-{round}-{child}")));
        let mut children: Vec<_> = said
            .iter()
            .map(|said| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "write_for_ever", "--nocapture"])
                    .env("WINDLASS_WRITE_TO", &file)
                    .stdout(File::create(said).unwrap())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for pause in 0..4 {
            std::thread::sleep(Duration::from_millis(70 + 13 * ((round * 5 + pause) % 7)));
            let other = Connection::open(&file).unwrap();
            other.busy_timeout(Duration::from_secs(2)).unwrap();
            let mode = ["TRUNCATE", "PASSIVE", "RESTART"][(round + pause) as usize % 3];
            other.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
        }
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        found(&file);
        let conn = Connection::open(&file).unwrap();
        let mut find = conn.prepare("SELECT 1 FROM run WHERE id = ?1").unwrap();
        // The last line may have been cut off.
        for line in said.iter().flat_map(|said| lines(said)) {
            let Some(ids) = line.strip_prefix("wrote ").and_then(|ids| ids.strip_suffix(" .")) else {
                continue;
            };
            for id in ids.split(' ') {
                let run: RunId = id.parse().unwrap();
                assert!(find.exists([run.as_bytes()]).unwrap(), "{run} is lost");
                acknowledged.insert(run);
            }
        }
    }
    println!("{} runs", acknowledged.len());
    assert!(!acknowledged.is_empty());
}

#[tokio::test]
async fn spans_without_end_stop_nobody() {
    let store = Sqlite::open("sqlite::memory:").await.unwrap();
    let mut unit = start(1);
    if let Act::Start(new) = &mut unit.act {
        new.delay = Some(Duration::MAX);
        new.timeout = Some(Duration::MAX);
        let (key, digest) = ("k".into(), [1; 16]);
        let life = KeyLife::For(Duration::MAX);
        new.key = Some(NewKey { key, digest, life, conflict: KeyConflict::Refuse });
    }
    let run = unit.run;
    write(&store, vec![unit]).await.unwrap();
    assert!(store.load(run).await.unwrap().is_some());
    assert_eq!(store.by_key(Arc::from("etl"), "k".into()).await.unwrap(), Some(run));
}

/// The room that one makes is no reason for the other to make more.
#[tokio::test]
async fn two_who_write_in_turn_do_not_blow_up_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.db");
    let first = Sqlite::open(file.to_str().unwrap()).await.unwrap();
    let second = Sqlite::open(file.to_str().unwrap()).await.unwrap();
    for _ in 0..15 {
        write(&first, vec![start(10)]).await.unwrap();
        write(&second, vec![start(10)]).await.unwrap();
    }
    let len = std::fs::metadata(log_of(&file)).unwrap().len();
    assert!(len < 2 << 20, "{len}");
    assert_eq!(count(&first).await, 30);
}
