//! The functions that an application calls in a transaction of its own.

use std::time::Duration;

use tokio_postgres::{
    Error, GenericClient,
    error::DbError,
    types::{FromSqlOwned, ToSql, Type},
};
use uuid::Uuid;
use windlass_core::RunId;
use windlass_store::StoreError;

use crate::{column, error::Fault, session::qualified};

const START: &str = "\
    SELECT {s}.start(workflow => $1, input => $2, key => $3, queue => $4, priority => $5, delay => $6::interval, \
        timeout => $7::interval, tags => $8, context => $9::jsonb, key_for => $10::interval, or_existing => $11, \
        trace => $12, queue_key => $13, if_taken => $14)";
const SEND: &str = "SELECT {s}.send(run => $1, topic => $2, payload => $3, key => $4)";
const CANCEL: &str = "SELECT {s}.cancel(run => $1, reason => $2)";

/// What the functions raise: see [`0002_functions.sql`](../migrations/0002_functions.sql).
const KEY_TAKEN: &str = "WL002";
const INVALID: &str = "WL003";
const TOO_LARGE: &str = "WL005";

/// An application, on a connection or in a transaction of its own, and the schema whose functions it calls.
#[derive(Debug)]
pub struct Application<'c, C: ?Sized> {
    client: &'c C,
    schema: &'c str,
}

/// A run to be started: what the function `start` takes. What is `None` is left to the function.
#[derive(Clone, Debug, Default)]
pub struct StartCall<'a> {
    /// The workflow's name.
    pub workflow: &'a str,
    /// Its input, as JSON.
    pub input: &'a str,
    /// The key that stands for it.
    pub key: Option<&'a str>,
    /// For how long.
    pub key_for: Option<Duration>,
    /// Whether the run that has the key will do even if its input is another.
    pub or_existing: bool,
    /// What happens when a run has the key: `existing`, `reject`, `replace` or `debounce`.
    pub if_taken: Option<&'a str>,
    /// The queue it waits in.
    pub queue: Option<&'a str>,
    /// What it is counted by within its queue.
    pub queue_key: Option<&'a str>,
    /// 0 is the most urgent, 9 the least.
    pub priority: Option<u8>,
    /// How long after the call it may first run.
    pub delay: Option<Duration>,
    /// The longest it may take from then on.
    pub timeout: Option<Duration>,
    /// For search.
    pub tags: &'a [String],
    /// The context it starts with, as JSON.
    pub context: Option<&'a str>,
    /// The trace that its start belongs to.
    pub trace: Option<&'a str>,
}

/// Why a call came to nothing. Its transaction cannot be used any more, but for rolling it back.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The key belongs to a run with another input.
    #[error("the key belongs to run {run}, which has another input")]
    KeyTaken {
        /// The run that has the key.
        run: RunId,
    },
    /// A payload is over the limit.
    #[error("`{option}` is {size} bytes, over the limit of {limit}")]
    TooLarge {
        /// Which of them.
        option: String,
        /// How large it is.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// An option has a value that cannot be meant.
    #[error("{0}")]
    Invalid(String),
    /// The database failed, or the functions are not there.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<'c, C: GenericClient + Sync + ?Sized> Application<'c, C> {
    /// An application that calls the functions of this schema.
    pub fn new(client: &'c C, schema: &'c str) -> Self {
        Self { client, schema }
    }

    /// Starts a run, which is there when the transaction commits. Answers its id, or that of the run that has the key.
    ///
    /// # Errors
    ///
    /// When the key is taken, an option cannot be meant, or the database fails.
    pub async fn start(&self, new: StartCall<'_>) -> Result<RunId, CallError> {
        let priority = new.priority.map(i32::from);
        let [delay, timeout, key_for] = [new.delay, new.timeout, new.key_for].map(|span| span.map(interval));
        let run: Uuid = self
            .call(
                START,
                &[
                    (&new.workflow, Type::TEXT),
                    (&new.input, Type::TEXT),
                    (&new.key, Type::TEXT),
                    (&new.queue, Type::TEXT),
                    (&priority, Type::INT4),
                    (&delay, Type::TEXT),
                    (&timeout, Type::TEXT),
                    (&new.tags, Type::TEXT_ARRAY),
                    (&new.context, Type::TEXT),
                    (&key_for, Type::TEXT),
                    (&new.or_existing, Type::BOOL),
                    (&new.trace, Type::TEXT),
                    (&new.queue_key, Type::TEXT),
                    (&new.if_taken, Type::TEXT),
                ],
            )
            .await?;
        Ok(RunId::from_bytes(run.into_bytes()))
    }

    /// Sends a run an event, with JSON as its payload, when the transaction commits. Answers whether it can get
    /// there, or did under the same key before: `false` when the run has ended or is not known.
    ///
    /// # Errors
    ///
    /// When the topic or the payload cannot be meant, or the database fails.
    pub async fn send(
        &self,
        run: RunId,
        topic: &str,
        payload: &str,
        key: Option<&str>,
    ) -> Result<bool, CallError> {
        let run = column::run(run);
        let params: [(&(dyn ToSql + Sync), Type); 4] =
            [(&run, Type::UUID), (&topic, Type::TEXT), (&payload, Type::TEXT), (&key, Type::TEXT)];
        self.call(SEND, &params).await
    }

    /// Asks a run to stop, when the transaction commits. Answers whether it can still be asked: `false` when the run
    /// has ended or is not known.
    ///
    /// # Errors
    ///
    /// When the database fails.
    pub async fn cancel(&self, run: RunId, reason: &str) -> Result<bool, CallError> {
        let run = column::run(run);
        self.call(CANCEL, &[(&run, Type::UUID), (&reason, Type::TEXT)]).await
    }

    /// Nothing is prepared, so that it works through poolers too.
    async fn call<T: FromSqlOwned>(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<T, CallError> {
        let answer = self.client.query_typed_one(&qualified(sql, self.schema), params).await;
        answer.and_then(|row| row.try_get(0)).map_err(|error| self.told(error))
    }

    fn told(&self, error: Error) -> CallError {
        let said = error.as_db_error().and_then(|said| refusal(said, self.schema));
        said.unwrap_or_else(|| Fault::Sql(error).tell(&format!("the schema `{}`", self.schema)).into())
    }
}

/// What a function says, or what there is to do when it cannot be called.
fn refusal(said: &DbError, schema: &str) -> Option<CallError> {
    let text = said.message();
    Some(match said.code().code() {
        KEY_TAKEN => CallError::KeyTaken { run: said.detail()?.parse().ok()? },
        INVALID => CallError::Invalid(text.to_owned()),
        TOO_LARGE => {
            let (option, sizes) = said.detail()?.split_once(' ')?;
            let (size, limit) = sizes.split_once(' ')?;
            let option = option.to_owned();
            CallError::TooLarge { option, size: size.parse().ok()?, limit: limit.parse().ok()? }
        }
        // No such schema, or no such function.
        "3F000" | "42883" => CallError::Store(StoreError::Broken(format!(
            "{text}: an engine that is launched on this database makes the functions; is `{schema}` its schema?"
        ))),
        "42501" => CallError::Store(StoreError::Broken(format!(
            "{text}: this role needs USAGE on the schema `{schema}` and EXECUTE on its functions"
        ))),
        _ => return None,
    })
}

/// A span as the server reads it, whatever its settings are.
fn interval(span: Duration) -> String {
    let micros = column::micros(span);
    format!("PT{}.{:06}S", micros / 1_000_000, micros % 1_000_000)
}
