//! The way to the store, shared by whoever uses it in this process.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{runtime::Handle, sync::Notify};
use tokio_util::sync::CancellationToken;
use windlass_core::RunId;
use windlass_store::{End, Store};

use crate::{
    Codec, Error, backroom::Backroom, clock::Clock, committer::Committer, drive::drive, feed::Feeds,
    identity::Identity, listener::News, scribe::Scribe, waiters::Waiters,
};

/// The largest payload that is kept unless the engine says otherwise.
pub(crate) const PAYLOAD_LIMIT: usize = 4 << 20;

/// The way to the store: the committer, the clock, and those who wait.
pub(crate) struct Hub {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) codec: Arc<dyn Codec>,
    pub(crate) payload_limit: usize,
    pub(crate) clock: Clock,
    pub(crate) identity: Arc<Identity>,
    pub(crate) committer: Committer,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) backroom: Backroom,
    pub(crate) scribe: Arc<Scribe>,
    /// The safety net: how often to look without a hint.
    pub(crate) poll: Duration,
    /// Set when nothing more may be asked.
    pub(crate) closed: CancellationToken,
    /// Woken by every change that this process hears of.
    pub(crate) changed: News,
    /// The runs that somebody watches.
    pub(crate) feeds: Feeds,
    /// Woken when this process may have changed runs that it was not asked about: nobody hints at one's own doings.
    pub(crate) stirred: Notify,
    /// How many runs that are waited for were looked for.
    looked_for: AtomicUsize,
}

impl Hub {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        codec: Arc<dyn Codec>,
        payload_limit: usize,
        poll: Duration,
        identity: Identity,
        backroom: Backroom,
    ) -> Arc<Self> {
        let identity = Arc::new(identity);
        let hub = Arc::new(Self {
            codec,
            payload_limit,
            clock: Clock::new(),
            committer: Committer::new(store.lanes(), Arc::clone(&identity), Handle::current()),
            identity,
            waiters: Arc::default(),
            backroom,
            scribe: Arc::default(),
            poll,
            closed: CancellationToken::new(),
            changed: News::default(),
            feeds: Feeds::default(),
            stirred: Notify::new(),
            looked_for: AtomicUsize::new(0),
            store,
        });
        for lane in 0..hub.committer.lanes() {
            let committer = Arc::clone(&hub);
            drive(hub.backroom.timers(), async move {
                let (store, closed) = (Arc::clone(&committer.store), committer.closed.clone());
                committer.committer.run(lane, store, closed, &committer.changed, &committer.feeds).await;
            });
        }
        if hub.committer.sets_aside() {
            let committer = Arc::clone(&hub);
            drive(hub.backroom.timers(), async move {
                let (store, closed) = (Arc::clone(&committer.store), committer.closed.clone());
                committer.committer.run_aside(store, closed, &committer.changed, &committer.feeds).await;
            });
        }
        hub
    }

    /// Begins to write down what is for people only.
    pub(crate) fn spawn_scribe(&self, gathers: bool) {
        let (store, closed) = (Arc::clone(&self.store), self.closed.clone());
        self.backroom.spawn(Arc::clone(&self.scribe).run(store, closed, gathers));
    }

    /// What the store keeps for this JSON.
    pub(crate) fn keep(&self, what: fmt::Arguments<'_>, json: Bytes) -> Result<Bytes, Error> {
        let (size, limit) = (json.len(), self.payload_limit);
        if size > limit {
            return Err(Error::PayloadTooLarge { what: what.to_string(), size, limit });
        }
        self.codec.encode(json).map_err(|why| Error::Encode { what: what.to_string(), why: why.to_string() })
    }

    /// The JSON that the store kept.
    pub(crate) fn read(&self, what: impl fmt::Display, kept: Bytes) -> Result<Bytes, Error> {
        self.codec.decode(kept).map_err(|why| Error::Decode { what: what.to_string(), why: why.to_string() })
    }

    /// Tells those who wait for the end of a run.
    pub(crate) fn ended(&self, run: RunId, end: impl FnOnce() -> End) {
        self.waiters.wake(run, end);
        self.feeds.ended(std::iter::once(run));
        self.changed.tell();
    }

    /// Has some of those who wait for runs see whether these are still there: a run that was discarded has no end any more.
    pub(crate) fn look_for_lost(&self) {
        let runs = self.waiters.runs();
        let first = self.looked_for.fetch_add(LOOKED_FOR, Ordering::Relaxed) % runs.len().max(1);
        for run in runs.iter().cycle().skip(first).take(LOOKED_FOR.min(runs.len())) {
            self.waiters.ask_again(*run);
        }
    }

    /// Asks the store for the ends of those among these runs that somebody waits for.
    pub(crate) async fn look_for_ends(&self, runs: Vec<RunId>) -> Result<(), Error> {
        // The store answers for a bounded number at a time.
        for portion in runs.chunks(500) {
            for (run, end) in self.store.ends(portion.to_vec()).await? {
                self.waiters.wake(run, || end);
            }
        }
        Ok(())
    }
}

/// How many of those that somebody waits for are looked for at a time.
const LOOKED_FOR: usize = 20;
