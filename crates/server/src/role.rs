//! What somebody may do.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What somebody may do. Each may do all that those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// See everything, and change nothing.
    Viewer,
    /// Start and steer runs; steer schedules, triggers and queues.
    Operator,
    /// Make and revoke keys, declare and remove queues, remove schedules, discard runs, see what was changed by whom.
    Admin,
}

impl Role {
    /// All of them, the weakest first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// Its name, as it is written everywhere.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|role| role.name() == text).ok_or_else(|| {
            format!(
                "`{}` is not a role: there are {}",
                text.escape_debug(),
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }
}
