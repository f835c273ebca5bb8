//! Small values that processes share.

use tokio_postgres::Row;
use windlass_core::NodeId;
use windlass_store::{Cell, Swapped};

use crate::{column, error::Fault, session::Session};

const READ: &str = "SELECT version, body FROM {s}.cell WHERE name = $1";
const ADD: &str = "INSERT INTO {s}.cell (name, version, body) VALUES ($1, 1, $2) ON CONFLICT DO NOTHING";
const REPLACE: &str = "UPDATE {s}.cell SET version = version + 1, body = $3 WHERE name = $1 AND version = $2";

/// A cell, if it is there.
pub(crate) async fn read(session: &Session, name: &str) -> Result<Option<Cell>, Fault> {
    session.query(READ, &[&name]).await?.first().map(cell).transpose()
}

fn cell(row: &Row) -> Result<Cell, Fault> {
    Ok(Cell { version: row.try_get::<_, i64>(0)?.cast_unsigned(), body: column::bytes(row, 1)? })
}

/// Writes a cell if it has this version. Whoever writes it at the same time is waited for.
pub(crate) async fn swap(
    session: &Session,
    node: Option<NodeId>,
    name: &str,
    version: u64,
    body: &[u8],
) -> Result<Swapped, Fault> {
    let swap = async |at| {
        let written = if version == 0 {
            session.execute(ADD, &[&name, &body]).await?
        } else {
            session.execute(REPLACE, &[&name, &version.cast_signed(), &body]).await?
        };
        if written > 0 {
            return Ok(Swapped::Done { at });
        }
        Ok(Swapped::Changed { at, now: read(session, name).await? })
    };
    session.transact(node, swap).await
}
