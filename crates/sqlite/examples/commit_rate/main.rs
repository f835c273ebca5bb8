//! How fast batches are written, beside a bare loop that writes the leanest rows that hold the same facts.
//!
//! `cargo run --release -p windlass-sqlite --example commit_rate [runs] [chain3|kinds|scattered|burndown|single]`

mod limit;
mod ours;
mod watch;

use watch::Cost;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How many units share a transaction: what a busy engine gathers while the last one is written, and what a
/// program that starts runs in bulk sends.
const BATCHES: [usize; 2] = [128, 1_000];

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let runs = std::env::args().nth(1).map_or(Ok(100_000), |runs| runs.parse())?;
    let only = std::env::args().nth(2);
    let wants = |workload| only.as_deref().is_none_or(|only| only == workload);
    println!("microseconds of the writing thread's processor time, each for one unit");
    for round in 1..=3 {
        println!("round {round}");
        if wants("chain3") {
            let limit = limit::chain3(runs)?;
            for batch in BATCHES {
                let ours = ours::chain3(runs, batch).await?;
                // Four units do the work of three tasks, for which the bare loop writes five rows.
                report(&format!("chain3, by {batch}"), &ours, limit * 3.0 / 4.0);
            }
        }
        if wants("kinds") {
            for batch in BATCHES {
                for (kind, cost) in ours::kinds(runs, batch).await? {
                    println!("  {:<22} {cost}", format!("{kind}, by {batch}"));
                }
            }
        }
        if wants("scattered") {
            for batch in BATCHES {
                let cost = ours::scattered(runs, batch).await?;
                println!("  {:<22} {cost}", format!("scattered, by {batch}"));
            }
        }
        if wants("burndown") {
            let (enqueue, burndown) = limit::burndown(runs)?;
            let (enqueued, burned) = ours::burn_down(runs).await?;
            report("bulk start, by 1000", &enqueued, enqueue);
            report("claim and end, by 1000", &burned, burndown);
        }
        if wants("single") {
            ours::single().await?;
        }
    }
    Ok(())
}

fn report(what: &str, ours: &Cost, limit: f64) {
    println!("  {what:<22} {ours}; limit {limit:.2}, of limit {:.2}", limit / ours.total);
}
