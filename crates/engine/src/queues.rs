//! Queues with limits over all processes together.

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc, time::Duration};

use windlass_store::{QueueChange, QueueRow};
pub use windlass_store::{QueueChanged, QueueLimits, Rate};

use crate::{Client, Error, reserved::wrong_queue};

/// Says how much of a queue may be under way: a future that is ready when it is so.
///
/// It says all at once: a limit that is not named is none, whatever was said before. Saying the same again changes nothing,
/// so it may well be said whenever a program starts. It counts from then on, in every process; what was begun before goes
/// on, and counts.
#[must_use = "a queue is declared by awaiting this"]
#[derive(Clone, Debug)]
pub struct QueueSetup {
    client: Client,
    name: Arc<str>,
    limits: QueueLimits,
    /// What cannot be meant.
    wrong: Option<String>,
}

/// A queue that was declared, and what is in it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueueStatus {
    /// Its name.
    pub name: Arc<str>,
    /// How much of it may be under way.
    pub limits: QueueLimits,
    /// Whether nobody takes anything from it.
    pub paused: bool,
    /// How many of its runs could begin, or go on, but for limits and room.
    pub depth: u64,
    /// For how long the one of them that was started first could have begun: one that was delayed, since it was due.
    pub oldest: Option<Duration>,
    /// How many of its runs are under way.
    pub running: u64,
    /// How many of its runs ended, and of its [spread](crate::WorkflowBuilder::spread) tasks were executed, in the last minute.
    /// Each process that lives says so with its heartbeats, for the minute before, so it is as old as those are.
    pub ended_per_minute: u64,
}

/// The queues of a database, to be looked at, paused and resumed.
#[must_use = "nothing is asked of queues until they are listed or acted on"]
#[derive(Clone, Debug)]
pub struct Queues {
    client: Client,
}

impl QueueSetup {
    pub(crate) fn new(client: Client, name: Arc<str>) -> Self {
        let wrong = wrong_queue(&name);
        Self { client, name, limits: QueueLimits::default(), wrong }
    }

    /// How many of its runs are under way at once, over all processes. Default: no limit.
    pub fn concurrency(self, runs: u32) -> Self {
        self.limit("concurrency", runs, |limits| limits.concurrency = Some(runs))
    }

    /// How many of its runs are under way at once in one process. Default: no limit.
    pub fn per_node(self, runs: u32) -> Self {
        self.limit("per_node", runs, |limits| limits.per_node = Some(runs))
    }

    /// How many runs with the same [key](crate::Start::queue_key) are under way at once, over all processes. Those without
    /// a key are not counted. Default: no limit.
    pub fn per_key(self, runs: u32) -> Self {
        self.limit("per_key", runs, |limits| limits.per_key = Some(runs))
    }

    /// How many of its runs may begin, over all processes, in any span of this length, wherever it begins. A run that was
    /// parked begins again when it goes on. Default: no limit.
    pub fn rate(self, runs: u32, per: Duration) -> Self {
        let this = self.lasting("rate", per);
        let rate = Some(Rate { count: runs, per: whole_micros(per) });
        this.limit("rate", runs, |limits| limits.rate = rate)
    }

    /// How many runs with the same [key](crate::Start::queue_key) may begin, over all processes, in any span of this length,
    /// wherever it begins. A key that has begun so many keeps no other one waiting. Those without a key are not counted.
    /// Default: no limit.
    pub fn key_rate(self, runs: u32, per: Duration) -> Self {
        let this = self.lasting("key_rate", per);
        let rate = Some(Rate { count: runs, per: whole_micros(per) });
        this.limit("key_rate", runs, |limits| limits.key_rate = rate)
    }

    /// A run becomes more urgent by one step of [priority](crate::Start::priority) for each such span since it might have run,
    /// which is since it was started, or was due if it was delayed: it
    /// goes before every run that was started later by as many spans as that is more urgent by steps, so nothing waits for
    /// ever behind what is more urgent. With keys, this is among the runs of one. Default: a run is as urgent as it was
    /// started.
    pub fn ageing(self, step: Duration) -> Self {
        let mut this = self.lasting("ageing", step);
        this.limits.ageing = Some(whole_micros(step));
        this
    }

    /// A run that began counts until it ends, also while it is parked or between two processes, and goes on before any
    /// other begins. So `per_key(1)` lets the runs of a key come one after the other. Default: a parked run makes room.
    pub fn hold(mut self) -> Self {
        self.limits.hold = true;
        self
    }

