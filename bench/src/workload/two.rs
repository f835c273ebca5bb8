//! Chain3 in two processes on one database, beside one process alone.

use std::time::{Duration, Instant};

use super::{
    Bench,
    chain3::{self, chain},
    mean,
    roll::Roll,
};
use crate::{
    Result,
    latencies::Latencies,
    other::{self, Other},
    report::Line,
};

/// The part of a process that keeps runs under way.
pub(crate) const HAULER: &str = "hauler";

const READY: &str = "ready";
const GO: &str = "go";

/// How much of what one process does two must do together, when there are cores for no more than one and its database.
const SHARE: f64 = 0.9;

/// Measures one process, two, and one again. As many runs are under way in two as in one, and the limit is the one.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let before = haul(bench, 1, bench.half()).await?;
    let ours = haul(bench, 2, bench.span()).await?;
    let after = haul(bench, 1, bench.half()).await?;
    let line = bench
        .line(&format!("of_limit >= {SHARE} on two cores"))
        .rates(ours, mean(before, after))
        .also("processes", 2.0);
    let within = line.of_limit() >= SHARE;
    Ok(line.holds(within))
}

/// Tasks in each second, of so many processes on a database of their own.
async fn haul(bench: &Bench<'_>, processes: usize, span: Duration) -> Result<f64> {
    let database = bench.database().await?;
    let concurrency = (bench.concurrency() / processes).max(1);
    let mut haulers = Vec::new();
    for _ in 0..processes {
        let part = format!("{HAULER} {concurrency} {} {}", span.as_secs_f64(), database.url());
        let mut hauler = Other::start(&part)?;
        hauler.expect(READY).await?;
        haulers.push(hauler);
    }
    let begin = Instant::now();
    for hauler in &mut haulers {
        hauler.say(GO).await?;
    }
    let mut runs = 0;
    for hauler in &mut haulers {
        let done: u64 = hauler.hear().await?.parse()?;
        if done == 0 {
            return Err("one of the processes has done nothing".into());
        }
        runs += done;
    }
    let took = begin.elapsed();
    for hauler in haulers {
        hauler.leave().await?;
    }
    let ended = database.ended().await?;
    if ended != runs {
        return Err(format!("{runs} results were awaited, but the database has {ended} ended runs").into());
    }
    Ok((ended * 3) as f64 / took.as_secs_f64())
}

/// The other side: keeps its share of the runs under way, and says how many have ended.
pub(crate) async fn play(order: &str) -> Result<()> {
    let [concurrency, seconds, url] = super::words(order)?;
    let (concurrency, span) = (concurrency.parse()?, Duration::from_secs_f64(seconds.parse()?));
    let engine = super::engine(url, concurrency).workflow(chain::workflow()).launch().await?;
    println!("{READY}");
    if other::word().await?.is_none() {
        return Err("nobody is left who could say when to go".into());
    }
    let done: Latencies =
        chain3::keep_busy(chain3::CHAIN, &engine, concurrency, span, &Roll::endless()).await?;
    println!("{}", done.len());
    Ok(engine.stop().await?)
}
