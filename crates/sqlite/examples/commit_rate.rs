//! How fast batches are written, beside a bare loop that writes the leanest rows that hold the same facts.
//!
//! `cargo run --release -p windlass-sqlite --example commit_rate [runs] [chain3|burndown]`

use std::{path::Path, sync::Arc, time::Instant};

use bytes::Bytes;
use rusqlite::Connection;
use windlass_core::{ClaimId, NodeId, RunId, RunState, StepKind, Time};
use windlass_sqlite::Sqlite;
use windlass_store::{
    Act, Claim, DefinitionId, DefinitionRow, NewEnd, NewNode, NewRun, Owner, StepRow, Store, Unit,
};

const TOGETHER: usize = 1_000;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let runs = std::env::args().nth(1).map_or(Ok(200_000), |runs| runs.parse())?;
    let only = std::env::args().nth(2);
    let wants = |workload| only.as_deref().is_none_or(|only| only == workload);
    for round in 1..=3 {
        println!("round {round}");
        if wants("chain3") {
            let limit = alone(move || limit_chain3(runs).map_err(|error| error.to_string()))?;
            report("chain3", &chain3(runs).await?, &limit);
        }
        if !wants("burndown") {
            continue;
        }
        let (enqueue, burndown) = alone(move || limit_burndown(runs).map_err(|error| error.to_string()))?;
        let (enqueued, burned) = burn_down(runs).await?;
        report("enqueue", &enqueued, &enqueue);
        report("burndown", &burned, &burndown);
    }
    Ok(())
}

/// Runs in a second of the clock, and in a second of the processor: on a machine that others use too, the
/// second says more.
struct Rate {
    clock: f64,
    processor: f64,
}

struct Watch {
    since: Instant,
    used: f64,
}

impl Watch {
    fn start() -> Self {
        Self { since: Instant::now(), used: processor_seconds() }
    }

    fn rate(&self, runs: usize) -> Rate {
        let runs = runs as f64;
        Rate {
            clock: runs / self.since.elapsed().as_secs_f64(),
            processor: runs / (processor_seconds() - self.used).max(0.001),
        }
    }
}

/// How long this process has used processors, where that can be told.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn report(what: &str, ours: &Rate, limit: &Rate) {
    println!(
        "  {what:<9} {:>9.0} runs/s, limit {:>9.0}, of limit {:.2}, by processor time {:.2}",
        ours.clock,
        limit.clock,
        ours.clock / limit.clock,
        ours.processor / limit.processor,
    );
}

/// Does the bare loop on a thread with a name, so that a profiler can tell it from ours.
fn alone<T: Send + 'static>(bare: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, Failure> {
    let thread = std::thread::Builder::new().name("limit".into()).spawn(bare)?;
    Ok(thread.join().map_err(|_| "the bare loop panicked")??)
}

fn bare(path: &Path) -> Result<Connection, Failure> {
    let conn = Connection::open(path)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.execute_batch(
        "CREATE TABLE run (id BLOB PRIMARY KEY, workflow INTEGER, input BLOB, at INTEGER) WITHOUT ROWID;
         CREATE TABLE step (run BLOB, no INTEGER, output BLOB, at INTEGER, PRIMARY KEY (run, no)) WITHOUT ROWID;
         CREATE TABLE ended (run BLOB PRIMARY KEY, state INTEGER, output BLOB, at INTEGER) WITHOUT ROWID;
         CREATE TABLE ready (run BLOB PRIMARY KEY) WITHOUT ROWID;",
    )?;
    Ok(conn)
}

