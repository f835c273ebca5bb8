//! Reading the records of runs that somebody watches.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until},
};
use windlass_core::RunId;
use windlass_store::{Place, RunImage, StoreError};

use crate::{boxed::boxed, by_run::ByRun, hub::Hub};

/// How often a run's records are read, at most. Its end is not waited for so long.
const OFTEN: Duration = Duration::from_secs(1);

/// How often the records of any run are read, at most, because others have changed something and do not say what.
const ABROAD: Duration = Duration::from_millis(50);

/// What was read last of a run that somebody watches.
#[derive(Clone)]
pub(crate) enum Sight {
    /// It is on its way.
    Nothing,
    /// Its records.
    Image(Arc<RunImage>),
    /// There is no such run.
    Gone,
    /// The store cannot be asked any more.
    Failed(StoreError),
}

/// The runs that somebody in this process watches. However many watch a run, one task reads its records: when this process
/// has written some, when it hears that others have changed something, and now and then.
#[derive(Default)]
pub(crate) struct Feeds {
    by_run: Mutex<ByRun<Feed>>,
    /// How many there are, so that commits need not ask.
    count: AtomicUsize,
}

#[derive(Clone)]
struct Feed {
    sights: watch::Sender<Sight>,
    bell: Arc<Bell>,
}

/// What there is news of.
#[derive(Default)]
struct Bell {
    touched: Notify,
    ended: Notify,
}

impl Feeds {
    /// Whether nobody watches.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Something was written of these runs.
    pub(crate) fn touch(&self, runs: impl Iterator<Item = RunId>) {
        self.ring(runs, |bell| bell.touched.notify_one());
    }

    /// These runs have ended.
    pub(crate) fn ended(&self, runs: impl Iterator<Item = RunId>) {
        self.ring(runs, |bell| bell.ended.notify_one());
    }

    fn ring(&self, mut runs: impl Iterator<Item = RunId>, ring: impl Fn(&Bell)) {
        if self.is_empty() {
            return;
        }
        let by_run = self.by_run.lock();
        runs.by_ref().filter_map(|run| by_run.get(&run)).for_each(|feed| ring(&feed.bell));
    }

    /// How long to wait after a look that somebody else's doings were the reason of: so many are never looked at together
    /// that the store would notice.
    fn pause_abroad(&self) -> Duration {
        OFTEN.max(ABROAD * u32::try_from(self.count.load(Ordering::Relaxed)).unwrap_or(u32::MAX))
    }
}

impl Hub {
    /// What is seen of a run, from what was read last on, if somebody watches it already.
    pub(crate) fn sights(self: &Arc<Self>, run: RunId) -> watch::Receiver<Sight> {
        let mut by_run = self.feeds.by_run.lock();
        if let Some(feed) = by_run.get(&run) {
            return feed.sights.subscribe();
        }
        let (sights, first) = watch::channel(Sight::Nothing);
        let feed = Feed { sights, bell: Arc::default() };
        by_run.insert(run, feed.clone());
        self.feeds.count.store(by_run.len(), Ordering::Relaxed);
        let hub = Arc::clone(self);
        tokio::spawn(boxed(async move { hub.feed(run, feed).await }));
        first
    }

    /// Has the records of a run that is watched read again.
    pub(crate) fn look_again(&self, run: RunId) {
        self.feeds.touch(std::iter::once(run));
    }

    /// Reads a run's records whenever there may be news, until it has ended or nobody watches it.
    async fn feed(&self, run: RunId, feed: Feed) {
        let Feed { sights, bell } = feed;
        loop {
            let abroad = self.changed.abroad();
            tokio::pin!(abroad);
            abroad.as_mut().enable();
            match self.store.load(run).await {
                Ok(Some(image)) => {
                    let has_ended = matches!(image.standing.place, Place::Ended(_));
                    let seen = Sight::Image(Arc::new(image));
                    if has_ended {
                        return self.last(run, &sights, seen);
                    }
                    sights.send_replace(seen);
                }
                Ok(None) => return self.last(run, &sights, Sight::Gone),
                Err(error) if error.is_temporary() => {
                    tracing::debug!(%error, "watching a run failed for now");
                }
                Err(error) => return self.last(run, &sights, Sight::Failed(error)),
            }
            let looked = Instant::now();
            let pause = tokio::select! {
                () = bell.ended.notified() => continue,
                () = bell.touched.notified() => OFTEN,
                () = abroad => self.feeds.pause_abroad(),
                () = sleep(self.poll) => continue,
                () = sights.closed() => match self.retire(run) {
                    true => return,
                    false => continue,
                },
                () = self.closed.cancelled() => return,
            };
            tokio::select! {
                () = bell.ended.notified() => {}
                () = sleep_until(looked + pause) => {}
                () = self.closed.cancelled() => return,
            }
        }
    }

    /// Shows what there is to see at last. Whoever comes later begins anew: the run may be opened again.
    fn last(&self, run: RunId, sights: &watch::Sender<Sight>, seen: Sight) {
        self.forget(&mut self.feeds.by_run.lock(), run);
        sights.send_replace(seen);
    }

    /// Stops reading unless somebody has come meanwhile.
    fn retire(&self, run: RunId) -> bool {
        let mut by_run = self.feeds.by_run.lock();
        let is_over = by_run.get(&run).is_none_or(|feed| feed.sights.receiver_count() == 0);
        if is_over {
            self.forget(&mut by_run, run);
        }
        is_over
    }

    fn forget(&self, by_run: &mut ByRun<Feed>, run: RunId) {
        by_run.remove(&run);
        self.feeds.count.store(by_run.len(), Ordering::Relaxed);
    }
}
