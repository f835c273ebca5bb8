//! A statement that is prepared when it is first needed.

use rusqlite::{CachedStatement, Connection, Params};

/// A prepared statement that stays at hand for the rest of a batch, so that it is looked up once and not for
/// every row.
pub struct Pen<'c> {
    conn: &'c Connection,
    sql: &'static str,
    statement: Option<CachedStatement<'c>>,
}

impl<'c> Pen<'c> {
    /// A pen for one statement, which is prepared when it is first used.
    pub const fn new(conn: &'c Connection, sql: &'static str) -> Self {
        Self { conn, sql, statement: None }
    }

    /// The connection that it belongs to.
    pub const fn conn(&self) -> &'c Connection {
        self.conn
    }

    /// The statement, prepared.
    #[inline]
    pub fn ready(&mut self) -> rusqlite::Result<&mut CachedStatement<'c>> {
        if self.statement.is_none() {
            self.statement = Some(self.conn.prepare_cached(self.sql)?);
        }
        Ok(self.statement.as_mut().expect("it was prepared just now"))
    }

    /// Runs it. Answers how many rows it changed.
    pub fn write(&mut self, params: impl Params) -> rusqlite::Result<usize> {
        self.ready()?.execute(params)
    }
}
