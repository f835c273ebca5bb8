//! What a handle knows of the runs that its nodes hold.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use windlass_core::{ClaimId, NodeId, RunId};

use crate::tenure::Tenure;

/// A busy server takes so long for anything, so that no heartbeat is given up earlier.
const BRIEFEST: Duration = Duration::from_secs(1);

/// A run as it is held. The same run may be held again before it is known here that it was given up: answers overtake
/// each other.
type Holding = (RunId, ClaimId);

/// What does not change while a run is held.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) workflow: Arc<str>,
    pub(crate) generation: u32,
    /// Who hears of its end.
    pub(crate) parent: Option<RunId>,
    pub(crate) tenure: Tenure,
    /// Whether it has published and saved nothing. Nobody does that for it but its holder, and who executes what that has
    /// published.
    pub(crate) is_bare: bool,
}

#[derive(Debug)]
struct Entry {
    node: NodeId,
    /// The row of `holding` that it came with.
    row: i64,
    /// `None` once the run may have been given up.
    facts: Option<Facts>,
}

/// Which runs the nodes hold that joined through this handle, and with which row of `holding` each of them came.
///
/// While its node lives, a run is given up by that node alone. So what is in here needs no second look within a
/// transaction that is fenced: it came with an answer of the server, and it is doubted from the moment on in which
/// anything that gives it up is sent.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// With the length of their leases.
    nodes: HashMap<NodeId, Duration>,
    runs: HashMap<Holding, Entry>,
    left: HashMap<i64, usize>,
    empty: Vec<i64>,
    /// What may give runs to nodes and was not answered yet, by number.
    under_way: BTreeSet<u64>,
    next: u64,
    /// Runs that a node seems to hold without having been told, and the number that was next when that was first seen.
    suspects: HashMap<Holding, u64>,
    /// When a unit last had to wait for a stranger's transaction for too long.
    stranger: Option<Instant>,
}

/// For how long it is likely that a stranger is met again.
const LATELY: Duration = Duration::from_secs(10);

/// Something that may give runs to a node, until it is answered or given up.
pub(crate) struct UnderWay<'h> {
    held: &'h Mutex<Held>,
    no: u64,
}

impl<'h> UnderWay<'h> {
    pub(crate) fn begin(held: &'h Mutex<Held>) -> Self {
        let mut all = held.lock();
        let no = all.next;
        all.next += 1;
        all.under_way.insert(no);
        Self { held, no }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.held.lock().under_way.remove(&self.no);
    }
}

impl Held {
    /// Notes that a unit had to wait for a stranger's transaction for too long.
    pub(crate) fn meets_a_stranger(&mut self) {
        self.stranger = Some(Instant::now());
    }

    /// Whether that was lately.
    pub(crate) fn has_met_a_stranger(&self) -> bool {
        self.stranger.is_some_and(|met| met.elapsed() < LATELY)
    }

    /// Notes a node that acts through this handle.
    pub(crate) fn joined(&mut self, node: NodeId, lease: Duration) {
        self.nodes.insert(node, lease);
    }

    /// How long a heartbeat of a node may take: what is left of the lease then is enough for more of them.
    pub(crate) fn patience(&self, node: NodeId) -> Option<Duration> {
        self.nodes.get(&node).map(|lease| (*lease / 4).max(BRIEFEST))
    }

    /// Forgets a node that is gone, with all that it held: whoever takes that over tidies up after it.
    pub(crate) fn gone(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        let Self { runs, left, .. } = self;
        runs.retain(|_, entry| {
            let stays = entry.node != node;
            if !stays {
                left.remove(&entry.row);
            }
            stays
        });
    }

    /// Notes a run that came with a row.
    pub(crate) fn add(&mut self, run: Holding, row: i64, node: NodeId, facts: Facts) {
        let facts = self.nodes.contains_key(&node).then_some(facts);
        *self.left.entry(row).or_default() += 1;
        if let Some(before) = self.runs.insert(run, Entry { node, row, facts }) {
            self.lose(before.row);
        }
    }

    /// What is known of a run, if this node holds it beyond doubt.
    pub(crate) fn known(&self, run: Holding, node: Option<NodeId>) -> Option<Facts> {
        self.runs.get(&run).filter(|entry| Some(entry.node) == node)?.facts.clone()
    }

    /// Notes that a run is about to be given up.
    pub(crate) fn doubt(&mut self, run: Holding) {
        if let Some(entry) = self.runs.get_mut(&run) {
            entry.facts = None;
        }
    }

    /// Notes that a run is about to publish or save something.
    pub(crate) fn leaves_something(&mut self, run: Holding) {
        if let Some(facts) = self.runs.get_mut(&run).and_then(|entry| entry.facts.as_mut()) {
            facts.is_bare = false;
        }
    }

    /// Notes that a run has gone.
    pub(crate) fn remove(&mut self, run: Holding) {
        if let Some(entry) = self.runs.remove(&run) {
            self.lose(entry.row);
        }
    }

    /// Of the runs that the tables say a node holds, those that nobody was told of and nobody will be: they were so
    /// before, and whatever was under way then is over.
    pub(crate) fn strangers(&mut self, node: NodeId, holds: Vec<Holding>) -> Vec<Holding> {
        if !self.nodes.contains_key(&node) {
            return Vec::new();
        }
        let unknown = holds.into_iter().filter(|run| !self.runs.contains_key(run));
        let suspects: HashMap<Holding, u64> =
            unknown.map(|run| (run, self.suspects.get(&run).copied().unwrap_or(self.next))).collect();
        let seen = std::mem::replace(&mut self.suspects, suspects);
        let is_over = |first: u64| self.under_way.first().is_none_or(|oldest| *oldest >= first);
        let sure = self.suspects.iter().filter(|(run, first)| seen.contains_key(run) && is_over(**first));
        sure.map(|(run, _)| *run).collect()
    }

    /// The rows of which nothing is left.
    pub(crate) fn take_empty(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.empty)
    }

    /// Takes back rows that could not be removed.
    pub(crate) fn give_back(&mut self, rows: Vec<i64>) {
        self.empty.extend(rows);
    }

    fn lose(&mut self, row: i64) {
        if let Some(left) = self.left.get_mut(&row) {
            *left -= 1;
            if *left == 0 {
                self.left.remove(&row);
                self.empty.push(row);
            }
        }
    }
}
