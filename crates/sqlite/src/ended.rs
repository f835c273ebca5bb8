//! Ends, each with the step that came with it.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::{ClaimId, RunId, StepKind, Time};
use windlass_store::{End, NewEnd, StepRow};

use crate::{
    column,
    place::Carried,
    run::Core,
    sheet::{Blank, Insert, Row},
    step::{ended_at, took},
};

pub(crate) static ADD: Insert = Insert::new(
    "INSERT OR FAIL INTO ended",
    &[
        "workflow",
        "run",
        "generation",
        "state",
        "at",
        "definition",
        "recoveries",
        "claim",
        "output",
        "step_name",
        "step_attempt",
        "step_started_at",
        "step_took",
    ],
    &["opened_at", "failure", "step_output"],
);
const REMOVE: &str = "DELETE FROM ended WHERE workflow = ?1 AND run = ?2";
const READ: &str = "\
    SELECT generation, definition, opened_at, recoveries, state, at, output, failure, claim, step_name, \
    step_attempt, step_started_at, step_took, step_output FROM ended WHERE workflow = ?1 AND run = ?2";
const FOLDED: &str = "\
    SELECT generation, recoveries, step_name, step_attempt, step_started_at, step_took FROM ended \
    WHERE workflow = ?1 AND run = ?2";
const KEEP: &str = "\
    INSERT INTO past_end (run, generation, state, at, output, failure) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
/// The ends of one workflow before a given run, newest first.
pub(crate) const BACKWARDS: &str =
    "SELECT run FROM ended WHERE workflow = ?1 AND run < ?2 ORDER BY run DESC LIMIT ?3";
/// The same, of those that did not complete, by state.
pub(crate) const OTHERWISE_BACKWARDS: &str = "\
    SELECT run FROM ended WHERE workflow = ?1 AND state = ?2 AND state <> 6 AND run < ?3 ORDER BY run DESC LIMIT ?4";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[REMOVE, READ, FOLDED, KEEP, BACKWARDS, OTHERWISE_BACKWARDS];

/// How a run ended, with the step that was folded in.
pub(crate) struct EndedRow {
    pub(crate) carried: Carried,
    pub(crate) end: End,
    /// The claim that wrote it; `None` when nobody held the run.
    pub(crate) claim: Option<ClaimId>,
    pub(crate) step: Option<StepRow>,
}

/// A run to be ended. It must stand nowhere else.
pub(crate) struct NewEndedRow<'u> {
    pub(crate) run: RunId,
    pub(crate) core: Core,
    pub(crate) carried: Carried,
    pub(crate) end: &'u NewEnd,
    pub(crate) at: Time,
    pub(crate) claim: Option<ClaimId>,
    /// A step that [`can_fold`].
    pub(crate) step: Option<&'u StepRow>,
}

/// Whether a step is so plain that the row of its run's end has room for it: it completed, in the generation that
/// ends, and brought nothing but an output.
pub(crate) fn can_fold(step: &StepRow, carried: &Carried, end: &NewEnd) -> bool {
    step.kind == StepKind::Completed
        && step.generation == carried.generation
        && step.epoch == carried.recoveries
        && step.detail.is_none()
        // No output in the row means that it is the run's.
        && (step.output.is_some() || end.output.is_none())
}

impl<'u> NewEndedRow<'u> {
    /// The output of the step, if it is not the run's.
    fn step_output(&self) -> Option<&'u [u8]> {
        self.step.filter(|step| step.output != self.end.output).and_then(|step| step.output.as_deref())
    }
}

