//! Names that rows refer to by a small number.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, OptionalExtension};

use crate::mix::MixBuilder;

const NUMBER: &str = "SELECT no FROM name WHERE text = ?1";
const TEXT: &str = "SELECT text FROM name WHERE no = ?1";
const ADD: &str = "INSERT INTO name (text) VALUES (?1) RETURNING no";
const ALL: &str = "SELECT no FROM name ORDER BY no";

const IN_ORDER: &str = "SELECT text, no FROM name ORDER BY text";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[NUMBER, TEXT];

/// The names that one connection has met. Names are never changed or removed, so what was met stays true.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Arc<str>, i64, MixBuilder>,
    texts: HashMap<i64, Arc<str>, MixBuilder>,
}

impl Names {
    /// Forgets everything: a transaction that may have added names was rolled back.
    pub(crate) fn forget(&mut self) {
        self.numbers.clear();
        self.texts.clear();
    }

    /// The number of a name, if it has one.
    pub(crate) fn find(&mut self, conn: &Connection, text: &str) -> rusqlite::Result<Option<i64>> {
        if let Some(no) = self.numbers.get(text) {
            return Ok(Some(*no));
        }
        let no = conn.prepare_cached(NUMBER)?.query_row([text], |row| row.get(0)).optional()?;
        if let Some(no) = no {
            self.remember(no, Arc::from(text));
        }
        Ok(no)
    }

    /// The number of a name, given out on first sight.
    pub(crate) fn number(&mut self, conn: &Connection, text: &Arc<str>) -> rusqlite::Result<i64> {
        if let Some(no) = self.find(conn, text)? {
            return Ok(no);
        }
        let no = conn.prepare_cached(ADD)?.query_row([text], |row| row.get(0))?;
        self.remember(no, Arc::clone(text));
        Ok(no)
    }

    /// The name with a number.
    pub(crate) fn text(&mut self, conn: &Connection, no: i64) -> rusqlite::Result<Arc<str>> {
        if let Some(text) = self.texts.get(&no) {
            return Ok(Arc::clone(text));
        }
        let text: Arc<str> = conn.prepare_cached(TEXT)?.query_row([no], |row| row.get(0))?;
        self.remember(no, Arc::clone(&text));
        Ok(text)
    }

    /// The number of every name there is. There are as many as workflows and queues.
    pub(crate) fn all(conn: &Connection) -> rusqlite::Result<Vec<i64>> {
        conn.prepare_cached(ALL)?.query_map([], |row| row.get(0))?.collect()
    }

    /// Every name with its number, in the order of the names, byte by byte.
    pub(crate) fn in_order(conn: &Connection) -> rusqlite::Result<Vec<(Arc<str>, i64)>> {
        conn.prepare_cached(IN_ORDER)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    fn remember(&mut self, no: i64, text: Arc<str>) {
        self.numbers.insert(Arc::clone(&text), no);
        self.texts.insert(no, text);
    }
}
