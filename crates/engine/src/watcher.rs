//! Hearing of what others do to the store.

use std::{future::pending, sync::Arc};

use tokio::{
    sync::broadcast::error::{RecvError, TryRecvError},
    time::{Instant, sleep_until},
};
use windlass_store::{Hint, News};

use crate::{Error, hub::Hub, node::Node, receivers::Whose};

/// Turns hints from the store into wake-ups: for those who wait for a run, for the runs that this node
/// holds, and for the claimer. It looks for what a hint names and for nothing else; where that says only that something
/// changed, for everything.
///
/// Woken by the store's hints, by what this process has put into the inboxes of its own runs, by starts that have changed
/// other runs, and by the safety-net poll. The claimer and the outpost have polls of their own.
pub(crate) struct Watcher {
    hub: Arc<Hub>,
    node: Option<Arc<Node>>,
}

/// What was heard since the last look.
#[derive(Default)]
struct Heard {
    news: News,
    /// Whether it may be anything.
    anything: bool,
}

impl Heard {
    fn add(&mut self, hint: &Hint) {
        match hint {
            Hint::Changed => self.anything = true,
            Hint::News(news) => self.news.add(news),
            // Dead nodes are the heart's business.
            Hint::Gone(_) => {}
        }
    }
}

impl Watcher {
    pub(crate) fn new(hub: Arc<Hub>, node: Option<Arc<Node>>) -> Self {
        Self { hub, node }
    }

    pub(crate) async fn run(self) {
        let hub = Arc::clone(&self.hub);
        let mut hints = hub.store.hints();
        let mut next_poll = Instant::now() + hub.poll;
        // Whether a look failed, so that the next one has to make up for it.
        let mut is_owed = false;
        loop {
            let (mut heard, mut is_poll) = (Heard::default(), false);
            tokio::select! {
                hint = hints.recv() => match hint {
                    Ok(hint) => heard.add(&hint),
                    Err(RecvError::Lagged(_)) => heard.anything = true,
                    Err(RecvError::Closed) => return,
                },
                () = hub.stirred.notified() => heard.anything = true,
                whose = self.mail() => {
                    self.deliver(whose).await;
                    continue;
                }
                () = sleep_until(next_poll) => is_poll = true,
                () = hub.closed.cancelled() => return,
            }
            // One look serves all hints that have come meanwhile.
            loop {
                match hints.try_recv() {
                    Ok(hint) => heard.add(&hint),
                    Err(TryRecvError::Lagged(_)) => heard.anything = true,
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            self.call(&heard);
            let is_told = heard.anything || !heard.news.is_empty();
            heard.anything |= is_poll || is_owed;
            if heard.anything {
                next_poll = Instant::now() + hub.poll;
            }
            if is_told {
                hub.changed.hear();
            } else {
                hub.changed.call();
            }
            is_owed = self
                .look(heard)
                .await
                .inspect_err(|error| {
                    tracing::debug!(%error, "looking for ended runs failed; the next look makes up for it");
                })
                .is_err();
            if is_poll {
                hub.look_for_lost();
            }
        }
    }

    /// Has others look who take things from the store.
    fn call(&self, heard: &Heard) {
        let Some(node) = &self.node else { return };
        let Heard { news, anything } = heard;
        if news.runs || *anything {
            node.look.notify_one();
        }
        if news.tasks || *anything || node.guests.are_of_any(&news.ended) {
            node.guests.changed.notify_one();
        }
        if news.runs || news.tasks || !news.ended.is_empty() {
            // Whatever ended or was given up may have had a slot of a queue, which runs and attempts share.
            node.slot_is_free();
        }
    }

    /// Looks for what was heard of.
    async fn look(&self, Heard { news, anything }: Heard) -> Result<(), Error> {
        self.hub.feeds.ended(news.ended.iter().copied());
        let waiters = &self.hub.waiters;
        let runs = if anything { waiters.runs() } else { waiters.awaited(&news.ended) };
        let looked = self.hub.look_for_ends(runs).await;
        self.deliver(if anything { Whose::Anyones } else { Whose::Of(news.mail) }).await;
        looked
    }

    /// Whose inboxes this process has put something into, as soon as there are any.
    async fn mail(&self) -> Whose {
        match &self.node {
            Some(node) => node.mail.take().await,
            None => pending().await,
        }
    }

    async fn deliver(&self, whose: Whose) {
        if let Some(node) = &self.node {
            node.look_into_inboxes(whose).await;
        }
    }
}
