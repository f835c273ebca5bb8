//! PostgreSQL: starting, sending and cancelling in a transaction of the application's own.
//!
//! ```no_run
//! use windlass::{postgres, prelude::*};
//!
//! #[workflow]
//! mod order {
//!     use super::*;
//!
//!     #[task]
//!     pub async fn charge(input: u32) -> Result<u32> {
//!         Ok(input)
//!     }
//! }
//!
//! async fn take(database: &mut postgres::tokio_postgres::Client, total: u32) -> Result<windlass::RunId> {
//!     let transaction = database.transaction().await?;
//!     transaction.execute("INSERT INTO orders (total) VALUES ($1)", &[&i64::from(total)]).await?;
//!     let run = postgres::start_in(&transaction, order::workflow(), total).key("order-17").await?;
//!     transaction.commit().await?; // both are there, or neither
//!     Ok(run)
//! }
//! # fn main() {}
//! ```
//!
//! What is asked happens when the transaction commits; rolled back, it never happened. Each of these calls a function of
//! the schema that an engine made on the same database, which other languages can call as well. An error leaves a
//! transaction that can only be rolled back; [`Error::Unavailable`] means that the whole of it may be tried again.
//!
//! Everything else here is the store itself: see [`windlass_postgres`].

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use serde::Serialize;
use serde_json::Value;
use tokio_postgres::GenericClient;
use windlass_core::RunId;
pub use windlass_postgres::*;

pub use crate::flow::transaction::postgres::FlowExt;
use crate::{Error, Slot, Workflow, start::Settings};

/// The schema whose functions are called unless another is named.
const SCHEMA: &str = "windlass";

type Calling<'c, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'c>>;

/// Starts a run in a transaction of the application's own. It is there when that commits.
///
/// `client` is a transaction of [`tokio_postgres`], or a connection: that is a transaction of its own for each
/// statement. The future gives the run's id; after the commit, [`Client::run`](crate::Client::run) makes a handle of it.
///
/// The payload is plain JSON, so an engine with a [`Codec`](crate::Codec) of its own must be able to read that.
pub fn start_in<C, I, O>(client: &C, workflow: Workflow<I, O>, input: I) -> StartIn<'_, C>
where
    C: GenericClient + Sync,
    I: Serialize + Send + Sync + 'static,
{
    let settings = Settings { timeout: workflow.definition().timeout, ..Settings::default() };
    let (workflow, input) = (workflow.name().to_owned(), encode("the input", input));
    StartIn { client, schema: SCHEMA.to_owned(), workflow, input, settings }
}

/// Asks a run to stop, in a transaction of the application's own.
///
/// The future says whether it can still be asked: `false` when the run has ended or is not known. One that ends before
/// the transaction commits hears nothing.
pub fn cancel_in<'c, C>(client: &'c C, run: RunId, reason: impl Into<String>) -> CancelIn<'c, C>
where
    C: GenericClient + Sync,
{
    CancelIn { client, schema: SCHEMA.to_owned(), run, reason: reason.into() }
}

/// Sends a run an event, in a transaction of the application's own.
///
/// The future says whether it can get there, or did under the same key before: `false` when the run has ended or is not
/// known. One that ends before the transaction commits hears nothing.
pub fn send_in<'c, C, P>(client: &'c C, run: RunId, topic: impl Into<String>, payload: P) -> SendIn<'c, C>
where
    C: GenericClient + Sync,
    P: Serialize + Send + Sync + 'static,
{
    let payload = encode("the payload", payload);
    SendIn { client, schema: SCHEMA.to_owned(), run, topic: topic.into(), payload, key: None }
}

fn encode<T: Serialize + Send + Sync + 'static>(what: &str, value: T) -> Result<String, Error> {
    let refused = |why: String| Error::Encode { what: what.to_owned(), why };
    let slot = Slot::new(value).map_err(|failure| refused(failure.to_string()))?;
    String::from_utf8(slot.bytes().to_vec()).map_err(|error| refused(error.to_string()))
}

/// A start in somebody's transaction, made by [`start_in`].
#[must_use = "a run is started by awaiting this"]
pub struct StartIn<'c, C> {
    client: &'c C,
    schema: String,
    workflow: String,
    input: Result<String, Error>,
    settings: Settings,
}

