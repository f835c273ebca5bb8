//! Keys with a rate cost what they need: those that rest are not looked at, and those that are not used are forgotten.

mod common;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use common::{new_run, write};
use windlass_core::{ClaimId, NodeId, RunId};
use windlass_sqlite::{Sqlite, SqliteOptions};
use windlass_store::{
    Act, Claim, Claimed, DefinitionId, DefinitionRow, NewNode, NewRun, QueueChange, QueueLimits, Rate, Store,
    Unit, conformance::TestClock,
};

/// Whoever looked at each of the keys would take longer.
const LONG: Duration = Duration::from_secs(20);

/// So much is written at most to put keys to rest, and that twice in a claim.
const AT_ONCE: i64 = 2_000;

struct Party {
    store: Sqlite,
    path: String,
    node: NodeId,
    version: DefinitionId,
    dir: tempfile::TempDir,
}

impl Party {
    /// With a queue in which so many of a key begin in a span.
    async fn new(count: u32, per: Duration) -> Self {
        Self::at(&TestClock::new(), tempfile::tempdir().unwrap(), count, per).await
    }

    /// The same with a clock, in a folder in which there may be a database already.
    async fn at(clock: &TestClock, dir: tempfile::TempDir, count: u32, per: Duration) -> Self {
        let path = dir.path().join("app.db").to_str().unwrap().to_owned();
        let clock = clock.clone();
        let store = SqliteOptions::new().clock(move || clock.now()).open(&path).await.unwrap();
        let node = NodeId::new();
        let stale_after = Duration::from_secs(600);
        let new = NewNode { id: node, name: None, version: "1".into(), queues: Vec::new(), stale_after };
        store.join(new).await.unwrap();
        let row = DefinitionRow { workflow: "etl".into(), version: "1".into(), body: "{}".into() };
        let version = store.define(row).await.unwrap();
        let limits = QueueLimits { key_rate: Some(Rate { count, per }), ..QueueLimits::NONE };
        store.change_queue("tight".into(), QueueChange::Limits(limits)).await.unwrap();
        Self { store, path, node, version, dir }
    }

    async fn start(&self, workflow: &str, keys: impl Iterator<Item = String>) {
        let start = |key: String| {
            let (workflow, queue_key) = (workflow.into(), Some(key.into()));
            let new = NewRun { workflow, queue: "tight".into(), queue_key, ..new_run() };
            Unit { run: RunId::new(), act: Act::Start(Box::new(new)) }
        };
        write(&self.store, keys.map(start).collect()).await.unwrap();
    }

    async fn claim(&self, room: usize) -> Claimed {
        let workflows: Vec<(Arc<str>, DefinitionId)> = vec![("etl".into(), self.version)];
        let request = Claim {
            node: self.node,
            claim: ClaimId::new(),
            room,
            queues: vec![("tight".into(), 100_000)],
            workflows,
            kept: Vec::new(),
            bytes: usize::MAX,
            free_own: false,
        };
        self.store.claim(request).await.unwrap()
    }

