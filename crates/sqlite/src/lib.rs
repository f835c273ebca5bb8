//! The Windlass store on SQLite.
//!
//! One thread owns the connection that writes and does whole transactions on it; a few threads read. Several
//! processes may open one file: they take turns through two file locks, prove their life through another, and
//! see each other's commits within milliseconds.
//!
//! ```no_run
//! # async fn example() -> Result<(), windlass_sqlite::OpenError> {
//! use windlass_sqlite::Sqlite;
//!
//! let store = Sqlite::open("sqlite://app.db").await?;
//! # drop(store);
//! # Ok(())
//! # }
//! ```
//!
//! # Files
//!
//! Beside `app.db` there are SQLite's own `app.db-wal` and `app.db-shm`, and the directory `app.db-locks`, whose
//! small files hold nothing but locks. It may be deleted while no process has the database open. A backup needs
//! the database alone, taken with `VACUUM INTO` or SQLite's backup interface, not by copying a file in use.

mod book;
mod cell;
mod claim;
mod clock;
mod column;
mod commit;
mod definition;
mod desk;
mod discard;
mod ended;
mod error;
mod figures;
mod find;
mod folder;
mod held;
mod holding;
mod image;
mod inbox;
mod job;
mod key;
mod lanes;
mod location;
mod locks;
mod log;
mod log_line;
mod migration;
mod mix;
mod mount;
mod name;
mod node;
mod open;
mod options;
mod order;
mod place;
mod queue;
mod readers;
mod ready;
mod records;
mod remains;
mod run;
mod saved;
mod sheets;
mod spread;
mod sqlite;
mod start;
mod step;
mod task_turn;
mod transaction;
mod turn;
mod turnstile;
mod waiting;
mod watcher;

#[cfg(test)]
mod plan;

pub use folder::Folder;
pub use options::SqliteOptions;
pub use rusqlite;
pub use sqlite::Sqlite;
pub use transaction::Transaction;
#[doc(hidden)]
pub use transaction::{Holder, Transacted};
#[cfg(feature = "counting")]
#[doc(hidden)]
pub use windlass_sqlite_file::counting;
pub use windlass_sqlite_file::{connection::Synchronous, error::OpenError};
use windlass_sqlite_sheet::{pen, sheet};
pub use windlass_store::CommitMoment;
