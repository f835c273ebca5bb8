//! Small values that all processes on a database share.

use std::{fmt, marker::PhantomData, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use windlass_store::{Cell, Swapped};

use crate::{Client, Error};

/// A small value that all processes on a database share, under a name: see [`Client::shared_value`].
///
/// It is kept as one payload, encoded as all others are, and written as a whole: keep it small, and change it seldom.
pub struct SharedValue<T> {
    client: Client,
    name: Arc<str>,
    value: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned + Default> SharedValue<T> {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        Self { client, name: format!("shared:{name}").into(), value: PhantomData }
    }

    /// What it is now; the default if it was never written.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked, or what it kept is no such value.
    pub async fn get(&self) -> Result<T, Error> {
        let cell = self.client.hub().store.cell(Arc::clone(&self.name)).await?;
        self.read(cell.as_ref())
    }

    /// Changes it, whoever else does: when somebody was faster, `change` is asked again, about what that one wrote. When it
    /// answers with an error, nothing is written.
    ///
    /// # Errors
    ///
    /// Those of `change`, and when the store cannot be asked. After [`Error::Unavailable`] it may be written or not.
    pub async fn change<A, E: From<Error>>(
        &self,
        mut change: impl FnMut(&mut T) -> Result<A, E>,
    ) -> Result<A, E> {
        let hub = self.client.hub();
        let mut cell = hub.store.cell(Arc::clone(&self.name)).await.map_err(Error::from)?;
        loop {
            let mut value = self.read(cell.as_ref())?;
            let answer = change(&mut value)?;
            let json = serde_json::to_vec(&value).map_err(|error| self.unfit(&error))?;
            let body = hub.keep(format_args!("{self}"), json.into())?;
            let version = cell.as_ref().map_or(0, |cell| cell.version);
            let swapped = hub.store.swap_cell(None, Arc::clone(&self.name), version, body).await;
            match swapped.map_err(Error::from)? {
                Swapped::Done { .. } => return Ok(answer),
                Swapped::Changed { now, .. } => cell = now,
            }
        }
    }

    fn read(&self, cell: Option<&Cell>) -> Result<T, Error> {
        let Some(cell) = cell else { return Ok(T::default()) };
        let json = self.client.hub().read(self, cell.body.clone())?;
        serde_json::from_slice(&json)
            .map_err(|error| Error::Decode { what: self.to_string(), why: error.to_string() })
    }

    fn unfit(&self, error: &serde_json::Error) -> Error {
        Error::Encode { what: self.to_string(), why: error.to_string() }
    }
}

impl<T> fmt::Display for SharedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the shared value `{}`", self.name.trim_start_matches("shared:"))
    }
}

impl<T> fmt::Debug for SharedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedValue").field("name", &self.name).finish_non_exhaustive()
    }
}
