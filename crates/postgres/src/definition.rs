//! Versions of workflows.

use std::sync::Arc;

use windlass_store::{DefinitionId, DefinitionRow};

use crate::{column, error::Fault, session::Session};

const FIND: &str = "SELECT id FROM {s}.definition WHERE workflow = $1 AND version = $2";
const ADD: &str = "\
    INSERT INTO {s}.definition (workflow, version, body) VALUES ($1, $2, $3) \
    ON CONFLICT (workflow, version) DO NOTHING RETURNING id";
const READ: &str = "SELECT workflow, version, body FROM {s}.definition WHERE id = $1";

/// The number of a version, given out on first sight.
pub(crate) async fn define(session: &Session, new: &DefinitionRow) -> Result<DefinitionId, Fault> {
    let (workflow, version) = (&*new.workflow, &*new.version);
    loop {
        if let Some(row) = session.query(FIND, &[&workflow, &version]).await?.first() {
            return Ok(DefinitionId(row.try_get(0)?));
        }
        // A transaction names its isolation; what stands alone has the database's, which may not bear a rival.
        let add = async |_| session.query(ADD, &[&workflow, &version, &&*new.body]).await;
        if let Some(row) = session.transact(None, add).await?.first() {
            return Ok(DefinitionId(row.try_get(0)?));
        }
        // Somebody else was quicker, and has committed: it is found now.
    }
}

/// The version with this number.
pub(crate) async fn read(session: &Session, id: DefinitionId) -> Result<Option<DefinitionRow>, Fault> {
    let rows = session.query(READ, &[&id.0]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (workflow, version): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
    let (workflow, version) = (Arc::from(workflow), Arc::from(version));
    Ok(Some(DefinitionRow { workflow, version, body: column::bytes(row, 2)? }))
}
