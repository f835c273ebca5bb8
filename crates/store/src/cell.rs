//! Small values that processes share.

use bytes::Bytes;
use windlass_core::Time;

/// A small value that processes share by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// How many times it was written.
    pub version: u64,
    /// The value.
    pub body: Bytes,
}

/// What became of the wish to write a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// It is written.
    Done {
        /// The store's time.
        at: Time,
    },
    /// Somebody else has written it since.
    Changed {
        /// The store's time.
        at: Time,
        /// What it is now; `None` if there is no such cell.
        now: Option<Cell>,
    },
}