/// One run, three steps and one end, in transactions of a thousand of each.
fn limit_chain3(runs: usize) -> Result<Rate, Failure> {
    let dir = tempfile::tempdir()?;
    let conn = bare(&dir.path().join("limit.db"))?;
    let since = Watch::start();
    for _ in 0..runs / TOGETHER {
        let ids: Vec<_> = (0..TOGETHER).map(|_| RunId::new()).collect();
        conn.execute_batch("BEGIN IMMEDIATE")?;
        insert(&conn, &ids, "INSERT INTO run VALUES (?1, ?2, ?3, ?4)", 1)?;
        for no in 0..3 {
            let mut step = conn.prepare_cached("INSERT INTO step VALUES (?1, ?2, ?3, ?4)")?;
            for id in &ids {
                step.execute((id.as_bytes(), no, b"12345", 1_700_000_000_000_000_i64))?;
            }
        }
        insert(&conn, &ids, "INSERT INTO ended VALUES (?1, ?2, ?3, ?4)", 6)?;
        conn.execute_batch("COMMIT")?;
    }
    Ok(since.rate(runs))
}

fn insert(conn: &Connection, ids: &[RunId], sql: &str, number: i64) -> Result<(), Failure> {
    let mut add = conn.prepare_cached(sql)?;
    for id in ids {
        add.execute((id.as_bytes(), number, b"{\"n\":1}", 1_700_000_000_000_000_i64))?;
    }
    Ok(())
}

/// Enqueues runs, then claims each, and writes one step and one end.
fn limit_burndown(runs: usize) -> Result<(Rate, Rate), Failure> {
    let dir = tempfile::tempdir()?;
    let conn = bare(&dir.path().join("limit.db"))?;
    let since = Watch::start();
    let mut all = Vec::new();
    for _ in 0..runs / TOGETHER {
        let ids: Vec<_> = (0..TOGETHER).map(|_| RunId::new()).collect();
        conn.execute_batch("BEGIN IMMEDIATE")?;
        insert(&conn, &ids, "INSERT INTO run VALUES (?1, ?2, ?3, ?4)", 1)?;
        let mut ready = conn.prepare_cached("INSERT INTO ready VALUES (?1)")?;
        for id in &ids {
            ready.execute([id.as_bytes()])?;
        }
        conn.execute_batch("COMMIT")?;
        all.push(ids);
    }
    let enqueue = since.rate(runs);
    let since = Watch::start();
    for ids in all {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let mut claim = conn.prepare_cached("DELETE FROM ready WHERE run = ?1")?;
        for id in &ids {
            claim.execute([id.as_bytes()])?;
        }
        let mut step = conn.prepare_cached("INSERT INTO step VALUES (?1, ?2, ?3, ?4)")?;
        for id in &ids {
            step.execute((id.as_bytes(), 0, b"12345", 1_700_000_000_000_000_i64))?;
        }
        insert(&conn, &ids, "INSERT INTO ended VALUES (?1, ?2, ?3, ?4)", 6)?;
        conn.execute_batch("COMMIT")?;
    }
    Ok((enqueue, since.rate(runs)))
}

struct Bench {
    store: Sqlite,
    node: NodeId,
    workflow: Arc<str>,
    queue: Arc<str>,
    definition: DefinitionId,
    _directory: tempfile::TempDir,
}

impl Bench {
    async fn new() -> Result<Self, Failure> {
        let directory = tempfile::tempdir()?;
        let url = directory.path().join("app.db");
        let store = Sqlite::open(url.to_str().ok_or("a path is text")?).await?;
        let (node, workflow) = (NodeId::new(), Arc::from("etl"));
        let (version, body) = (Arc::from("1"), Bytes::from_static(b"{}"));
        let definition =
            store.define(DefinitionRow { workflow: Arc::clone(&workflow), version, body }).await?;
        let new = NewNode {
            id: node,
            name: None,
            version: "1".into(),
            queues: vec!["default".into()],
            stale_after: std::time::Duration::from_secs(30),
        };
        store.join(new).await?;
        Ok(Self { store, node, workflow, queue: Arc::from("default"), definition, _directory: directory })
    }

    fn start(&self, owner: Option<ClaimId>) -> Unit {
        let new = NewRun {
            workflow: Arc::clone(&self.workflow),
            queue: Arc::clone(&self.queue),
            priority: 5,
            delay: None,
            timeout: None,
            input: Bytes::from_static(b"{\"n\":1}"),
            context: None,
            key: None,
            tags: Vec::new(),
            forked_from: None,
            trace: None,
            steps: Vec::new(),
            owner: owner.map(|claim| Owner { claim, definition: self.definition }),
        };
        Unit { run: RunId::new(), act: Act::Start(Box::new(new)) }
    }

