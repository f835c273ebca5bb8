//! Room in the write-ahead log.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

/// How much room is made at least, and at most: as much as the log holds when its pages are moved to the database.
const LEAST: u64 = 64 << 10;
const MOST: u64 = 16 << 20;
/// More than one frame: so much of the log has something in it wherever there are frames.
const TAIL: u64 = 8 << 10;

/// The write-ahead log, as a file that grows.
///
/// A commit that makes the file longer has the disk write down where it ends now, which takes as long as the commit
/// itself, or twice. So room is made ahead of the commits: whenever SQLite has made the log longer, it is doubled.
/// SQLite reads the log up to the first frame that does not fit, and goes on behind it, as it does in a log that is
/// used again.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    /// How long the file was at the last look. Asking for more than the length, as `metadata` does, would have the
    /// system write down the time of the next change as exactly as it can, with every commit.
    len: u64,
}

impl Log {
    /// The log of the database at this path; `None` when it cannot be opened, and grows as it will.
    pub(crate) fn of(database: &Path) -> Option<Self> {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        // What is written goes behind whatever is there at that moment.
        let mut file = OpenOptions::new().read(true).append(true).open(&path).ok()?;
        let len = file.seek(SeekFrom::End(0)).ok()?;
        Some(Self { file, len })
    }

    /// Whether the last commits may have needed room that is not there any more.
    pub(crate) fn is_short(&mut self) -> bool {
        self.file.seek(SeekFrom::End(0)).is_ok_and(|len| len > self.len && len < MOST)
    }

    /// Makes room if the last commits needed some. Called by whoever has the right to write, and only then.
    pub(crate) fn make_room(&mut self) {
        let Ok(len) = self.file.seek(SeekFrom::End(0)) else { return };
        if len > self.len && len < MOST && !self.has_room(len).unwrap_or(true) {
            let room = len.max(LEAST).min(MOST - len);
            // Without room the log grows as it would have, or says what is wrong with the disk.
            if self.file.write_all(&vec![0; room as usize]).is_err() {
                tracing::debug!("there is no room to be made in the write-ahead log");
            }
            self.len = self.file.seek(SeekFrom::End(0)).unwrap_or(len);
        } else {
            self.len = len;
        }
    }

    /// Whether the log was made longer by somebody else who made room in it, and not by frames.
    fn has_room(&mut self, len: u64) -> io::Result<bool> {
        let mut tail = [0; TAIL as usize];
        let tail = &mut tail[..len.min(TAIL) as usize];
        self.file.seek(SeekFrom::Start(len.saturating_sub(TAIL)))?;
        self.file.read_exact(tail)?;
        Ok(tail.iter().all(|byte| *byte == 0))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn database(dir: &Path) -> Connection {
        let conn = Connection::open(dir.join("app.db")).unwrap();
        conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;").unwrap();
        conn
    }

    #[test]
    fn the_log_grows_in_few_steps_and_holds_what_was_committed() {
        let dir = tempfile::tempdir().unwrap();
        let conn = database(dir.path());
        conn.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
        let mut log = Log::of(&dir.path().join("app.db")).unwrap();
        let mut lengths = std::collections::BTreeSet::new();
        for _ in 0..300 {
            conn.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (randomblob(2000))").unwrap();
            log.make_room();
            conn.execute_batch("COMMIT").unwrap();
            lengths.insert(log.file.metadata().unwrap().len());
        }
        assert!(lengths.len() < 20, "{lengths:?}");

        // Another process, after a crash of this one, reads a copy of what is on disk.
        let after = tempfile::tempdir().unwrap();
        for name in ["app.db", "app.db-wal"] {
            std::fs::copy(dir.path().join(name), after.path().join(name)).unwrap();
        }
        let found = database(after.path());
        let count: i64 = found.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        let check: String = found.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!((count, check.as_str()), (300, "ok"));
    }
}
