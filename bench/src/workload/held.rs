//! Chain3 and burndown on PostgreSQL while somebody sits idle in a transaction.
//!
//! A snapshot that is held keeps the server from removing any row that dies after it was taken. Work that has to step
//! over the dead grows slower and slower.

use std::sync::Arc;

use super::{Bench, burndown, chain3, mean, roll::Roll};
use crate::{
    Result,
    database::Database,
    report::Line,
    slices::{self, Slice},
};

/// How much of the undisturbed rate is left.
const SHARE: f64 = 0.7;

/// How much of what the first third of the time did the last third does.
const COURSE: f64 = 0.8;

/// In how many slices the time of a measurement is looked at.
const SLICES: u32 = 10;

/// Measures chain3 undisturbed, disturbed, and undisturbed again. The limit is the undisturbed one.
pub(crate) async fn chain3(bench: &Bench<'_>) -> Result<Line> {
    let free = async || -> Result<f64> {
        let (database, roll) = (bench.database().await?, Roll::endless());
        Ok(chain3::work(chain3::CHAIN, &database, bench.concurrency(), bench.half(), &roll)
            .await?
            .tasks_per_s)
    };
    let before = free().await?;
    let (database, roll) = (bench.database().await?, Roll::endless());
    let work = async {
        Ok(chain3::work(chain3::CHAIN, &database, bench.concurrency(), bench.span(), &roll)
            .await?
            .tasks_per_s)
    };
    let (rate, slices) = disturbed(bench, &database, &roll, 3, work).await?;
    drop(database);
    Ok(judged(bench, rate, mean(before, free().await?), slices))
}

/// Measures burndown undisturbed, disturbed, and undisturbed again. The limit is the undisturbed one.
pub(crate) async fn burndown(bench: &Bench<'_>) -> Result<Line> {
    let runs = bench.backlog();
    let free = async || -> Result<f64> {
        let database = bench.database().await?;
        burndown::enqueue(&database, runs).await?;
        burndown::work(&database, &Roll::new(runs), bench.concurrency()).await
    };
    let before = free().await?;
    let (database, roll) = (bench.database().await?, Roll::new(runs));
    burndown::enqueue(&database, runs).await?;
    let work = burndown::work(&database, &roll, bench.concurrency());
    let (rate, slices) = disturbed(bench, &database, &roll, 1, work).await?;
    drop(database);
    Ok(judged(bench, rate, mean(before, free().await?), slices))
}

/// Does the work while a snapshot is held, and looks at it slice by slice.
async fn disturbed(
    bench: &Bench<'_>,
    database: &Database,
    roll: &Arc<Roll>,
    tasks: u64,
    work: impl Future<Output = Result<f64>>,
) -> Result<(f64, Vec<Slice>)> {
    let Database::Postgres(schema) = database else {
        return Err("only PostgreSQL keeps what is dead for whoever could still see it".into());
    };
    let snapshot = schema.snapshot().await?;
    let watched = slices::watch(schema, roll, tasks, bench.span() / SLICES, work).await?;
    snapshot.end().await?;
    Ok(watched)
}

fn judged(bench: &Bench<'_>, rate: f64, free: f64, slices: Vec<Slice>) -> Line {
    let line = bench.line(&format!("of_limit >= {SHARE}, late_of_early >= {COURSE}")).rates(rate, free);
    let within = line.of_limit() >= SHARE;
    let late = slices::late_of_early(&slices);
    let line = late.into_iter().fold(line, |line, late| line.also("late_of_early", late));
    line.sliced(slices).holds(within && late.is_none_or(|late| late >= COURSE))
}
