//! Versions of workflows.

use std::sync::Arc;

use tokio_postgres::Row;
use windlass_store::{DefinitionId, DefinitionRow, Versions};

use crate::{column, error::Fault, session::Session};

const FIND: &str = "SELECT id FROM {s}.definition WHERE workflow = $1 AND version = $2";
const ADD: &str = "\
    INSERT INTO {s}.definition (workflow, version, body) VALUES ($1, $2, $3) \
    ON CONFLICT (workflow, version) DO NOTHING RETURNING id";
const READ: &str = "SELECT workflow, version, body FROM {s}.definition WHERE id = $1";
const NEWEST: &str = "\
    SELECT workflow, version, body, id FROM {s}.definition \
    WHERE id IN (SELECT max(id) FROM {s}.definition GROUP BY workflow) ORDER BY workflow";
const OF: &str = "\
    SELECT workflow, version, body, id FROM {s}.definition WHERE workflow = $1 ORDER BY id DESC LIMIT $2";

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
    rows.first().map(definition).transpose()
}

/// Versions with their numbers.
pub(crate) async fn list(
    session: &Session,
    which: &Versions,
) -> Result<Vec<(DefinitionId, DefinitionRow)>, Fault> {
    let rows = match which {
        Versions::Newest => session.query(NEWEST, &[]).await?,
        Versions::Of { workflow, limit } => {
            let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
            session.query(OF, &[&&**workflow, &limit]).await?
        }
    };
    rows.iter().map(|row| Ok((DefinitionId(row.try_get(3)?), definition(row)?))).collect()
}

fn definition(row: &Row) -> Result<DefinitionRow, Fault> {
    let (workflow, version): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
    let (workflow, version) = (Arc::from(workflow), Arc::from(version));
    Ok(DefinitionRow { workflow, version, body: column::bytes(row, 2)? })
}
