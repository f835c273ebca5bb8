//! Starting many runs at once.

use std::{collections::VecDeque, future::Future, pin::Pin, sync::Arc, time::Duration};

use serde::Serialize;
use tokio::task::JoinHandle;
use windlass_core::RunId;
use windlass_store::{Act, StoreError, Unit, Written};

use super::{IfTaken, Settings, input_error, known, new_run, refused};
use crate::{AnyWorkflow, Client, Error, Slot};

/// How many runs one transaction of a bulk start writes.
const BULK: usize = 1000;

/// The same where each looks at the run that has its key, one after the other.
const LOOKING: usize = 50;

/// How many portions are on their way at once, so that the store need not wait for the next. Those with keys go one
/// by one: two transactions that take the same keys in another order would wait for each other.
const ABREAST: usize = 3;

/// Many starts on their way: a future that is ready when all of them are durable.
#[must_use = "runs are started by awaiting this"]
pub struct BulkStart<I> {
    client: Client,
    workflow: Arc<str>,
    timeout: Option<Duration>,
    inputs: Vec<I>,
    settings: Settings,
    key: Option<KeyOf<I>>,
    queue_key: Option<KeyOf<I>>,
}

/// Makes a run's key from its input.
type KeyOf<I> = Box<dyn Fn(&I) -> String + Send>;

impl<I: Serialize + Send + Sync + 'static> BulkStart<I> {
    pub(crate) fn new(client: Client, workflow: AnyWorkflow, inputs: impl IntoIterator<Item = I>) -> Self {
        let definition = workflow.definition();
        Self {
            client,
            workflow: Arc::clone(&definition.name),
            timeout: definition.timeout,
            inputs: inputs.into_iter().collect(),
            settings: Settings::default(),
            key: None,
            queue_key: None,
        }
    }

    /// The key of each run, made from its input: see [`Start::key`](crate::Start::key).
    pub fn key(mut self, key: impl Fn(&I) -> String + Send + 'static) -> Self {
        self.key = Some(Box::new(key));
        self
    }

    /// The queue of all of them. Default: `default`.
    pub fn queue(mut self, queue: impl Into<Arc<str>>) -> Self {
        self.settings.queue = Some(queue.into());
        self
    }

    /// What happens when a run has the [key](Self::key) of another: see [`Start::if_taken`](crate::Start::if_taken).
    pub fn if_taken(mut self, then: IfTaken) -> Self {
        self.settings.if_taken = Some(then);
        self
    }

    /// What each run is counted by within its queue, made from its input: see
    /// [`Start::queue_key`](crate::Start::queue_key).
    pub fn queue_key(mut self, key: impl Fn(&I) -> String + Send + 'static) -> Self {
        self.queue_key = Some(Box::new(key));
        self
    }

    /// The priority of all of them, from 0 (most urgent) to 9. Default: 5.
    pub fn priority(mut self, priority: u8) -> Self {
        self.settings.priority = Some(priority);
        self
    }

    /// How long they wait before they may begin.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.settings.delay = Some(delay);
        self
    }

    /// The longest that each may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// A word to find all of them by. May be given several times.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.settings.tags.push(tag.into());
        self
    }

    async fn begin(self) -> Result<Vec<RunId>, Error> {
        let Self { client, workflow, timeout, inputs, mut settings, key, queue_key } = self;
        known(&client, &workflow)?;
        let mut ids = Vec::with_capacity(inputs.len());
        let mut inputs = inputs.into_iter();
        let stirs = IfTaken::stirs(&settings);
        let most = if stirs { LOOKING } else { BULK };
        let abreast = if key.is_some() { 1 } else { ABREAST };
        let mut writing: VecDeque<JoinHandle<Result<Vec<RunId>, Error>>> = VecDeque::new();
        loop {
            // The next portion is encoded while those before are being written.
            let mut units = Vec::new();
            for input in inputs.by_ref().take(most) {
                settings.key = key.as_ref().map(|key| key(&input));
                settings.queue_key = queue_key.as_ref().map(|key| key(&input).into());
                let input = Slot::new(input).map_err(input_error)?;
                let new = new_run(client.hub(), &workflow, timeout, &input, &settings)?;
                units.push(Unit { run: RunId::new(), act: Act::Start(Box::new(new)) });
            }
            let is_last = units.is_empty();
            while (is_last || writing.len() == abreast)
                && let Some(oldest) = writing.pop_front()
            {
                // It ends early only with the runtime.
                let written = oldest.await.map_err(|_| Error::Stopped)?;
                if stirs {
                    client.hub().stirred.notify_one();
                }
                ids.extend(written?);
            }
            if is_last {
                return Ok(ids);
            }
            writing.push_back(tokio::spawn(write_bulk(client.clone(), Arc::clone(&workflow), units)));
        }
    }
}

/// Writes one portion of a bulk start, again if the store was out of reach: ids and keys make that
/// harmless.
async fn write_bulk(client: Client, workflow: Arc<str>, units: Vec<Unit>) -> Result<Vec<RunId>, Error> {
    let units = Arc::new(units);
    let mut pause = Duration::from_millis(10);
    let answers = loop {
        match client.hub().store.commit(None, Arc::clone(&units)).await {
            Ok(answers) => break answers,
            Err(error) if error.is_temporary() && !client.hub().closed.is_cancelled() => {
                tracing::warn!(runs = units.len(), %error, "a bulk start failed; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            Err(StoreError::Closed) => return Err(Error::Stopped),
            Err(error) => return Err(error.into()),
        }
    };
    if let Some(node) = client.node() {
        node.claim.notify_one();
    }
    let written = units.iter().zip(answers).map(|(unit, answer)| match answer {
        Ok(Written::Existing { run }) => Ok(run),
        Ok(_) => Ok(unit.run),
        Err(refusal) => {
            let key = match &unit.act {
                Act::Start(new) => new.key.as_ref().map(|key| key.key.clone()),
                _ => None,
            };
            Err(refused(unit.run, &workflow, key, refusal))
        }
    });
    written.collect()
}

impl<I: Serialize + Send + Sync + 'static> IntoFuture for BulkStart<I> {
    type Output = Result<Vec<RunId>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}

impl<I> std::fmt::Debug for BulkStart<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkStart")
            .field("workflow", &self.workflow)
            .field("runs", &self.inputs.len())
            .finish_non_exhaustive()
    }
}
