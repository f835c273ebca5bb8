//! Rows of one table that are written many at a time.

use std::{ptr, sync::OnceLock};

use rusqlite::{CachedStatement, Connection, types::Null};

/// How many rows one statement writes, the most first. Beyond some dozens more rows gain nothing.
const SIZES: [usize; 3] = [32, 8, 1];

/// A statement that adds rows.
///
/// It must not undo itself when one of its rows cannot be written (`OR FAIL`, `OR IGNORE`): SQLite would keep a
/// copy of every page that a statement of many rows touches.
pub struct Insert {
    head: &'static str,
    columns: &'static [&'static str],
    rare: &'static [&'static str],
    texts: [OnceLock<[String; SIZES.len()]>; 2],
}

impl Insert {
    /// `head` is everything before the columns. Few rows say anything in the `rare` ones, and SQLite takes its time
    /// over each column that a statement names.
    pub const fn new(
        head: &'static str,
        columns: &'static [&'static str],
        rare: &'static [&'static str],
    ) -> Self {
        Self { head, columns, rare, texts: [OnceLock::new(), OnceLock::new()] }
    }

    /// One statement for each of the sizes, for all columns or without the rare ones.
    pub fn texts(&self, is_whole: bool) -> &[String; SIZES.len()] {
        self.texts[usize::from(is_whole)].get_or_init(|| {
            let columns = self.columns(is_whole).collect::<Vec<_>>();
            let (row, names) = (format!("({})", vec!["?"; columns.len()].join(", ")), columns.join(", "));
            SIZES.map(|size| format!("{} ({names}) VALUES {}", self.head, vec![&*row; size].join(", ")))
        })
    }

    fn columns(&self, is_whole: bool) -> impl Iterator<Item = &'static str> {
        let rare = self.rare.iter().filter(move |_| is_whole);
        self.columns.iter().chain(rare).copied()
    }
}

/// A row, which may borrow from the batch that it comes from.
pub trait Row<'u> {
    /// How it is written.
    const INSERT: &'static Insert;

    /// Says its values in the order of the columns, without the rare ones.
    fn fill(&self, blank: &mut Blank<'_, '_, 'u>) -> rusqlite::Result<()>;

    /// Whether one of its rare values is not NULL.
    fn is_rare(&self) -> bool;

    /// Says its rare values in the order of the columns.
    fn fill_rare(&self, blank: &mut Blank<'_, '_, 'u>) -> rusqlite::Result<()>;
}

/// Gathers rows, so that one statement writes many of them. Nobody sees them before they are written.
pub struct Sheet<'c, R> {
    conn: &'c Connection,
    rows: Vec<R>,
}

/// A statement at hand, with what its parameters are.
struct Form<'c, 'u> {
    statement: CachedStatement<'c>,
    bound: Vec<Bound<'u>>,
}

/// What a parameter is. It stays so from one use of the statement to the next, and binding costs more than looking.
#[derive(Clone, Copy)]
enum Bound<'u> {
    Null,
    Integer(i64),
    /// The very text or bytes that lie there, not others that are alike.
    Text(&'u str),
    Bytes(&'u [u8]),
    Other,
}

impl<'c, R> Sheet<'c, R> {
    /// A sheet without rows.
    pub const fn new(conn: &'c Connection) -> Self {
        Self { conn, rows: Vec::new() }
    }

    /// The connection that it writes to.
    pub const fn conn(&self) -> &'c Connection {
        self.conn
    }

    /// Gathers a row.
    pub fn add(&mut self, row: R) {
        self.rows.push(row);
    }

    /// Puts what was gathered into the order of a key, in which it is written faster.
    pub fn sort_by_key<K: Ord>(&mut self, key: impl FnMut(&R) -> K) {
        self.rows.sort_unstable_by_key(key);
    }

    /// Writes what was gathered. Answers how many rows there are now that were not there before, and how many
    /// should be.
    pub fn write<'u>(&mut self) -> rusqlite::Result<Wrote>
    where
        R: Row<'u>,
    {
        let mut wrote = Wrote { added: 0, gathered: self.rows.len() };
        let mut left = &self.rows[..];
        let is_whole = left.iter().any(Row::is_rare);
        let columns = R::INSERT.columns(is_whole).count();
        for (size, text) in SIZES.into_iter().zip(R::INSERT.texts(is_whole)) {
            if left.len() < size {
                continue;
            }
            // It goes back to the connection as soon as it is not needed: SQLite has quick memory for what is bound
            // to one such statement, and not for several.
            let mut form = Form::new(self.conn, text, size * columns)?;
            while let Some((some, rest)) = left.split_at_checked(size) {
                let mut blank = Blank { form: &mut form, last: 0 };
                for row in some {
                    row.fill(&mut blank)?;
                    if is_whole {
                        row.fill_rare(&mut blank)?;
                    }
                }
                wrote.added += form.statement.raw_execute()?;
                left = rest;
            }
        }
        self.rows.clear();
        Ok(wrote)
    }
}

