//! Finished attempts.

use std::hash::{Hash, Hasher};

use rusqlite::Connection;
use windlass_core::{RunId, StepKind, Time};
use windlass_store::StepRow;

use crate::{
    column,
    mix::Mix,
    pen::Pen,
    sheet::{Blank, Insert, Row, Sheet},
};

pub(crate) static ADD: Insert = Insert::new(
    "INSERT OR FAIL INTO step",
    &["run", "seq", "generation", "name", "attempt", "epoch", "kind", "started_at", "took", "output"],
    &["detail"],
);
pub(crate) const READ: &str = "\
    SELECT generation, name, attempt, epoch, kind, started_at, took, output, detail \
    FROM step WHERE run = ?1 ORDER BY seq";
const CLEAR: &str = "DELETE FROM step WHERE run = ?1";
const KEYS: &str = "SELECT generation, name, attempt, epoch, kind, seq FROM step WHERE run = ?1 ORDER BY seq";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[READ, CLEAR, KEYS];

/// What tells one step of a run from another.
#[derive(Clone, Copy, Hash, PartialEq, Eq)]
pub(crate) struct StepKey<'a> {
    generation: u32,
    name: &'a str,
    attempt: u32,
    /// Only starts of an attempt are kept once per recovery.
    started_in: Option<u32>,
}

impl<'a> StepKey<'a> {
    pub(crate) fn of(step: &'a StepRow) -> Self {
        Self::new(step.generation, &step.name, step.attempt, step.epoch, step.kind)
    }

    fn new(generation: u32, name: &'a str, attempt: u32, epoch: u32, kind: StepKind) -> Self {
        Self { generation, name, attempt, started_in: (kind == StepKind::Started).then_some(epoch) }
    }

    /// A number that equal keys share. It is never stored.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = Mix::default();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// A step to be added, which is known to be new.
pub(crate) struct NewStepRow<'u> {
    pub(crate) run: RunId,
    pub(crate) seq: i64,
    pub(crate) step: &'u StepRow,
}

/// Steps on their way in.
pub(crate) type StepSheet<'a> = Sheet<'a, NewStepRow<'a>>;

impl<'u> Row<'u> for NewStepRow<'u> {
    const INSERT: &'static Insert = &ADD;

    fn fill(&self, blank: &mut Blank<'_, '_, 'u>) -> rusqlite::Result<()> {
        let Self { run, seq, step } = self;
        blank.copied(run.as_bytes())?;
        blank.integer(*seq)?;
        blank.integer(i64::from(step.generation))?;
        blank.text(&*step.name)?;
        blank.integer(i64::from(step.attempt))?;
        blank.integer(i64::from(step.epoch))?;
        blank.integer(i64::from(step.kind as u8))?;
        blank.integer(step.started_at.0)?;
        blank.integer(took(step))?;
        blank.bytes(step.output.as_deref())
    }

    fn is_rare(&self) -> bool {
        self.step.detail.is_some()
    }

    fn fill_rare(&self, blank: &mut Blank<'_, '_, 'u>) -> rusqlite::Result<()> {
        blank.bytes(self.step.detail.as_deref())
    }
}

/// The steps of a run in the order of recording.
pub(crate) fn read(pen: &mut Pen<'_>, run: RunId) -> rusqlite::Result<Vec<StepRow>> {
    pen.ready()?.query_map([run.as_bytes()], step_row)?.collect()
}

/// Shows the key and the place of every step of a run.
pub(crate) fn each_key(
    conn: &Connection,
    run: RunId,
    mut show: impl FnMut(StepKey<'_>, i64),
) -> rusqlite::Result<()> {
    let mut find = conn.prepare_cached(KEYS)?;
    let mut rows = find.query([run.as_bytes()])?;
    while let Some(row) = rows.next()? {
        let name = row.get_ref(1)?.as_str()?;
        let key = StepKey::new(row.get(0)?, name, row.get(2)?, row.get(3)?, column::step_kind(row, 4)?);
        show(key, row.get(5)?);
    }
    Ok(())
}

/// Throws away the steps of a run.
pub(crate) fn clear(conn: &Connection, run: RunId) -> rusqlite::Result<()> {
    conn.prepare_cached(CLEAR)?.execute([run.as_bytes()])?;
    Ok(())
}

/// How long a step took. It is smaller than the time of its end, and tells as much.
pub(crate) const fn took(step: &StepRow) -> i64 {
    step.ended_at.0.wrapping_sub(step.started_at.0)
}

/// The time that [`took`] was made from.
pub(crate) const fn ended_at(started_at: Time, took: i64) -> Time {
    Time(started_at.0.wrapping_add(took))
}

fn step_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<StepRow> {
    let started_at = Time(row.get(5)?);
    Ok(StepRow {
        generation: row.get(0)?,
        name: row.get(1)?,
        attempt: row.get(2)?,
        epoch: row.get(3)?,
        kind: column::step_kind(row, 4)?,
        started_at,
        ended_at: ended_at(started_at, row.get(6)?),
        output: column::maybe_bytes(row, 7)?,
        detail: column::maybe_bytes(row, 8)?,
    })
}
