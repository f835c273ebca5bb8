//! The rows of a batch on their way in.

use rusqlite::Connection;

use crate::{
    ended::NewEndedRow,
    error::is_foreign,
    ready::ReadyRow,
    run::NewRunRow,
    sheet::{Sheet, Wrote},
    step::StepSheet,
};

/// How a batch finds out that a run which it starts is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Starts {
    /// Too late, when many are written at once: the batch is given up with an error that [`is_repeat`].
    Together,
    /// At once, since each start is written alone.
    OneByOne,
}

/// What is gathered of the tables that most units write to.
pub(crate) struct Sheets<'a> {
    starts: Starts,
    runs: Sheet<'a, NewRunRow<'a>>,
    pub(crate) steps: StepSheet<'a>,
    pub(crate) ended: Sheet<'a, NewEndedRow<'a>>,
    pub(crate) ready: Sheet<'a, ReadyRow>,
}

impl<'a> Sheets<'a> {
    pub(crate) const fn new(conn: &'a Connection, starts: Starts) -> Self {
        Self {
            starts,
            runs: Sheet::new(conn),
            steps: Sheet::new(conn),
            ended: Sheet::new(conn),
            ready: Sheet::new(conn),
        }
    }

    /// Adds a run. Answers whether it is new, or may be.
    pub(crate) fn start(&mut self, row: NewRunRow<'a>) -> rusqlite::Result<bool> {
        self.runs.add(row);
        match self.starts {
            Starts::Together => Ok(true),
            Starts::OneByOne => Ok(self.runs.write()?.added == 1),
        }
    }

    /// Writes what was gathered, so that statements see it.
    pub(crate) fn write(&mut self) -> rusqlite::Result<()> {
        let Wrote { added, gathered } = self.runs.write()?;
        if added != gathered {
            return Err(rusqlite::Error::StatementChangedRows(added));
        }
        // Their runs began at other times, so that they come in no order.
        self.steps.sort_by_key(|row| (row.run, row.seq));
        self.steps.write()?;
        self.ended.sort_by_key(|row| (row.core.workflow, row.run));
        self.ended.write()?;
        self.ready.write()?;
        Ok(())
    }
}

/// Whether a batch may have failed because it starts a run that is there already: the start is not new, or what
/// came with it is not. Then it can be written with [`Starts::OneByOne`].
pub(crate) fn is_repeat(error: &rusqlite::Error) -> bool {
    let is_taken = error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation);
    matches!(error, rusqlite::Error::StatementChangedRows(_)) || is_taken && !is_foreign(error)
}