impl<C> StartIn<'_, C> {
    /// The schema of the engine. Default: `windlass`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// A key that stands for the run within its workflow, as with [`Start::key`](crate::Start::key). Whoever comes
    /// second waits until the transaction of the first has ended.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.settings.key = Some(key.into());
        self
    }

    /// For how long the key stands for the run. Default: as long as the run's record is kept.
    pub fn key_for(mut self, life: Duration) -> Self {
        self.settings.key_life = Some(life);
        self
    }

    /// Answers with the run that has the key even if its input is another.
    pub fn or_existing(mut self) -> Self {
        self.settings.or_existing = true;
        self
    }

    /// The queue that the run waits in, and whose slots its tasks take. Default: `default`.
    pub fn queue(mut self, queue: impl Into<std::sync::Arc<str>>) -> Self {
        self.settings.queue = Some(queue.into());
        self
    }

    /// What the run is counted by within its queue, as with [`Start::queue_key`](crate::Start::queue_key).
    pub fn queue_key(mut self, key: impl Into<std::sync::Arc<str>>) -> Self {
        self.settings.queue_key = Some(key.into());
        self
    }

    /// From 0 (most urgent) to 9. Default: 5.
    pub fn priority(mut self, priority: u8) -> Self {
        self.settings.priority = Some(priority);
        self
    }

    /// What happens when a run has the key: see [`Start::if_taken`](crate::Start::if_taken). A run that is replaced is
    /// cancelled by an order, which is given when the transaction commits.
    pub fn if_taken(mut self, then: crate::IfTaken) -> Self {
        self.settings.if_taken = Some(then);
        self
    }

    /// How long to wait, from this call on, before the run may begin.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.settings.delay = Some(delay);
        self
    }

    /// The longest that the run may take from the moment it might first run. Default: the workflow's.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// A word to find the run by. May be given several times.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.settings.tags.push(tag.into());
        self
    }

    /// What the run's context starts with: a JSON object.
    pub fn context(mut self, context: Value) -> Self {
        self.settings.context = Some(context);
        self
    }

    /// The trace that the run belongs to, as a W3C `traceparent`.
    pub fn trace(mut self, traceparent: impl Into<String>) -> Self {
        self.settings.trace = Some(traceparent.into());
        self
    }
}

impl<C: GenericClient + Sync> StartIn<'_, C> {
    async fn call(self) -> Result<RunId, Error> {
        let (settings, input) = (self.settings, self.input?);
        let context = settings.context.map(|context| context.to_string());
        let new = StartCall {
            workflow: &self.workflow,
            input: &input,
            key: settings.key.as_deref(),
            key_for: settings.key_life,
            or_existing: settings.or_existing,
            if_taken: settings.if_taken.map(crate::IfTaken::name),
            queue: settings.queue.as_deref(),
            queue_key: settings.queue_key.as_deref(),
            priority: settings.priority,
            delay: settings.if_taken.and_then(crate::IfTaken::delay).or(settings.delay),
            timeout: settings.timeout,
            tags: &settings.tags,
            context: context.as_deref(),
            trace: settings.trace.as_deref(),
        };
        let started = Application::new(self.client, &self.schema).start(new).await;
        started.map_err(|error| match error {
            CallError::KeyTaken { run } => {
                let key = settings.key.unwrap_or_default();
                Error::KeyTaken { workflow: self.workflow, key, run }
            }
            other => other.into(),
        })
    }
}

impl<'c, C: GenericClient + Sync> IntoFuture for StartIn<'c, C> {
    type Output = Result<RunId, Error>;
    type IntoFuture = Calling<'c, RunId>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.call())
    }
}

/// A cancel in somebody's transaction, made by [`cancel_in`].
#[must_use = "a run is cancelled by awaiting this"]
pub struct CancelIn<'c, C> {
    client: &'c C,
    schema: String,
    run: RunId,
    reason: String,
}

impl<C> CancelIn<'_, C> {
    /// The schema of the engine. Default: `windlass`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }
}

impl<'c, C: GenericClient + Sync> IntoFuture for CancelIn<'c, C> {
    type Output = Result<bool, Error>;
    type IntoFuture = Calling<'c, bool>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, schema, run, reason } = self;
        Box::pin(async move { Ok(Application::new(client, &schema).cancel(run, &reason).await?) })
    }
}

/// An event in somebody's transaction, made by [`send_in`].
#[must_use = "an event is sent by awaiting this"]
pub struct SendIn<'c, C> {
    client: &'c C,
    schema: String,
    run: RunId,
    topic: String,
    payload: Result<String, Error>,
    key: Option<String>,
}

impl<C> SendIn<'_, C> {
    /// The schema of the engine. Default: `windlass`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// A key under which the run gets an event of this topic once, however often it is sent.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl<'c, C: GenericClient + Sync> IntoFuture for SendIn<'c, C> {
    type Output = Result<bool, Error>;
    type IntoFuture = Calling<'c, bool>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, schema, run, topic, payload, key } = self;
        Box::pin(async move {
            Ok(Application::new(client, &schema).send(run, &topic, &payload?, key.as_deref()).await?)
        })
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::TooLarge { option, size, limit } => {
                Self::PayloadTooLarge { what: format!("the {option}"), size, limit }
            }
            CallError::Store(error) => error.into(),
            other => Self::Invalid(other.to_string()),
        }
    }
}
