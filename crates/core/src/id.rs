//! The names that records carry.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Time, random};

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A fresh id. Ids made later sort after ids made earlier: in one process always, between processes
            /// to the millisecond.
            #[must_use]
            #[allow(clippy::new_without_default, reason = "a default id would be a different one each time")]
            pub fn new() -> Self {
                Self(random::time_ordered())
            }

            /// The id with these sixteen bytes.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// The sixteen bytes that stores keep.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

uuid_id!(
    /// Names a run, for ever.
    RunId
);
uuid_id!(
    /// Names one boot of one process. A restarted process is another node.
    NodeId
);

impl RunId {
    /// Sorts after every other.
    pub const LAST: Self = Self::from_bytes([0xff; 16]);

    /// The least id that is made at this time, to the millisecond: those made earlier sort before it. (A child sorts beside
    /// its parent.)
    #[must_use]
    pub fn least(at: Time) -> Self {
        let millis = u64::try_from(at.0.div_euclid(1000)).unwrap_or(0).min((1 << 48) - 1);
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        Self::from_bytes(bytes)
    }

    /// When it was made, to the millisecond, by the clock of whoever made it.
    #[must_use]
    pub fn made_at(&self) -> Time {
        let mut millis = [0; 8];
        millis[2..].copy_from_slice(&self.as_bytes()[..6]);
        Time(i64::from_be_bytes(millis) * 1000)
    }
}

/// Names one claim: one span of time during which one node holds a run.
///
/// Every change of hands writes a fresh one, so that a late message from an earlier holder is
/// recognised, even when the earlier holder is the same node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimId(pub u64);

impl ClaimId {
    /// A fresh id. It fits a signed 64-bit column.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a default id would be a different one each time")]
    pub fn new() -> Self {
        let [number, _] = random::numbers();
        Self(number & (i64::MAX as u64))
    }

    /// The claim of the node that starts a run and holds it at once. A claim is only ever compared with others of
    /// its run, so that the run's own id makes it a fresh one.
    #[must_use]
    pub fn first(run: RunId) -> Self {
        Self(u128::from_be_bytes(*run.as_bytes()) as u64 & (i64::MAX as u64))
    }
}

/// A task's place in its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskIx(pub u32);

impl TaskIx {
    /// As an index into a slice of tasks.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl From<usize> for TaskIx {
    fn from(index: usize) -> Self {
        Self(u32::try_from(index).expect("a graph has fewer than four thousand million tasks"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_lies_between_the_least_of_its_millisecond_and_that_of_the_next() {
        let id = RunId::new();
        let made = id.made_at();
        assert!(RunId::least(made) <= id && id < RunId::least(Time(made.0 + 1000)));
        assert_eq!(RunId::least(made).made_at(), made);
        assert!(RunId::least(Time(-5)) <= id && RunId::least(Time::MAX) <= RunId::LAST);
    }
}
