//! What a process costs that has a hundred thousand parked runs and nothing to do.

use std::time::{Duration, Instant};

use windlass::{Client, prelude::*};
use windlass_sqlite::counting;

use super::Bench;
use crate::{
    Result,
    counter::{COUNT, Counter, Observer},
    database::{self, Database},
    options::Store,
    other::{self, Other},
    process,
    report::Line,
};

/// The part of the process that is idle.
pub(crate) const IDLER: &str = "idler";

/// How many runs are parked.
const RUNS: f64 = 100_000.0;

/// How many runs one call of `start_many` carries.
const CALL: u64 = 10_000;

/// How many statements the process may execute in a second, and how much memory it may have for each run.
const STATEMENTS: f64 = 1.0;
const BYTES: f64 = 100.0;

const MEGABYTE: f64 = 1_048_576.0;

/// The time is this many measurements long: with ten seconds for each, it is that of six heartbeats.
const SPANS: u32 = 3;

/// Longer than it takes until what the last parked run asked for is done, whatever it was.
const SETTLED: Duration = Duration::from_secs(1);

const READY: &str = "ready";
const WEIGH: &str = "weigh";

/// One task, which waits for a time that does not come.
#[workflow]
pub(crate) mod parked {
    use std::time::Duration;

    use windlass::prelude::*;

    #[task]
    pub(crate) async fn wait(cx: &Cx) -> Result<()> {
        cx.defer_until(Duration::from_secs(30 * 24 * 3600), || async { false }).await
    }
}

/// A durable function that does the same.
#[flow]
pub(crate) async fn sleeper(cx: &Flow) -> Result<(), Failure> {
    cx.sleep(Duration::from_secs(30 * 24 * 3600)).await
}

/// Lets another process park runs of this workflow, leaves it alone, and looks at what it does and has.
pub(crate) async fn measure(bench: &Bench<'_>, workflow: Workflow<(), ()>) -> Result<Line> {
    let runs = (RUNS * bench.options.scale).ceil() as u64;
    let (counter, database, mut idler) = begin(bench).await?;
    // The first half fills what there is once, however many follow: caches, and the room for those at work at once.
    let first = runs / 2;
    park(&database, &workflow, first, first).await?;
    let before = idler.ask(WEIGH).await?;
    let begin = Instant::now();
    park(&database, &workflow, runs - first, runs).await?;
    let parked_per_s = (runs - first) as f64 / begin.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLED).await;
    let after = idler.ask(WEIGH).await?;

    let span = bench.span() * SPANS;
    let counted = counter.look(&mut idler).await?;
    if counted.statements == Some(0.0) {
        return Err("all runs are parked, but no statement was counted".into());
    }
    tokio::time::sleep(span).await;
    let rate = counter.look(&mut idler).await?.since(counted, span);
    let waiting = database.waiting().await?;
    if waiting != runs {
        return Err(format!("{waiting} runs are parked, not {runs}").into());
    }
    idler.leave().await?;

    let budget = match rate.statements {
        Some(_) => "statements_per_s < 1, bytes_per_run < 100",
        None => "transactions_per_s < 1 (this server counts no statements), bytes_per_run < 100",
    };
    let judged = rate.statements.or(rate.transactions).ok_or("nothing was counted")?;
    let mut line = bench.line(budget).also("parked", waiting as f64).holds(judged < STATEMENTS);
    line = line.also("parked_per_s", parked_per_s);
    for (name, rate) in [("statements_per_s", rate.statements), ("transactions_per_s", rate.transactions)] {
        line = rate.into_iter().fold(line, |line, rate| line.also(name, rate));
    }
    if before > 0.0 {
        let bytes = (after - before) * MEGABYTE / (runs - first) as f64;
        line = line.also("bytes_per_run", bytes).also("memory_mb", after).holds(bytes < BYTES);
    }
    Ok(line)
}

/// How many statements a second the other process makes once it has parked so many runs that this prepares.
pub(crate) async fn rate(
    bench: &Bench<'_>,
    parked: u64,
    prepare: impl AsyncFnOnce(&Client) -> Result<()>,
) -> Result<f64> {
    let (counter, database, mut idler) = begin(bench).await?;
    let client = Client::connect(&database.url()).await?;
    prepare(&client).await?;
    drop(client);
    database.until_waiting(parked).await?;
    tokio::time::sleep(SETTLED).await;
    let span = bench.span() * SPANS;
    let counted = counter.look(&mut idler).await?;
    tokio::time::sleep(span).await;
    let rate = counter.look(&mut idler).await?.since(counted, span);
    idler.leave().await?;
    rate.statements.or(rate.transactions).ok_or_else(|| "nothing was counted".into())
}

/// Starts the other process on a database of its own, and whoever counts what it asks.
async fn begin(bench: &Bench<'_>) -> Result<(Counter, Database, Other)> {
    let counter = counter(bench).await?;
    let database = match &counter {
        Counter::Process => bench.database().await?,
        Counter::Server(observer) => {
            Database::Postgres(database::Postgres::new(observer.database().server()).await?)
        }
    };
    let mut idler = Other::start(&format!("{IDLER} {} {}", bench.concurrency(), database.url()))?;
    idler.expect(READY).await?;
    Ok((counter, database, idler))
}

async fn counter(bench: &Bench<'_>) -> Result<Counter> {
    match bench.store {
        Store::Sqlite => Ok(Counter::Process),
        Store::Postgres => {
            let server = bench.server()?.counting(bench.ground).await?;
            Ok(Counter::Server(Box::new(Observer::new(server).await?)))
        }
    }
}

/// Starts runs from here, and waits until all are parked there. Then nobody is connected but the other process and
/// whoever counts.
async fn park(database: &Database, workflow: &Workflow<(), ()>, runs: u64, parked: u64) -> Result<()> {
    let client = Client::connect(&database.url()).await?;
    let mut left = runs;
    while left > 0 {
        let call = left.min(CALL);
        client.start_many(workflow.clone(), (0..call).map(|_| ())).await?;
        left -= call;
    }
    drop(client);
    database.until_waiting(parked).await
}

/// The other side: parks whatever comes, and answers how much memory it has and what it has counted. Memory that the
/// system does not tell is none.
pub(crate) async fn play(order: &str) -> Result<()> {
    let [concurrency, url] = super::words(order)?;
    counting::begin();
    let engine = super::engine(url, concurrency.parse()?);
    let engine = engine.workflow(parked::workflow()).workflow(sleeper::workflow()).launch().await?;
    println!("{READY}");
    while let Some(word) = other::word().await? {
        match word.as_str() {
            WEIGH => println!("{}", process::megabytes().unwrap_or_default()),
            COUNT => println!("{}", counting::so_far()),
            other => return Err(format!("`{other}` is not understood").into()),
        }
    }
    Ok(engine.stop().await?)
}
