//! What is asked again and again reads what it needs, however many runs there are, and whatever the server believed of the
//! tables when it planned that.

mod common;

use std::{
    collections::HashSet,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use common::{cluster, connect, fresh, new_run, node, step};
use windlass_core::{ClaimId, NodeId, RunId, RunState};
use windlass_postgres::{Postgres, PostgresOptions};
use windlass_store::{
    Act, Aged, Claim, DefinitionId, Discard, Keyed, NewEnd, NewMessage, NewRun, Parent, QueueChange,
    QueueLimits, Rate, Store, Unit, Wait,
};

/// How many runs are held, and how many have ended. Whoever looks through all that have ended for each that is held
/// takes minutes.
const HELD: u64 = 200;
const ENDED: u64 = 200_000;
/// Some hundred times what it takes.
const LONG: Duration = Duration::from_secs(2);
/// How many rows are read for each run that is held, at most, over everything that is asked: far fewer than there are.
const READ: u64 = 500;

/// The server knows for sure that nothing is there, and is not told of anything else.
const EMPTY: &str = "\
    DO $$ DECLARE t record; BEGIN \
        FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = '{s}' LOOP \
            EXECUTE format('ALTER TABLE {s}.%I SET (autovacuum_enabled = off)', t.tablename); \
            EXECUTE format('ANALYZE {s}.%I', t.tablename); \
        END LOOP; END $$";
const FILL: &str = "\
    INSERT INTO {s}.run (id, workflow, queue, priority, generation, opened_at, recoveries, created_at, input) \
    SELECT gen_random_uuid(), 'etl', 'default', 5, 1, 0, 0, 0, '' FROM generate_series(1, {n}); \
    INSERT INTO {s}.ended (workflow, run, generation, state, at) \
    SELECT workflow, id, 1, 6, 0 FROM {s}.run WHERE definition IS NULL; \
    INSERT INTO {s}.step (run, generation, name, attempt, started_in, epoch, kind, started_at, ended_at) \
    SELECT run, 1, 'a', 1, -1, 0, 0, 0, 0 FROM {s}.ended WHERE claim IS NULL; \
    INSERT INTO {s}.waiting (run, workflow, state, topics) \
    SELECT run, workflow, 2, '{other}' FROM {s}.ended WHERE claim IS NULL; \
    INSERT INTO {s}.inbox (run, topic, key, body, at) \
    SELECT run, 'news', 'one', '', 0 FROM {s}.ended WHERE claim IS NULL; \
    INSERT INTO {s}.delivered (run, topic, key) SELECT run, topic, 'two' FROM {s}.inbox WHERE topic = 'news'; \
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run) \
    SELECT 'other', '', workflow, 5, run FROM {s}.ended WHERE claim IS NULL; \
    INSERT INTO {s}.key (workflow, key, run, digest) SELECT workflow, run::text, run, '' FROM {s}.ended WHERE claim IS NULL";
/// Rows that were read so far, by whoever has said so: a connection does when it closes.
const ROWS: &str = "\
    SELECT relname::text, (seq_tup_read + coalesce((SELECT sum(idx_tup_read) FROM pg_stat_user_indexes AS i \
        WHERE i.relid = t.relid), 0))::bigint \
    FROM pg_stat_user_tables AS t WHERE schemaname = $1 ORDER BY 2 DESC";
const FORGET: &str = "\
    SELECT pg_stat_reset_single_table_counters(c.oid) FROM pg_class AS c WHERE c.relnamespace = '{s}'::regnamespace";
/// How many connections to this schema are open.
const OPEN: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";

/// A schema whose tables the server knows to be empty, and the names by which its connections are told apart.
struct Ground {
    schema: String,
    url: String,
    side: String,
}

impl Ground {
    async fn new() -> Self {
        let schema = fresh();
        let mark = if cluster().url().contains('?') { '&' } else { '?' };
        let [url, side] =
            ["", "_side"].map(|name| format!("{}{mark}application_name={schema}{name}", cluster().url()));
        let ground = Self { schema, url, side };
        drop(ground.store().await);
        ground.execute(EMPTY).await;
        ground
    }

    async fn store(&self) -> Postgres {
        PostgresOptions::new().schema(&self.schema).open(&self.url).await.unwrap()
    }

    async fn execute(&self, sql: &str) {
        let sql = sql
            .replace("{s}", &self.schema)
            .replace("{n}", &ENDED.to_string())
            .replace("{k}", &KEYS.to_string());
        connect(&self.side).await.batch_execute(&sql).await.unwrap();
        closed(&format!("{}_side", self.schema)).await;
    }
}

struct World {
    store: Postgres,
    me: NodeId,
}

fn run(number: u64) -> RunId {
    RunId::from_bytes(u128::from(number).to_be_bytes())
}

fn start(claim: ClaimId, parent: RunId) -> Act {
    let parent = Some(Parent { run: parent, topic: ">child".into() });
    Act::Start(Box::new(NewRun { tags: vec!["tag".into()], parent, ..new_run(claim, DefinitionId(1)) }))
}

fn record(claim: ClaimId) -> Act {
    Act::Record { claim, steps: vec![step("a")], consumed: Vec::new(), forget: false }
}

fn end(claim: ClaimId) -> Act {
    let end = NewEnd { state: RunState::Completed, output: None, failure: None };
    Act::End { claim, steps: Vec::new(), end }
}

impl World {
    async fn commit(&self, acts: impl Iterator<Item = (u64, Act)>) {
        let units = acts.map(|(number, act)| Unit { run: run(number), act }).collect();
        let answers = self.store.commit(Some(self.me), Arc::new(units)).await.unwrap();
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }

    /// Does everything once, with the runs from `first` on. Answers what took how long.
    async fn go_through(&self, first: u64, claim: u64) -> Vec<(&'static str, Duration)> {
        let Self { store, me } = self;
        let mine = first..first + HELD;
        let mut took = Vec::new();
        let mut note = |what, began: Instant| took.push((what, began.elapsed()));
        let parent = first + 5_000;
        let alone = Act::Start(Box::new(new_run(ClaimId(parent), DefinitionId(1))));
        self.commit([(parent, alone)].into_iter()).await;
        let began = Instant::now();
        self.commit(mine.clone().map(|number| (number, start(ClaimId(number), run(parent))))).await;
        note("starts", began);
        let began = Instant::now();
        self.commit(mine.clone().map(|number| (number, record(ClaimId(number))))).await;
        note("records", began);
        let began = Instant::now();
        // Sent again: now it is written with care.
        self.commit(mine.clone().map(|number| (number, record(ClaimId(number))))).await;
        note("records again", began);
        note("heartbeat", timed(store.heartbeat(*me, 0.into())).await);
        note("inbox", timed(store.inbox(*me, None)).await);
        note("load", timed(store.load(run(first))).await);
        note("ends", timed(store.ends(mine.clone().map(run).collect())).await);
        let began = Instant::now();
        self.commit(mine.clone().map(|number| (number, park(ClaimId(number))))).await;
        note("parks", began);
        let began = Instant::now();
        self.commit(mine.clone().map(|number| (number, message()))).await;
        note("messages", began);
        let request = Claim {
            node: *me,
            claim: ClaimId(claim + 1_000),
            room: 1000,
            queues: vec![("default".into(), 1000)],
            workflows: vec![("etl".into(), DefinitionId(1))],
            bytes: usize::MAX,
            kept: Vec::new(),
            free_own: true,
        };
        let began = Instant::now();
        let woken = store.claim(request.clone()).await.unwrap().runs;
        note("claim", began);
        assert_eq!(woken.len() as u64, HELD);
        let units = woken.into_iter().map(|image| {
            let consumed = image.inbox.iter().map(|row| row.seq).collect();
            let act = Act::Record { claim: request.claim, steps: Vec::new(), consumed, forget: false };
            Unit { run: image.run.id, act }
        });
        let units: Vec<Unit> = units.collect();
        let began = Instant::now();
        let answers = store.commit(Some(*me), Arc::new(units)).await.unwrap();
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        note("messages taken in", began);
        let began = Instant::now();
        self.commit(mine.clone().map(|number| (number, Act::Release { claim: request.claim }))).await;
        note("releases", began);
        let request = Claim { claim: ClaimId(claim), ..request };
        note("look", timed(store.look(request.clone())).await);
        note("claim", timed(store.claim(request.clone())).await);
        note("claim again", timed(store.claim(request)).await);
        let began = Instant::now();
        self.commit(mine.clone().map(|number| (number, end(ClaimId(claim))))).await;
        note("ends", began);
        let began = Instant::now();
        self.commit(mine.clone().map(|number| (number, end(ClaimId(claim))))).await;
        note("ends again", began);
        let told = store.load(run(parent)).await.unwrap().unwrap().inbox;
        assert_eq!(told.len() as u64, HELD);
        self.commit([(parent, end(ClaimId(parent)))].into_iter()).await;
        let aged = Aged { after: None, before: run(parent), limit: HELD as usize };
        note("aged", timed(store.aged(aged)).await);
        let runs = mine.map(|number| (run(number), 1)).collect();
        let began = Instant::now();
        let request = Discard { node: Some(*me), runs, keyed: Keyed::Stays, within: Duration::MAX };
        let gone = store.discard(request).await.unwrap();
        note("discards", began);
        assert!(gone.iter().all(Result::is_ok), "{gone:?}");
        took
    }
}

fn park(claim: ClaimId) -> Act {
    let wait = Wait {
        state: RunState::Suspended,
        until: None,
        topics: vec!["news".into()],
        reason: None,
        blocked_by: None,
    };
    Act::Park { claim, steps: Vec::new(), consumed: Vec::new(), wait }
}

fn message() -> Act {
    Act::Send(NewMessage { topic: "news".into(), key: Some("one".into()), body: Bytes::new() })
}

async fn timed<T, E: std::fmt::Debug>(asked: impl Future<Output = Result<T, E>>) -> Instant {
    let began = Instant::now();
    asked.await.unwrap();
    began
}

/// Waits until the connections of this name are gone, and have said what they read.
async fn closed(name: &str) {
    let client = connect(cluster().url()).await;
    let gone = async {
        while client.query_one(OPEN, &[&name]).await.unwrap().get::<_, i64>(0) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("the connections close");
}

#[tokio::test]
async fn what_is_asked_reads_no_more_and_takes_no_longer_when_many_runs_have_ended() {
    let ground = Ground::new().await;
    let store = ground.store().await;
    let (me, other) = (node(), node());
    store.join(me.clone()).await.unwrap();
    store.join(other.clone()).await.unwrap();
    let world = World { store, me: me.id };
    // Now everything is planned, for tables in which there is nothing.
    world.go_through(1, 1).await;
    ground.execute(FILL).await;
    ground.execute(FORGET).await;
    let mut took = world.go_through(10_001, 2).await;
    let World { store, me } = world;
    took.push(("sweep", timed(store.sweep(other.id, 100)).await.elapsed()));
    took.push(("leave", timed(store.leave(me)).await.elapsed()));
    let long: Vec<_> = took.iter().filter(|(_, took)| *took > LONG).collect();
    assert!(long.is_empty(), "{long:?}");
    drop(store);
    let read = read(&ground.schema).await;
    let all: i64 = read.iter().map(|(_, rows)| rows).sum();
    assert!(all > HELD as i64, "nothing was counted");
    assert!(all < (READ * HELD) as i64, "rows were read that nobody asked for: {read:?}");
    ground.execute("DROP SCHEMA {s} CASCADE").await;
}

/// Runs of ten thousand keys that wait in a declared queue, each with a time limit, and as many that have to stop, of a workflow
/// that nobody asks for.
const KEYED: &str = "\
    INSERT INTO {s}.run (id, workflow, queue, queue_key, priority, generation, opened_at, recoveries, created_at, input) \
    SELECT gen_random_uuid(), 'etl', 'tight', 'key ' || g % {k}, 5, 1, 0, 0, 0, '' FROM generate_series(1, {n}) AS g; \
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at) \
    SELECT queue, '=' || queue_key, workflow, priority, id, 9000000000000000000 FROM {s}.run WHERE queue = 'tight'; \
    INSERT INTO {s}.ready (queue, lane, workflow, priority, run, stops_at) \
    SELECT queue, '', 'mail', priority, id, 1 FROM {s}.run WHERE queue = 'tight'";
const KEYS: u64 = 10_000;
/// How many times runs are claimed, and how many each time.
const CLAIMS: u64 = 20;
const PORTION: usize = 10;

#[tokio::test]
async fn a_claim_from_a_queue_with_limits_sorts_and_reads_no_backlog() {
    let ground = Ground::new().await;
    let (store, me) = (ground.store().await, node());
    store.join(me.clone()).await.unwrap();
    let limits = QueueLimits {
        concurrency: Some(CLAIMS as u32 * PORTION as u32 * 2),
        per_key: Some(1),
        rate: Some(Rate { count: 1_000_000, per: Duration::from_secs(1) }),
        ..QueueLimits::default()
    };
    store.change_queue("tight".into(), QueueChange::Limits(limits)).await.unwrap();
    let claim = async || {
        let request = Claim {
            node: me.id,
            claim: ClaimId::new(),
            room: PORTION,
            queues: vec![("tight".into(), 1000)],
            workflows: vec![("etl".into(), DefinitionId(1))],
            bytes: usize::MAX,
            kept: Vec::new(),
            free_own: true,
        };
        store.claim(request).await.unwrap().runs
    };
    // Now it is planned, for a table in which there is nothing.
    assert!(claim().await.is_empty());
    ground.execute(KEYED).await;
    ground.execute(FORGET).await;
    let mut keys = HashSet::new();
    for _ in 0..CLAIMS {
        let runs = claim().await;
        assert_eq!(runs.len(), PORTION);
        assert!(runs.iter().all(|image| keys.insert(image.run.queue_key.clone())), "a key began twice");
    }
    drop(store);
    let read = read(&ground.schema).await;
    let all: i64 = read.iter().map(|(_, rows)| rows).sum();
    let taken = CLAIMS as i64 * PORTION as i64;
    assert!(all > taken, "nothing was counted");
    assert!(all < (CLAIMS * KEYS / 2) as i64, "the backlog, or all its keys, were read: {read:?}");
    ground.execute("DROP SCHEMA {s} CASCADE").await;
}

/// Connections that are closed have said what they read: how many rows of which table.
async fn read(schema: &str) -> Vec<(String, i64)> {
    closed(schema).await;
    let rows = connect(cluster().url()).await.query(ROWS, &[&schema]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}
