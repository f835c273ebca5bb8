//! Where a run stands: a row in exactly one of four tables.

use rusqlite::{Connection, Row};
use windlass_core::{ClaimId, NodeId, RunId, Time};
use windlass_store::{DefinitionId, Place, Standing, Wait};

use crate::{
    ended::{self, EndedRow},
    owned, ready,
    run::Core,
    waiting,
};

/// What goes along from one place to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    pub(crate) generation: u32,
    pub(crate) definition: Option<i64>,
    /// `None` when it is the time of the run's start, which most runs never leave behind.
    pub(crate) opened_at: Option<i64>,
    pub(crate) recoveries: u32,
}

impl Carried {
    /// Of a run that begins.
    pub(crate) const FRESH: Self = Self { generation: 1, definition: None, opened_at: None, recoveries: 0 };

    /// From four columns in the order of the fields.
    pub(crate) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            generation: row.get(first)?,
            definition: row.get(first + 1)?,
            opened_at: row.get(first + 2)?,
            recoveries: row.get(first + 3)?,
        })
    }

    /// As the contract shows it.
    pub(crate) fn standing(self, core: &Core, place: Place) -> Standing {
        Standing {
            place,
            generation: self.generation,
            definition: self.definition.map(DefinitionId),
            opened_at: self.opened_at.map_or(core.created_at, Time),
            recoveries: self.recoveries,
        }
    }
}

/// A run's row in one of the four tables.
pub(crate) enum Spot {
    Ready(Carried),
    Waiting(Carried, Wait),
    Owned { carried: Carried, node: NodeId, claim: ClaimId },
    Ended(Box<EndedRow>),
}

impl Spot {
    /// As the contract shows it.
    pub(crate) fn standing(self, core: &Core) -> Standing {
        match self {
            Self::Ready(carried) => carried.standing(core, Place::Ready),
            Self::Waiting(carried, wait) => carried.standing(core, Place::Waiting(wait)),
            Self::Owned { carried, node, claim } => carried.standing(core, Place::Owned { node, claim }),
            Self::Ended(row) => row.carried.standing(core, Place::Ended(row.end)),
        }
    }
}

/// Finds where a run stands. Asked in one transaction with its core, the answer is one of the four; a run
/// that stands nowhere is a damaged record.
pub(crate) fn locate(conn: &Connection, run: RunId, core: &Core) -> rusqlite::Result<Spot> {
    if let Some(row) = ended::read(conn, run, core)? {
        return Ok(Spot::Ended(Box::new(row)));
    }
    if let Some(carried) = ready::read(conn, run, core)? {
        return Ok(Spot::Ready(carried));
    }
    if let Some((carried, wait)) = waiting::read(conn, run)? {
        return Ok(Spot::Waiting(carried, wait));
    }
    owned::find(conn, run)?.ok_or(rusqlite::Error::QueryReturnedNoRows)
}
