//! Discarding what has been kept long enough.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use windlass_core::{RunId, Time};
use windlass_store::{Aged, AgedRun};

use crate::{
    Error,
    discard::{Outcome, discard},
    node::Node,
};

/// How many ended runs are looked at in one go.
const PORTION: usize = 200;
/// How long one transaction may take before the next portion is smaller: others wait for it.
const BRIEF: Duration = Duration::from_millis(10);
/// Of the time that it works, so many times as much it rests, so that it is never in the way.
const REST: u32 = 4;
/// How long it waits between two rounds, at least and at most.
const PAUSE: Duration = Duration::from_secs(60);
/// How soon after its launch an engine begins: those that live shortly do their part too.
const SOON: Duration = Duration::from_secs(5);
const LONG_PAUSE: Duration = Duration::from_secs(3600);
/// By how much the clocks of those who make ids may differ from the database's and still be of use.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Discards ended runs whose time is over, the oldest of each workflow first.
///
/// Woken by the clock alone, once a minute or less often. Of all nodes the one that has been there longest does it: two
/// would do no harm, but the same work twice.
pub(crate) struct Janitor {
    node: Arc<Node>,
    portion: usize,
}

impl Janitor {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node, portion: PORTION }
    }

    pub(crate) async fn run(mut self) {
        let node = Arc::clone(&self.node);
        let mut pause = SOON;
        loop {
            tokio::select! {
                () = sleep(pause) => {}
                () = node.stopping.cancelled() => return,
                () = node.hub.closed.cancelled() => return,
            }
            let began = Instant::now();
            tokio::select! {
                done = self.round() => match done {
                    Ok(0) => {}
                    Ok(gone) => tracing::info!(runs = gone, "old runs were discarded"),
                    Err(error) => tracing::warn!(%error, "old runs could not be discarded; it is tried again"),
                },
                () = node.stopping.cancelled() => return,
                () = node.hub.closed.cancelled() => return,
            }
            // What is looked at and kept is looked at again: the more there is of it, the less often.
            pause = (began.elapsed() * 10).clamp(PAUSE, LONG_PAUSE);
        }
    }

    /// Discards all whose time is over. Answers how many went.
    async fn round(&mut self) -> Result<usize, Error> {
        let now = self.node.hub.clock.now();
        let Some(horizon) = self.node.options.retention.horizon(now) else { return Ok(0) };
        if !self.is_senior().await? {
            return Ok(0);
        }
        let (before, mut after, mut gone) = (earlier_than(horizon, now), None, 0);
        loop {
            let began = Instant::now();
            let limit = self.portion;
            let request = Aged { after: after.take(), before, limit };
            let aged = self.node.hub.store.aged(request).await?;
            let looked = began.elapsed();
            let Some(last) = aged.last() else { return Ok(gone) };
            after = Some((Arc::clone(&last.workflow), last.run));
            let is_last = aged.len() < limit;
            gone += self.discard(aged, now).await?;
            if is_last {
                return Ok(gone);
            }
            let took = began.elapsed();
            self.portion = if took - looked > BRIEF { (limit / 2).max(10) } else { (limit * 2).min(PORTION) };
            sleep(took * REST).await;
        }
    }

    async fn discard(&self, aged: Vec<AgedRun>, now: Time) -> Result<usize, Error> {
        let retention = &self.node.options.retention;
        let over = aged.iter().filter(|run| retention.is_over(run.state, run.at, now));
        let over: Vec<_> = over.map(|aged| (aged.run, aged.generation)).collect();
        if over.is_empty() {
            return Ok(0);
        }
        let outcomes = discard(&self.node.hub, Some(&self.node), over).await?;
        Ok(outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Gone).count())
    }

    /// Whether no other living node has been there longer.
    async fn is_senior(&self) -> Result<bool, Error> {
        let Some(id) = self.node.id() else { return Ok(false) };
        let nodes = self.node.hub.store.nodes().await?;
        Ok(nodes.iter().filter(|node| !node.dead).all(|node| node.id >= id))
    }
}

/// Whatever began before the horizon has an id that sorts before this one, so that what is too young need not be looked
/// at. Ids carry the time of the clock that made them: one that was fast has its runs kept for that much longer, and one
/// that is not the database's at all, as in tests with a time of their own, says nothing.
fn earlier_than(horizon: Time, now: Time) -> RunId {
    let made = RunId::new().made_at();
    let apart = made.since(now).max(now.since(made));
    if apart > DAY { RunId::LAST } else { RunId::least(horizon) }
}
