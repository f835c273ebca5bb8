//! What the inputs of workflows look like.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use windlass_store::{Store, Swapped};

use crate::{Codec, Error, Workflows, authoring::AnyWorkflow, reserved::RESERVED};

/// The value that processes share for it. A definition keeps what came first with its version, and a schema is no part of
/// that.
fn cell(workflow: &str) -> Arc<str> {
    format!("{RESERVED}input_schema/{workflow}").into()
}

/// Writes down the schema that a program has, where it differs.
pub(crate) async fn declare(
    store: &dyn Store,
    codec: &Arc<dyn Codec>,
    workflow: &AnyWorkflow,
) -> Result<(), Error> {
    let Some(schema) = workflow.input_schema() else { return Ok(()) };
    let name = &workflow.definition().name;
    let what = || format!("the input schema of workflow `{name}`");
    let json = Bytes::from(schema.to_string());
    let body =
        codec.encode(json.clone()).map_err(|why| Error::Encode { what: what(), why: why.to_string() })?;
    let mut known = store.cell(cell(name)).await?;
    loop {
        if let Some(known) = &known
            && codec.decode(known.body.clone()).is_ok_and(|before| before == json)
        {
            return Ok(());
        }
        let version = known.as_ref().map_or(0, |known| known.version);
        match store.swap_cell(None, cell(name), version, body.clone()).await? {
            Swapped::Done { .. } => return Ok(()),
            Swapped::Changed { now, .. } => known = now,
        }
    }
}

impl Workflows {
    /// What the input of a workflow looks like, as a JSON schema, if the engine that came last with one has said so.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked, or the schema cannot be read.
    pub async fn input_schema(&self, workflow: &str) -> Result<Option<Value>, Error> {
        let hub = self.client.hub();
        let Some(known) = hub.store.cell(cell(workflow)).await? else { return Ok(None) };
        let what = || format!("the input schema of workflow `{workflow}`");
        let json = hub.read(what(), known.body)?;
        let schema = serde_json::from_slice(&json);
        schema.map(Some).map_err(|why| Error::Decode { what: what(), why: why.to_string() })
    }
}