impl<'u> Row<'u> for NewEndedRow<'u> {
    const INSERT: &'static Insert = &ADD;

    fn fill(&self, blank: &mut Blank<'_, '_, 'u>) -> rusqlite::Result<()> {
        let Self { run, core, carried, end, at, claim, step } = self;
        blank.integer(core.workflow)?;
        blank.copied(run.as_bytes())?;
        blank.integer(i64::from(carried.generation))?;
        blank.integer(i64::from(end.state as u8))?;
        blank.integer(at.0)?;
        blank.integer(carried.definition)?;
        blank.integer(i64::from(carried.recoveries))?;
        blank.integer(claim.map(column::claim))?;
        blank.bytes(end.output.as_deref())?;
        blank.text(step.map(|step| &*step.name))?;
        blank.integer(step.map(|step| i64::from(step.attempt)))?;
        blank.integer(step.map(|step| step.started_at.0))?;
        blank.integer(step.map(took))
    }

    fn is_rare(&self) -> bool {
        self.carried.opened_at.is_some() || self.end.failure.is_some() || self.step_output().is_some()
    }

    fn fill_rare(&self, blank: &mut Blank<'_, '_, 'u>) -> rusqlite::Result<()> {
        blank.integer(self.carried.opened_at)?;
        blank.bytes(self.end.failure.as_deref())?;
        blank.bytes(self.step_output())
    }
}

/// A run's end, if it stands ended.
pub(crate) fn read(conn: &Connection, run: RunId, core: &Core) -> rusqlite::Result<Option<EndedRow>> {
    let mut find = conn.prepare_cached(READ)?;
    find.query_row(params![core.workflow, run.as_bytes()], ended_row).optional()
}

/// The step that was folded in with a run's end, without what it carries.
pub(crate) fn folded_step(conn: &Connection, run: RunId, core: &Core) -> rusqlite::Result<Option<StepRow>> {
    let mut find = conn.prepare_cached(FOLDED)?;
    let found = find.query_row(params![core.workflow, run.as_bytes()], |row| {
        let Some(name) = row.get(2)? else { return Ok(None) };
        let started_at = Time(row.get(4)?);
        Ok(Some(StepRow {
            generation: row.get(0)?,
            name,
            attempt: row.get(3)?,
            epoch: row.get(1)?,
            kind: StepKind::Completed,
            started_at,
            ended_at: ended_at(started_at, row.get(5)?),
            output: None,
            detail: None,
        }))
    });
    Ok(found.optional()?.flatten())
}

/// Takes a run from its end, and keeps the end among the past ones. The folded step is the caller's to keep.
pub(crate) fn reopen(conn: &Connection, run: RunId, core: &Core, row: &EndedRow) -> rusqlite::Result<()> {
    let End { state, at, output, failure } = &row.end;
    conn.prepare_cached(KEEP)?.execute(params![
        run.as_bytes(),
        row.carried.generation,
        *state as u8,
        at.0,
        output.as_deref(),
        failure.as_deref(),
    ])?;
    remove(conn, run, core)
}

/// Takes a run from its end.
pub(crate) fn remove(conn: &Connection, run: RunId, core: &Core) -> rusqlite::Result<()> {
    conn.prepare_cached(REMOVE)?.execute(params![core.workflow, run.as_bytes()])?;
    Ok(())
}

fn ended_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<EndedRow> {
    let carried = Carried::read(row, 0)?;
    let end = End {
        state: column::run_state(row, 4)?,
        at: Time(row.get(5)?),
        output: column::maybe_bytes(row, 6)?,
        failure: column::maybe_bytes(row, 7)?,
    };
    let claim = row.get::<_, Option<i64>>(8)?.map(|number| ClaimId(number.cast_unsigned()));
    let step = match row.get(9)? {
        Some(name) => Some(folded(row, name, &carried, &end)?),
        None => None,
    };
    Ok(EndedRow { carried, end, claim, step })
}

fn folded(
    row: &rusqlite::Row<'_>,
    name: std::sync::Arc<str>,
    carried: &Carried,
    end: &End,
) -> rusqlite::Result<StepRow> {
    let started_at = Time(row.get(11)?);
    Ok(StepRow {
        generation: carried.generation,
        name,
        attempt: row.get(10)?,
        epoch: carried.recoveries,
        kind: StepKind::Completed,
        started_at,
        ended_at: ended_at(started_at, row.get(12)?),
        output: column::maybe_bytes(row, 13)?.or_else(|| end.output.clone()),
        detail: None,
    })
}
