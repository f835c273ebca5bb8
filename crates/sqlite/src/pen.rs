//! A statement that is prepared when it is first needed.

use rusqlite::{CachedStatement, Connection, Params};

/// A prepared statement that stays at hand for the rest of a batch, so that it is looked up once and not for
/// every row.
pub(crate) struct Pen<'c> {
    conn: &'c Connection,
    sql: &'static str,
    statement: Option<CachedStatement<'c>>,
}

impl<'c> Pen<'c> {
    pub(crate) const fn new(conn: &'c Connection, sql: &'static str) -> Self {
        Self { conn, sql, statement: None }
    }

    /// The connection that it belongs to.
    pub(crate) const fn conn(&self) -> &'c Connection {
        self.conn
    }

    /// The statement, prepared.
    pub(crate) fn ready(&mut self) -> rusqlite::Result<&mut CachedStatement<'c>> {
        if self.statement.is_none() {
            self.statement = Some(self.conn.prepare_cached(self.sql)?);
        }
        Ok(self.statement.as_mut().expect("it was prepared just now"))
    }

    /// Runs it. Answers how many rows it changed.
    pub(crate) fn write(&mut self, params: impl Params) -> rusqlite::Result<usize> {
        self.ready()?.execute(params)
    }
}