    fn lasting(mut self, what: &str, span: Duration) -> Self {
        if span < Duration::from_micros(1) {
            let why = format!("the `{what}` of queue `{}` is for no time at all: name a span", self.name);
            self.wrong.get_or_insert(why);
        }
        self
    }

    fn limit(mut self, what: &str, limit: u32, set: impl FnOnce(&mut QueueLimits)) -> Self {
        if limit == 0 {
            let name = &self.name;
            let why = format!(
                "queue `{name}` cannot have a `{what}` of zero: nothing would ever begin; to stop it for a while, pause it with \
                 `.queues().pause(\"{name}\")`"
            );
            self.wrong.get_or_insert(why);
        }
        set(&mut self.limits);
        self
    }

    async fn declare(self) -> Result<QueueChanged, Error> {
        if let Some(why) = self.wrong {
            return Err(Error::Invalid(why));
        }
        change(&self.client, self.name, QueueChange::Limits(self.limits)).await
    }
}

impl IntoFuture for QueueSetup {
    type Output = Result<QueueChanged, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.declare())
    }
}

impl Queues {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The queues that were declared, by name. Others have no limits, and are not listed.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn list(&self) -> Result<Vec<QueueStatus>, Error> {
        let rows = self.client.hub().store.queues(None).await?;
        let ended = self.ended().await?;
        Ok(rows.into_iter().map(|row| self.status(row, &ended)).collect())
    }

    /// One of them; `None` when it was never declared.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn get(&self, name: impl Into<Arc<str>>) -> Result<Option<QueueStatus>, Error> {
        let rows = self.client.hub().store.queues(Some(name.into())).await?;
        let Some(row) = rows.into_iter().next() else { return Ok(None) };
        Ok(Some(self.status(row, &self.ended().await?)))
    }

    /// Lets nothing of a queue begin, in any process, until it is resumed. What has begun goes on; what is parked stays so.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn pause(&self, name: impl Into<Arc<str>>) -> Result<QueueChanged, Error> {
        change(&self.client, name.into(), QueueChange::Paused(true)).await
    }

    /// Lets the runs of a paused queue begin again, at once.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn resume(&self, name: impl Into<Arc<str>>) -> Result<QueueChanged, Error> {
        change(&self.client, name.into(), QueueChange::Paused(false)).await
    }

    /// Takes back all that was said of a queue: it has no limits, is not paused, and is not listed until it is declared
    /// again.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn remove(&self, name: impl Into<Arc<str>>) -> Result<QueueChanged, Error> {
        change(&self.client, name.into(), QueueChange::Removed).await
    }

    /// What the nodes say that has ended of late, by queue.
    async fn ended(&self) -> Result<BTreeMap<String, u64>, Error> {
        let hub = self.client.hub();
        let (nodes, now) = (hub.store.nodes().await?, hub.clock.now());
        let mut ended = BTreeMap::new();
        for node in
            nodes.into_iter().filter(|node| !node.dead && now.since(node.heartbeat_at) <= node.stale_after)
        {
            for (queue, count) in node.ended {
                *ended.entry(queue).or_default() += u64::from(count);
            }
        }
        Ok(ended)
    }

    fn status(&self, row: QueueRow, ended: &BTreeMap<String, u64>) -> QueueStatus {
        let now = self.client.hub().clock.now();
        QueueStatus {
            oldest: row.oldest.map(|oldest| now.since(oldest)),
            ended_per_minute: ended.get(&*row.name).copied().unwrap_or(0),
            name: row.name,
            limits: row.limits,
            paused: row.paused,
            depth: row.depth,
            running: row.running,
        }
    }
}

/// The shortest span of whole microseconds that is as long, which is what a store keeps.
fn whole_micros(span: Duration) -> Duration {
    let micros = span.as_nanos().div_ceil(1000).min(i64::MAX.unsigned_abs().into());
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

async fn change(client: &Client, name: Arc<str>, change: QueueChange) -> Result<QueueChanged, Error> {
    if let Some(why) = wrong_queue(&name) {
        return Err(Error::Invalid(why));
    }
    let changed = client.hub().store.change_queue(name, change).await?;
    if let Some(node) = client.node() {
        node.claim.notify_one();
        node.guests.changed.notify_one();
    }
    Ok(changed)
}
