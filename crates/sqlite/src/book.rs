//! A connection and what it remembers.

use rusqlite::Connection;

use crate::name::Names;

/// A connection with the names that it has met.
pub(crate) struct Book {
    pub(crate) conn: Connection,
    pub(crate) names: Names,
}

impl Book {
    pub(crate) fn new(conn: Connection) -> Self {
        conn.set_prepared_statement_cache_capacity(128);
        Self { conn, names: Names::default() }
    }
}
