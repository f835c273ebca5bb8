//! Runs with all that is needed to continue them.

use windlass_core::RunId;
use windlass_store::{End, RunImage};

use crate::{
    book::Book,
    ended,
    error::Fault,
    holding, inbox,
    pen::Pen,
    place::{Spot, locate},
    run::{self, Started},
    saved, spread, step,
};

/// A run with its records.
pub(crate) fn load(book: &mut Book, id: RunId) -> Result<Option<RunImage>, Fault> {
    let Book { conn, names } = book;
    let Some(Started { core, row, .. }) = run::read(&mut Pen::new(conn, run::READ), names, id)? else {
        return Ok(None);
    };
    let mut spot = locate(conn, id, &core)?;
    let mut steps = step::read(&mut Pen::new(conn, step::READ), id)?;
    if let Spot::Ended(row) = &mut spot {
        steps.extend(row.step.take());
    }
    Ok(Some(RunImage {
        run: row,
        standing: spot.standing(conn, &core, || holding::find(conn, id))?,
        steps,
        inbox: inbox::read(conn, id)?,
        saved: saved::read(conn, id)?,
        published: spread::of_run(conn, names, id)?,
    }))
}

/// The ends of those among these runs that stand ended.
pub(crate) fn ends(book: &mut Book, runs: &[RunId]) -> Result<Vec<(RunId, End)>, Fault> {
    let mut ends = Vec::new();
    let mut asked = runs.to_vec();
    asked.sort_unstable();
    asked.dedup();
    for id in asked {
        if let Some(core) = run::core(&book.conn, id)?
            && let Some(row) = ended::read(&book.conn, id, &core)?
        {
            ends.push((id, row.end));
        }
    }
    Ok(ends)
}
