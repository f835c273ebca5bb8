//! Why a command did not do what it was told, and the exit code that says so.

use std::io;

use serde_json::{Value, json};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// Nothing says which database is meant.
    #[error("which database? Say --url sqlite://app.db, or that of a server, or set WINDLASS_URL")]
    NoUrl,
    /// The URL names what this command cannot use.
    #[error("{0}")]
    Url(String),
    /// A server does not know who asks.
    #[error("{detail}; WINDLASS_KEY or --api-key says which key is yours")]
    Key {
        /// What it is, for programs.
        code: String,
        /// What it is, for people.
        detail: String,
    },
    /// Nobody has said that it may be done.
    #[error("nothing was done: say --yes when you mean it")]
    Unconfirmed,
    /// The doctor has found something.
    #[error("{0}")]
    Unwell(String),
    /// The database cannot be opened or used.
    #[error("{0}")]
    Database(String),
    /// The API could not do it.
    #[error("{detail}")]
    Failed {
        /// What it is, for programs.
        code: String,
        /// What it is, for people.
        detail: String,
    },
    /// What was asked for is not there.
    #[error("{detail}")]
    Unknown {
        /// What it is, for programs.
        code: String,
        /// What it is, for people.
        detail: String,
    },
    /// It was refused.
    #[error("{detail} ({code})")]
    Refused {
        /// What it is, for programs.
        code: String,
        /// What it is, for people.
        detail: String,
    },
    /// A run that was watched ended without completing.
    #[error("the run ended as {0}")]
    Ended(String),
    /// What was found could not be written.
    #[error("the output: {0}")]
    Output(#[from] io::Error),
}

impl From<windlass::Error> for Trouble {
    fn from(error: windlass::Error) -> Self {
        Self::Database(error.to_string())
    }
}

impl Trouble {
    /// The exit code of the program. Two is that of a command line that cannot be understood.
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::NoUrl | Self::Url(_) => 2,
            Self::Refused { .. } | Self::Key { .. } | Self::Unconfirmed | Self::Output(_) => 1,
            Self::Unknown { .. } => 3,
            Self::Database(_) | Self::Failed { .. } => 4,
            Self::Ended(_) => 5,
            Self::Unwell(_) => 6,
        }
    }

    /// The same for programs: a code that never changes, what it is, and what to do where that is known.
    pub(crate) fn to_json(&self) -> Value {
        let (code, hint) = match self {
            Self::NoUrl => ("no_url", Some("say --url, or set WINDLASS_URL")),
            Self::Url(_) => ("url", None),
            Self::Key { code, .. } => (&**code, Some("WINDLASS_KEY or --api-key says which key is yours")),
            Self::Unconfirmed => ("unconfirmed", Some("say --yes when you mean it")),
            Self::Unwell(_) => ("unwell", None),
            Self::Database(_) => ("database", None),
            Self::Unknown { code, .. } | Self::Failed { code, .. } | Self::Refused { code, .. } => {
                (&**code, None)
            }
            Self::Ended(_) => ("ended", None),
            Self::Output(_) => ("output", None),
        };
        let detail = match self {
            Self::NoUrl => "no database or server is named".to_owned(),
            Self::Unconfirmed => "nothing was done".to_owned(),
            Self::Key { detail, .. } | Self::Refused { detail, .. } => detail.clone(),
            other => other.to_string(),
        };
        json!({"code": code, "detail": detail, "hint": hint})
    }
}
