//! What workflows a database knows.

use std::sync::Arc;

use serde_json::Value;
use windlass_core::{Definition, nearest, to_dot, to_json, to_mermaid};
use windlass_store::{DefinitionId, DefinitionRow, Versions};

use crate::{Client, Error, reserved::is_reserved};

/// The workflows that engines have brought to a database, as they are recorded there: nothing of their code is needed to
/// look at them.
#[must_use = "nothing is asked of workflows until they are listed"]
#[derive(Clone, Debug)]
pub struct Workflows {
    pub(crate) client: Client,
}

/// One version of a workflow, as it is recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KnownWorkflow {
    /// The number that the database gave it. A version that came later has a greater one.
    pub id: DefinitionId,
    /// What it is: its name, its version, its tasks and how they depend on each other.
    pub definition: Arc<Definition>,
}

impl Workflows {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The version of each workflow that came last, by name.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked, or a record cannot be read.
    pub async fn list(&self) -> Result<Vec<KnownWorkflow>, Error> {
        let mut rows = self.client.hub().store.definitions(Versions::Newest).await?;
        rows.retain(|(_, row)| !is_reserved(&row.workflow));
        self.read(rows)
    }

    /// The versions of one workflow, newest first: at most so many. None when no engine ever brought it.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked, or a record cannot be read.
    pub async fn versions(&self, name: &str, limit: usize) -> Result<Vec<KnownWorkflow>, Error> {
        if is_reserved(name) {
            return Ok(Vec::new());
        }
        let which = Versions::Of { workflow: name.into(), limit };
        self.read(self.client.hub().store.definitions(which).await?)
    }

    /// The version of one workflow that came last.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownWorkflow`] when no engine ever brought it, when the store cannot be asked, or the record cannot be
    /// read.
    pub async fn get(&self, name: &str) -> Result<KnownWorkflow, Error> {
        if let Some(newest) = self.versions(name, 1).await?.into_iter().next() {
            return Ok(newest);
        }
        let known = self.list().await?;
        let nearest = nearest(name, known.iter().map(KnownWorkflow::name)).map(str::to_owned);
        Err(Error::UnknownWorkflow { name: name.to_owned(), nearest })
    }

    fn read(&self, rows: Vec<(DefinitionId, DefinitionRow)>) -> Result<Vec<KnownWorkflow>, Error> {
        let read = |(id, row)| Ok(KnownWorkflow { id, definition: Arc::new(recorded(&self.client, row)?) });
        rows.into_iter().map(read).collect()
    }
}

impl KnownWorkflow {
    /// What runs of it are found by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// A stable hash of its structure, policies and code, or what the author set by hand.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.definition.version
    }

    /// The graph as Mermaid, for a README.
    #[must_use]
    pub fn to_mermaid(&self) -> String {
        to_mermaid(&self.definition)
    }

    /// The graph as DOT, for Graphviz.
    #[must_use]
    pub fn to_dot(&self) -> String {
        to_dot(&self.definition)
    }

    /// The graph as JSON, for a program.
    #[must_use]
    pub fn to_json(&self) -> Value {
        to_json(&self.definition)
    }
}

/// A definition as it was recorded.
pub(crate) fn recorded(client: &Client, row: DefinitionRow) -> Result<Definition, Error> {
    let what = || format!("the definition of workflow `{}`", row.workflow);
    let json = client.hub().read(what(), row.body.clone())?;
    Definition::from_json(&json).map_err(|why| Error::Decode { what: what(), why: why.to_string() })
}
