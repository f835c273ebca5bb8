//! What can go wrong, in words.

use std::{io::ErrorKind, time::Duration};

use tokio_postgres::{
    Row,
    error::{Severity, SqlState},
};
use windlass_store::StoreError;

/// What [`fence`](../migrations/0001_tables.sql) raises.
const FENCED: &str = "WL001";

/// Why a database cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL makes no sense.
    #[error("`{url}` is not a PostgreSQL URL: {reason}")]
    Url {
        /// The URL, without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Connections cannot be encrypted as they should be.
    #[error("{place} cannot be reached as it should be: {reason}")]
    Tls {
        /// The database.
        place: String,
        /// What is wrong, and the way out.
        reason: String,
    },
    /// The server does not answer, or not to us.
    #[error("{place} cannot be used: {reason}")]
    Unavailable {
        /// The database.
        place: String,
        /// What the server or the system says, and the way out.
        reason: String,
    },
    /// The server is too old.
    #[error("{place} is PostgreSQL {found}, and Windlass needs 14 or newer: upgrade the server")]
    Old {
        /// The database.
        place: String,
        /// The server's version.
        found: String,
    },
    /// The schema has tables that are not ours.
    #[error(
        "the schema `{schema}` of {place} has tables that Windlass did not make: name another one, for example \
         `?schema=windlass2`"
    )]
    Foreign {
        /// The database.
        place: String,
        /// The schema.
        schema: String,
    },
    /// The tables were made by a newer program.
    #[error(
        "the schema `{schema}` of {place} is at version {found}, and this program knows {known}: upgrade the program"
    )]
    Newer {
        /// The database.
        place: String,
        /// The schema.
        schema: String,
        /// The version of its tables.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// The tables have yet to be made or changed, and this program was told not to.
    #[error(
        "the schema `{schema}` of {place} is at version {found}, and this program needs {known}: run the migrations \
         (`windlass migrate`), or open it without `migrate=no`"
    )]
    Unmigrated {
        /// The database.
        place: String,
        /// The schema.
        schema: String,
        /// The version of its tables; 0 when there are none.
        found: u32,
        /// The version that this program needs.
        known: u32,
    },
    /// The tables were made by a changed program.
    #[error(
        "migration {version} (`{name}`) of the schema `{schema}` of {place} is not the one that this program has: \
         open it with the program that made it, or restore a backup"
    )]
    Changed {
        /// The database.
        place: String,
        /// The schema.
        schema: String,
        /// The migration.
        version: u32,
        /// Its name.
        name: String,
    },
}

/// Why something was not done.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The database, or the way to it, failed.
    Sql(tokio_postgres::Error),
    /// There was no way to the database to begin with.
    Unreached(tokio_postgres::Error),
    /// Nobody answered for so long when a connection was made.
    Silent(Duration),
    /// The store's own answer.
    Store(StoreError),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Fault {
    /// A connection that ended when it had just begun.
    pub(crate) fn closed() -> Self {
        Self::Store(StoreError::Unavailable("the connection was closed".to_owned()))
    }

    /// A row that holds what no program of ours writes.
    pub(crate) fn unreadable(row: &Row, index: usize) -> Self {
        let column = row.columns().get(index).map_or("?", |column| column.name());
        Self::Store(StoreError::Broken(format!(
            "the column `{column}` holds what no version of Windlass writes"
        )))
    }

    /// Whether the acting node is dead, or not known.
    pub(crate) fn is_fenced(&self) -> bool {
        match self {
            Self::Sql(error) => error.code().is_some_and(|state| state.code() == FENCED),
            Self::Store(error) => matches!(error, StoreError::Fenced),
            Self::Unreached(_) | Self::Silent(_) => false,
        }
    }

    /// Whether one of the units is to blame, and not the database.
    pub(crate) fn is_of_data(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        let Some(code) = error.code().map(|state| state.code()) else { return false };
        matches!(&code[..2], "22" | "23" | "54")
    }

    /// Whether somebody else wrote the same first, and has committed.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Sql(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION))
    }

    /// Whether somebody else held what was wanted for too long.
    pub(crate) fn is_lock(&self) -> bool {
        matches!(self, Self::Sql(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
    }

    /// Whether the server has no room for another connection.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Unreached(error) if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS))
    }

    /// Whether a connection that could not be made may be had a little later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Silent(_) | Self::Store(StoreError::Unavailable(_)) => true,
            Self::Unreached(error) => match error.code() {
                Some(state) => matches!(&state.code()[..2], "08" | "53" | "57"),
                None => cause_of(error).is_some_and(|cause| cause.kind() != ErrorKind::InvalidData),
            },
            Self::Sql(_) | Self::Store(_) => false,
        }
    }

    /// Whether the connection can be used again: the server itself said what failed, and did not hang up with it.
    pub(crate) fn leaves_connection(&self) -> bool {
        let error = match self {
            Self::Sql(error) => error,
            Self::Store(_) => return true,
            Self::Unreached(_) | Self::Silent(_) => return false,
        };
        // One that is left in a transaction that failed would fail everything that comes.
        let is_stuck = error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION);
        !is_stuck && error.as_db_error().is_some_and(|error| error.parsed_severity() == Some(Severity::Error))
    }

    /// What the caller of the store hears.
    pub(crate) fn tell(self, place: &str) -> StoreError {
        let error = match self {
            Self::Store(error) => return error,
            Self::Sql(error) => error,
            // Whatever the reason, a password or a certificate: it may be put right while work waits.
            Self::Unreached(error) => {
                return StoreError::Unavailable(format!("{place}: {}", describe(&error)));
            }
            Self::Silent(time) => {
                let time = time.as_secs_f64();
                return StoreError::Unavailable(format!("{place}: the server has not answered for {time} s"));
            }
        };
        let text = describe(&error);
        let Some(state) = error.code() else {
            // Without a word of the server: the connection, or we ourselves.
            let tell = if is_of_connection(&error) { StoreError::Unavailable } else { StoreError::Broken };
            return tell(format!("{place}: {text}"));
        };
        if state.code() == FENCED {
            return StoreError::Fenced;
        }
        // Connections, resources, operators, locks and deadlocks, and a standby: all of that passes.
        match &state.code()[..2] {
            "08" | "53" | "57" | "40" | "55" | "25" | "58" => {
                StoreError::Unavailable(format!("{place}: {text}"))
            }
            _ => StoreError::Broken(format!("{place}: {text} (SQLSTATE {})", state.code())),
        }
    }
}

fn is_of_connection(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || cause_of(error).is_some()
}

/// What the network said. What a certificate is not good for counts as invalid data.
pub(crate) fn cause_of(error: &tokio_postgres::Error) -> Option<&std::io::Error> {
    std::error::Error::source(error)?.downcast_ref()
}

/// An error with what caused it.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
