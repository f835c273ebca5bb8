//! Ends, each with the step that came with it.

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::{ClaimId, RunId, Time};
use windlass_store::{End, NewEnd, StepRow};

use crate::{
    column,
    pen::Pen,
    place::Carried,
    run::Core,
    step::{ended_at, took},
};

pub(crate) const ADD: &str = "\
    INSERT INTO ended (workflow, run, generation, state, at, definition, opened_at, recoveries, claim, output, \
    failure, step_name, step_generation, step_attempt, step_epoch, step_kind, step_started_at, step_took, \
    step_shares, step_output, step_detail) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";
const REMOVE: &str = "DELETE FROM ended WHERE workflow = ?1 AND run = ?2";
const READ: &str = "\
    SELECT generation, definition, opened_at, recoveries, state, at, output, failure, claim, step_name, \
    step_generation, step_attempt, step_epoch, step_kind, step_started_at, step_took, step_shares, step_output, \
    step_detail FROM ended WHERE workflow = ?1 AND run = ?2";
const KEEP: &str = "\
    INSERT INTO past_end (run, generation, state, at, output, failure) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
/// The ends of one workflow before a given run, newest first.
pub(crate) const BACKWARDS: &str =
    "SELECT run FROM ended WHERE workflow = ?1 AND run < ?2 ORDER BY run DESC LIMIT ?3";
/// The same, of those that did not complete, by state.
pub(crate) const OTHERWISE_BACKWARDS: &str = "\
    SELECT run FROM ended WHERE workflow = ?1 AND state = ?2 AND state <> 6 AND run < ?3 ORDER BY run DESC LIMIT ?4";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[ADD, REMOVE, READ, KEEP, BACKWARDS, OTHERWISE_BACKWARDS];

/// How a run ended, with the step that was folded in.
pub(crate) struct EndedRow {
    pub(crate) carried: Carried,
    pub(crate) end: End,
    /// The claim that wrote it; `None` when nobody held the run.
    pub(crate) claim: Option<ClaimId>,
    pub(crate) step: Option<StepRow>,
}

/// An end to be written.
pub(crate) struct NewEndedRow<'a> {
    pub(crate) carried: &'a Carried,
    pub(crate) end: &'a NewEnd,
    pub(crate) at: Time,
    pub(crate) claim: Option<ClaimId>,
    pub(crate) step: Option<&'a StepRow>,
}

/// Ends a run. It must stand nowhere else.
pub(crate) fn add(pen: &mut Pen<'_>, run: RunId, core: &Core, new: &NewEndedRow<'_>) -> rusqlite::Result<()> {
    let NewEndedRow { carried, end, step, .. } = new;
    let shares = step.is_some_and(|step| step.output.is_some() && step.output == end.output);
    pen.write(params![
        core.workflow,
        run.as_bytes(),
        carried.generation,
        end.state as u8,
        new.at.0,
        carried.definition,
        carried.opened_at,
        carried.recoveries,
        new.claim.map(column::claim),
        end.output.as_deref(),
        end.failure.as_deref(),
        step.map(|step| &*step.name),
        step.map(|step| step.generation),
        step.map(|step| step.attempt),
        step.map(|step| step.epoch),
        step.map(|step| step.kind as u8),
        step.map(|step| step.started_at.0),
        step.map(took),
        step.map(|_| shares),
        step.filter(|_| !shares).and_then(|step| step.output.as_deref()),
        step.and_then(|step| step.detail.as_deref()),
    ])?;
    Ok(())
}

/// A run's end, if it stands ended.
pub(crate) fn read(conn: &Connection, run: RunId, core: &Core) -> rusqlite::Result<Option<EndedRow>> {
    let mut find = conn.prepare_cached(READ)?;
    find.query_row(params![core.workflow, run.as_bytes()], ended_row).optional()
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
    conn.prepare_cached(REMOVE)?.execute(params![core.workflow, run.as_bytes()])?;
    Ok(())
}

fn ended_row(row: &Row<'_>) -> rusqlite::Result<EndedRow> {
    let end = End {
        state: column::run_state(row, 4)?,
        at: Time(row.get(5)?),
        output: column::maybe_bytes(row, 6)?,
        failure: column::maybe_bytes(row, 7)?,
    };
    let claim = row.get::<_, Option<i64>>(8)?.map(|number| ClaimId(number.cast_unsigned()));
    let step = match row.get(9)? {
        Some(name) => Some(folded(row, name, &end)?),
        None => None,
    };
    Ok(EndedRow { carried: Carried::read(row, 0)?, end, claim, step })
}

fn folded(row: &Row<'_>, name: std::sync::Arc<str>, end: &End) -> rusqlite::Result<StepRow> {
    let started_at = Time(row.get(14)?);
    let shares = row.get::<_, bool>(16)?;
    Ok(StepRow {
        generation: row.get(10)?,
        name,
        attempt: row.get(11)?,
        epoch: row.get(12)?,
        kind: column::step_kind(row, 13)?,
        started_at,
        ended_at: ended_at(started_at, row.get(15)?),
        output: if shares { end.output.clone() } else { column::maybe_bytes(row, 17)? },
        detail: column::maybe_bytes(row, 18)?,
    })
}
