//! Where a run stands: a row in one of three tables, or in none of them when a node holds it.

use rusqlite::{Connection, Row};
use windlass_core::{RunId, Time};
use windlass_store::{DefinitionId, Place, Standing, Wait};

use crate::{
    ended::{self, EndedRow},
    holding::{self, Entry},
    ready,
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

    /// When the time limit of the run is over, if it has one.
    pub(crate) fn over_at(&self, core: &Core) -> Option<i64> {
        core.timeout.map(|timeout| self.opened_at.unwrap_or(core.created_at.0).saturating_add(timeout))
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

/// Where a run stands, as its row says.
pub(crate) enum Spot {
    Ready(Carried),
    Waiting(Carried, Wait),
    Ended(Box<EndedRow>),
    /// In none of the tables above, so a node holds it.
    Held,
}

/// Finds where a run stands. Asked in one transaction with its core.
pub(crate) fn locate(conn: &Connection, run: RunId, core: &Core) -> rusqlite::Result<Spot> {
    if let Some(row) = ended::read(conn, run, core)? {
        return Ok(Spot::Ended(Box::new(row)));
    }
    if let Some(carried) = ready::read(conn, run, core)? {
        return Ok(Spot::Ready(carried));
    }
    Ok(match waiting::read(conn, run)? {
        Some((carried, wait)) => Spot::Waiting(carried, wait),
        None => Spot::Held,
    })
}

/// Whether a run stands in a place where nobody holds it.
pub(crate) fn is_elsewhere(conn: &Connection, run: RunId, core: &Core) -> rusqlite::Result<bool> {
    Ok(!matches!(locate(conn, run, core)?, Spot::Held))
}

/// Who holds a run that stands in no other place, as its newest listing says.
fn held_by(conn: &Connection, core: &Core, listed: Option<(i64, Entry)>) -> rusqlite::Result<Standing> {
    // A run that is nowhere at all is a damaged record.
    let (node, entry) = listed.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let place = Place::Owned { node: holding::node_id(conn, node)?, claim: entry.claim };
    Ok(entry.carried.standing(core, place))
}

impl Spot {
    /// As the contract shows it. `listed` looks the holder up when a node holds the run.
    pub(crate) fn standing(
        self,
        conn: &Connection,
        core: &Core,
        listed: impl FnOnce() -> rusqlite::Result<Option<(i64, Entry)>>,
    ) -> rusqlite::Result<Standing> {
        Ok(match self {
            Self::Ready(carried) => carried.standing(core, Place::Ready),
            Self::Waiting(carried, wait) => carried.standing(core, Place::Waiting(wait)),
            Self::Ended(row) => row.carried.standing(core, Place::Ended(row.end)),
            Self::Held => held_by(conn, core, listed()?)?,
        })
    }
}