    async fn commit(&self, batch: Vec<Unit>) -> Result<(), Failure> {
        for answer in self.store.commit(Some(self.node), Arc::new(batch)).await? {
            answer?;
        }
        Ok(())
    }
}

fn step(name: &Arc<str>) -> StepRow {
    StepRow {
        generation: 1,
        name: Arc::clone(name),
        attempt: 1,
        epoch: 0,
        kind: StepKind::Completed,
        started_at: Time(1_700_000_000_000_000),
        ended_at: Time(1_700_000_000_000_040),
        output: Some(Bytes::from_static(b"12345")),
        detail: None,
    }
}

fn record(run: RunId, claim: ClaimId, name: &Arc<str>) -> Unit {
    Unit { run, act: Act::Record { claim, steps: vec![step(name)], consumed: Vec::new() } }
}

fn end(run: RunId, claim: ClaimId, name: &Arc<str>) -> Unit {
    let end =
        NewEnd { state: RunState::Completed, output: Some(Bytes::from_static(b"12345")), failure: None };
    Unit { run, act: Act::End { claim, steps: vec![step(name)], end } }
}

/// A thousand runs at a time, a quarter of them at each of their four commits.
async fn chain3(runs: usize) -> Result<Rate, Failure> {
    let bench = Bench::new().await?;
    let names: [Arc<str>; 3] = [Arc::from("extract"), Arc::from("transform"), Arc::from("load")];
    let mut cohorts: Vec<Vec<(RunId, ClaimId)>> = Vec::new();
    let count = runs / TOGETHER;
    let mut batches = Vec::new();
    for turn in 0..count + 3 {
        let mut batch = Vec::new();
        if turn < count {
            let mut cohort = Vec::new();
            for _ in 0..TOGETHER {
                let claim = ClaimId::new();
                let unit = bench.start(Some(claim));
                cohort.push((unit.run, claim));
                batch.push(unit);
            }
            cohorts.push(cohort);
        }
        for (age, name) in [(1, &names[0]), (2, &names[1])] {
            if turn >= age && turn - age < count {
                batch.extend(cohorts[turn - age].iter().map(|(run, claim)| record(*run, *claim, name)));
            }
        }
        if turn >= 3 {
            batch.extend(cohorts[turn - 3].iter().map(|(run, claim)| end(*run, *claim, &names[2])));
        }
        batches.push(batch);
    }
    let since = Watch::start();
    for batch in batches {
        bench.commit(batch).await?;
    }
    let rate = since.rate(runs);
    bench.store.close().await;
    Ok(rate)
}

/// Enqueues one-task runs, then claims and ends them.
async fn burn_down(runs: usize) -> Result<(Rate, Rate), Failure> {
    let bench = Bench::new().await?;
    let name: Arc<str> = Arc::from("only");
    let since = Watch::start();
    for _ in 0..runs / TOGETHER {
        bench.commit((0..TOGETHER).map(|_| bench.start(None)).collect()).await?;
    }
    let enqueue = since.rate(runs);
    let since = Watch::start();
    let mut ends: Vec<Unit> = Vec::new();
    loop {
        let claim = ClaimId::new();
        let request = Claim {
            node: bench.node,
            claim,
            room: TOGETHER,
            queues: vec![(Arc::clone(&bench.queue), TOGETHER)],
            workflows: vec![(Arc::clone(&bench.workflow), bench.definition)],
            bytes: 64 << 20,
        };
        let (claimed, written) =
            tokio::join!(bench.store.claim(request), bench.commit(std::mem::take(&mut ends)));
        written?;
        let claimed = claimed?;
        if claimed.runs.is_empty() {
            break;
        }
        ends = claimed.runs.iter().map(|image| end(image.run.id, claim, &name)).collect();
    }
    let burned = since.rate(runs);
    bench.store.close().await;
    Ok((enqueue, burned))
}
