//! Discarding what has been kept long enough.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use windlass_core::{NodeId, RunId, Time};
use windlass_store::{Aged, AgedRun, Keyed, StoreError};

use crate::{
    Error,
    discard::{Outcome, discard, finish},
    node::Node,
};

/// How many ended runs are looked at in one go.
const PORTION: usize = 200;
/// How long it waits between two portions, so that looking through millions is in nobody's way.
const BETWEEN: Duration = Duration::from_millis(5);
/// How long it waits between two rounds, at least and at most.
const PAUSE: Duration = Duration::from_secs(60);
const LONG_PAUSE: Duration = Duration::from_secs(3600);
/// How soon after its launch an engine begins: those that live shortly do their part too.
const SOON: Duration = Duration::from_secs(5);
/// In one of so many rounds, the second first, it is looked whether something is left of a run whose discarding was cut off:
/// that is rare, in nobody's sight, and goes with whatever else is discarded.
const REMAINS: u32 = 10;
/// By how much the clocks of those who make ids may differ from the database's.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Discards ended runs whose time is over, the oldest of each workflow first.
///
/// Woken by the clock alone, once a minute or less often. Of all nodes the one that has been there longest does it: two
/// would do no harm, but the same work twice.
pub(crate) struct Janitor {
    node: Arc<Node>,
    portion: usize,
    rounds: u32,
}

impl Janitor {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node, portion: PORTION, rounds: 0 }
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
        self.rounds += 1;
        if self.rounds % REMAINS == 2
            && let Some(acting) = self.senior().await?
        {
            finish(&self.node.hub, acting).await?;
        }
        let Some(horizon) = self.node.options.retention.horizon(now) else { return Ok(0) };
        let Some(before) = self.earlier_than(horizon, now) else { return Ok(0) };
        let (mut after, mut gone): (Option<(Arc<str>, RunId)>, usize) = (None, 0);
        while let Some(acting) = self.senior().await? {
            let limit = self.portion;
            let aged = self.node.hub.store.aged(Aged { after: after.clone(), before, limit }).await?;
            let Some(last) = aged.last().map(|last| (Arc::clone(&last.workflow), last.run)) else { break };
            let is_last = aged.len() < limit;
            match self.discard(aged, acting, now).await {
                Ok(portion) => {
                    gone += portion;
                    after = Some(last);
                    self.portion = (limit * 2).min(PORTION);
                }
                Err(error) if limit > 1 => {
                    // Some of them may take too long together, or one of them may not go at all.
                    tracing::debug!(%error, runs = limit, "a portion of old runs could not be discarded");
                    self.portion = limit / 2;
                    continue;
                }
                Err(error) => {
                    tracing::warn!(run = %last.1, %error, "an old run could not be discarded; it is tried again");
                    after = Some(last);
                }
            }
            if is_last {
                break;
            }
            sleep(BETWEEN).await;
        }
        Ok(gone)
    }

    async fn discard(&self, aged: Vec<AgedRun>, acting: NodeId, now: Time) -> Result<usize, Error> {
        let retention = &self.node.options.retention;
        let over = aged.iter().filter(|run| retention.is_over(run.state, run.at, now));
        let over: Vec<_> = over.map(|aged| (aged.run, aged.generation)).collect();
        let outcomes = discard(&self.node.hub, Some(&self.node), Some(acting), over, Keyed::Stays).await?;
        for (run, _) in outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Gone) {
            if let Some(gone) = aged.iter().find(|aged| aged.run == *run) {
                self.node.hub.scribe.count(&gone.workflow, gone.state, now, -1);
            }
        }
        Ok(outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Gone).count())
    }

    /// This node, if no other living one has been there longer.
    async fn senior(&self) -> Result<Option<NodeId>, StoreError> {
        let Some(id) = self.node.id() else { return Ok(None) };
        let nodes = self.node.hub.store.nodes().await?;
        Ok(nodes.iter().filter(|node| !node.dead).all(|node| node.id >= id).then_some(id))
    }

    /// Whatever began before the horizon has an id that sorts before this one, so that what is too young need not be
    /// looked at. Ids carry the time of the clock that made them: one that was fast has its runs kept for that much longer.
    /// A clock that is far from the database's is not trusted with anything: one of the two is wrong.
    fn earlier_than(&self, horizon: Time, now: Time) -> Option<RunId> {
        if self.node.options.virtual_time {
            return Some(RunId::LAST);
        }
        let made = RunId::new().made_at();
        if made.since(now).max(now.since(made)) > DAY {
            tracing::error!(
                here = %made, database = %now,
                "the clocks of this machine and of the database are more than a day apart; nothing is discarded"
            );
            return None;
        }
        Some(RunId::least(horizon))
    }
}