/// What writing a sheet did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrote {
    /// How many rows there are now that were not there before.
    pub added: usize,
    /// How many should be.
    pub gathered: usize,
}

impl<'c> Form<'c, '_> {
    fn new(conn: &'c Connection, text: &str, parameters: usize) -> rusqlite::Result<Self> {
        // A statement comes back from the connection with nothing bound.
        Ok(Self { statement: conn.prepare_cached(text)?, bound: vec![Bound::Null; parameters] })
    }
}

/// The parameters of a statement, filled in one after the other.
pub struct Blank<'f, 'c, 'u> {
    form: &'f mut Form<'c, 'u>,
    /// How many are filled in.
    last: usize,
}

// Done for every value of every row, and small: compiled into the crate that says the values.
impl<'u> Blank<'_, '_, 'u> {
    /// Bytes that are not the batch's.
    #[inline]
    pub fn copied(&mut self, bytes: &[u8]) -> rusqlite::Result<()> {
        let Form { statement, bound } = &mut *self.form;
        bound[self.last] = Bound::Other;
        self.last += 1;
        statement.raw_bind_parameter(self.last, bytes)
    }

    /// A text that is not the batch's, or none.
    #[inline]
    pub fn copied_text(&mut self, text: Option<&str>) -> rusqlite::Result<()> {
        let Some(text) = text else { return self.null() };
        let Form { statement, bound } = &mut *self.form;
        bound[self.last] = Bound::Other;
        self.last += 1;
        statement.raw_bind_parameter(self.last, text)
    }

    /// A number, or none.
    pub fn integer(&mut self, number: impl Into<Option<i64>>) -> rusqlite::Result<()> {
        let Some(number) = number.into() else { return self.null() };
        let Form { statement, bound } = &mut *self.form;
        let before = &mut bound[self.last];
        self.last += 1;
        if matches!(before, Bound::Integer(before) if *before == number) {
            return Ok(());
        }
        *before = Bound::Integer(number);
        statement.raw_bind_parameter(self.last, number)
    }

    /// A text, or none.
    pub fn text(&mut self, text: impl Into<Option<&'u str>>) -> rusqlite::Result<()> {
        let Some(text) = text.into() else { return self.null() };
        let Form { statement, bound } = &mut *self.form;
        let before = &mut bound[self.last];
        self.last += 1;
        if matches!(before, Bound::Text(before) if ptr::eq(*before, text)) {
            return Ok(());
        }
        *before = Bound::Text(text);
        statement.raw_bind_parameter(self.last, text)
    }

    /// Bytes, or none.
    pub fn bytes(&mut self, bytes: impl Into<Option<&'u [u8]>>) -> rusqlite::Result<()> {
        let Some(bytes) = bytes.into() else { return self.null() };
        let Form { statement, bound } = &mut *self.form;
        let before = &mut bound[self.last];
        self.last += 1;
        if matches!(before, Bound::Bytes(before) if ptr::eq(*before, bytes)) {
            return Ok(());
        }
        *before = Bound::Bytes(bytes);
        statement.raw_bind_parameter(self.last, bytes)
    }

    #[inline]
    fn null(&mut self) -> rusqlite::Result<()> {
        let Form { statement, bound } = &mut *self.form;
        let before = &mut bound[self.last];
        self.last += 1;
        if matches!(before, Bound::Null) {
            return Ok(());
        }
        *before = Bound::Null;
        statement.raw_bind_parameter(self.last, Null)
    }
}