    fn rows(&self, sql: &str) -> i64 {
        let conn = rusqlite::Connection::open(&self.path).unwrap();
        conn.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

fn keys(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|key| format!("key-{key}"))
}

#[tokio::test]
async fn ten_thousand_keys_that_rest_are_not_looked_at_by_each_claim() {
    const KEYS: usize = 10_000;
    let party = Party::new(1, Duration::from_secs(3600)).await;
    for _ in 0..2 {
        party.start("etl", keys(KEYS)).await;
    }
    let first = party.claim(KEYS).await;
    assert_eq!((first.runs.len(), first.more), (KEYS, false));
    let due = first.next_due.expect("the engine is told when the next may begin");
    assert!(due > first.now + Duration::from_secs(3590));
    for _ in 0..KEYS as i64 / AT_ONCE {
        assert_eq!(party.claim(100).await.next_due, Some(due));
    }
    assert_eq!(party.rows("SELECT count(*) FROM ready WHERE resting = 0"), 0);
    let began = Instant::now();
    for number in 0..50 {
        party.start("etl", [format!("new-{number}")].into_iter()).await;
        let claimed = party.claim(100).await;
        assert_eq!((claimed.runs.len(), claimed.more, claimed.next_due), (1, false, Some(due)));
    }
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
}

#[tokio::test]
async fn however_much_is_to_rest_a_claim_writes_a_part_of_it_and_nothing_begins_too_early() {
    let party = Party::new(1, Duration::from_secs(3600)).await;
    for _ in 0..50 {
        party.start("etl", keys(200)).await;
    }
    assert_eq!(party.claim(1_000).await.runs.len(), 200);
    let resting = || party.rows("SELECT count(*) FROM ready WHERE resting = 1");
    let (mut before, mut claims) = (resting(), 0);
    assert!(before > 0 && before <= 2 * AT_ONCE, "{before}");
    while before < 9_800 {
        assert!(party.claim(1_000).await.runs.is_empty());
        let now = resting();
        assert!(now > before && now <= before + 2 * AT_ONCE, "{before} {now}");
        (before, claims) = (now, claims + 1);
        assert!(claims < 10);
    }
    // Taking the rate away writes a row for each key at most, and everything is found.
    party.store.change_queue("tight".into(), QueueChange::Limits(QueueLimits::NONE)).await.unwrap();
    assert_eq!(resting(), 9_800);
    let mut taken = 0;
    while taken < 9_800 {
        let claimed = party.claim(3_000).await;
        assert!(!claimed.runs.is_empty());
        taken += claimed.runs.len();
    }
    for _ in 0..2 {
        assert!(party.claim(3_000).await.runs.is_empty());
    }
    assert_eq!(party.rows("SELECT count(*) FROM resting"), 0, "nothing is left behind");
}

#[tokio::test]
async fn keys_that_rest_go_on_resting_when_another_limit_is_changed() {
    let party = Party::new(1, Duration::from_secs(3600)).await;
    for _ in 0..2 {
        party.start("etl", keys(10)).await;
    }
    party.claim(100).await;
    let awake = || party.rows("SELECT count(*) FROM resting WHERE until = 0");
    assert_eq!((awake(), party.rows("SELECT count(*) FROM resting")), (0, 10));
    for paused in [true, false] {
        party.store.change_queue("tight".into(), QueueChange::Paused(paused)).await.unwrap();
        assert_eq!(awake(), 0);
    }
    let key_rate = Some(Rate { count: 2, per: Duration::from_secs(3600) });
    let limits = QueueLimits { key_rate, ..QueueLimits::NONE };
    party.store.change_queue("tight".into(), QueueChange::Limits(limits)).await.unwrap();
    assert_eq!(awake(), 10);
}

#[tokio::test]
async fn keys_that_rest_do_not_wait_for_a_clock_that_was_put_back_before_the_file_was_opened() {
    let (clock, second) = (TestClock::new(), Duration::from_secs(1));
    let party = Party::at(&clock, tempfile::tempdir().unwrap(), 1, second).await;
    for _ in 0..2 {
        party.start("etl", keys(3)).await;
    }
    assert_eq!(party.claim(100).await.runs.len(), 3);
    assert!(party.claim(100).await.runs.is_empty());
    let Party { store, dir, .. } = party;
    store.close().await;
    clock.put_back(second * 3600);
    let party = Party::at(&clock, dir, 1, second).await;
    let then = party.claim(100).await;
    assert_eq!(then.runs.len(), 3);
    assert!(then.next_due <= Some(then.now + second * 2), "{:?}", then.next_due);
}

#[tokio::test]
async fn keys_that_were_seen_once_leave_nothing_behind() {
    let clock = TestClock::new();
    let party = Party::at(&clock, tempfile::tempdir().unwrap(), 1, Duration::from_micros(1)).await;
    party.start("etl", keys(5_000)).await;
    let mut taken = 0;
    while taken < 5_000 {
        taken += party.claim(1_000).await.runs.len();
    }
    // They go with what is begun next, of whichever key.
    for _ in 0..3 {
        clock.advance(Duration::from_secs(1));
        party.start("etl", ["other".to_owned()].into_iter()).await;
        assert_eq!(party.claim(1).await.runs.len(), 1);
    }
    assert!(party.rows("SELECT count(*) FROM begun") <= 1);
    assert_eq!(party.rows("SELECT count(*) FROM resting"), 0);
}

#[tokio::test]
async fn keys_of_workflows_that_nobody_here_has_are_not_looked_at() {
    let party = Party::new(1_000, Duration::from_secs(1)).await;
    party.start("strange", keys(10_000)).await;
    let began = Instant::now();
    for _ in 0..50 {
        assert!(party.claim(100).await.runs.is_empty());
    }
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
}
