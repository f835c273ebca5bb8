//! What the model keeps, and how it is read.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use windlass_core::{ClaimId, NodeId, RunId, RunState, StepKind, Time};

use super::queue::Queue;
use crate::{
    Cell, DefinitionId, DefinitionRow, End, LogLine, NodeRow, Page, Place, Query, RunImage, RunSummary,
    StepRow, StoreError, Swapped, Versions, Wait,
};

/// Everything in the store.
#[derive(Default)]
pub(super) struct State {
    /// The time of the call that is being served.
    pub(super) now: Time,
    pub(super) nodes: BTreeMap<NodeId, NodeRow>,
    /// Nodes whose process is known to have ended.
    pub(super) gone: BTreeSet<NodeId>,
    pub(super) runs: BTreeMap<RunId, Kept>,
    /// The runs that have not ended: all that nodes, timers and claims look at.
    pub(super) open: BTreeSet<RunId>,
    pub(super) keys: HashMap<(Arc<str>, String), Key>,
    pub(super) cells: HashMap<Arc<str>, Cell>,
    pub(super) queues: BTreeMap<Arc<str>, Queue>,
    pub(super) tallies: BTreeMap<(Time, Arc<str>, RunState), i64>,
    pub(super) logs: HashMap<RunId, Vec<LogLine>>,
    pub(super) last_seq: i64,
    /// Whether somebody should be told.
    pub(super) changed: bool,
    definitions: Vec<DefinitionRow>,
}

/// A run with what is only the store's business.
pub(super) struct Kept {
    pub(super) image: RunImage,
    pub(super) recorded: BTreeSet<StepKey>,
    /// The claim that wrote the end it stands at.
    pub(super) ended_by: Option<ClaimId>,
    /// The keyed messages (topic and key) that are in the inbox or were taken in, with their numbers.
    pub(super) messages: BTreeMap<(String, String), i64>,
}

/// What tells one step record of a run from another.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StepKey {
    generation: u32,
    name: Arc<str>,
    attempt: u32,
    started_in: Option<u32>,
}

/// A key and the run that it stands for.
pub(super) struct Key {
    pub(super) run: RunId,
    pub(super) digest: [u8; 16],
    pub(super) lapses_at: Option<Time>,
}

impl StepKey {
    fn of(step: &StepRow) -> Self {
        Self {
            generation: step.generation,
            name: Arc::clone(&step.name),
            attempt: step.attempt,
            started_in: (step.kind == StepKind::Started).then_some(step.epoch),
        }
    }
}

impl Kept {
    pub(super) fn new(image: RunImage) -> Self {
        Self { image, recorded: BTreeSet::new(), ended_by: None, messages: BTreeMap::new() }
    }

    pub(super) fn record(&mut self, steps: &[StepRow]) {
        for step in steps {
            if self.recorded.insert(StepKey::of(step)) {
                self.image.steps.push(step.clone());
            }
        }
    }

    /// Forgets what was recorded, unless this step is there.
    pub(super) fn forget(&mut self, unless: &StepRow) {
        if !self.recorded.contains(&StepKey::of(unless)) {
            self.recorded.clear();
            self.image.steps.clear();
            self.image.saved.clear();
        }
    }

    pub(super) fn holder(&self) -> Option<(NodeId, ClaimId)> {
        match self.image.standing.place {
            Place::Owned { node, claim } => Some((node, claim)),
            _ => None,
        }
    }

    pub(super) fn wait(&self) -> Option<&Wait> {
        match &self.image.standing.place {
            Place::Waiting(wait) => Some(wait),
            _ => None,
        }
    }

    pub(super) fn end(&self) -> Option<&End> {
        match &self.image.standing.place {
            Place::Ended(end) => Some(end),
            _ => None,
        }
    }

    fn summary(&self) -> RunSummary {
        let run = &self.image.run;
        RunSummary {
            id: run.id,
            workflow: Arc::clone(&run.workflow),
            queue: Arc::clone(&run.queue),
            priority: run.priority,
            key: run.key.clone(),
            tags: run.tags.clone(),
            created_at: run.created_at,
            standing: self.image.standing.clone(),
        }
    }

    pub(super) fn fits(&self, query: &Query) -> bool {
        let run = &self.image.run;
        query.workflow.as_ref().is_none_or(|workflow| *workflow == run.workflow)
            && query.without.as_ref().is_none_or(|beginning| !run.workflow.starts_with(&**beginning))
            && (query.states.is_empty() || query.states.contains(&self.image.standing.state()))
            && query.queue.as_ref().is_none_or(|queue| *queue == run.queue)
            && query.tag.as_ref().is_none_or(|tag| run.tags.contains(tag))
            && query.key.as_ref().is_none_or(|key| run.key.as_ref() == Some(key))
            && query.since.is_none_or(|since| run.created_at >= since)
            && query.until.is_none_or(|until| run.created_at < until)
            && query.after.is_none_or(|after| run.id < after)
    }
}

impl State {
    pub(super) fn turn_clock(&mut self, to: Time) {
        self.now = self.now.max(to);
    }

    /// The open runs for which `wanted` holds.
    pub(super) fn open_where(&self, wanted: impl Fn(&Kept) -> bool) -> Vec<RunId> {
        self.open.iter().copied().filter(|run| wanted(&self.runs[run])).collect()
    }

    pub(super) fn make_ready(&mut self, run: RunId) {
        self.vacate(run);
        self.kept(run).image.standing.place = Place::Ready;
        self.changed = true;
    }

    /// A run that is known to be there.
    pub(super) fn kept(&mut self, run: RunId) -> &mut Kept {
        self.runs.get_mut(&run).expect("whoever asks has found it")
    }

    pub(super) fn live_key(&self, workflow: &Arc<str>, key: &str) -> Option<&Key> {
        let key = self.keys.get(&(Arc::clone(workflow), key.to_owned()))?;
        key.lapses_at.is_none_or(|at| self.now < at).then_some(key)
    }

    pub(super) fn define(&mut self, definition: DefinitionRow) -> DefinitionId {
        let known = self
            .definitions
            .iter()
            .position(|known| known.workflow == definition.workflow && known.version == definition.version);
        let index = known.unwrap_or_else(|| {
            self.definitions.push(definition);
            self.definitions.len() - 1
        });
        DefinitionId(i64::try_from(index).expect("memory is finite") + 1)
    }

    pub(super) fn definition(&self, id: DefinitionId) -> Option<DefinitionRow> {
        let index = usize::try_from(id.0.checked_sub(1)?).ok()?;
        self.definitions.get(index).cloned()
    }

    pub(super) fn versions(&self, which: &Versions) -> Vec<(DefinitionId, DefinitionRow)> {
        let mut found: Vec<_> = (1..).map(DefinitionId).zip(self.definitions.iter().cloned()).collect();
        found.reverse();
        match which {
            Versions::Newest => {
                found.sort_by(|(_, a), (_, b)| a.workflow.cmp(&b.workflow));
                found.dedup_by(|(_, older), (_, newer)| older.workflow == newer.workflow);
            }
            Versions::Of { workflow, limit } => {
                found.retain(|(_, row)| row.workflow == *workflow);
                found.truncate(*limit);
            }
        }
        found
    }

    pub(super) fn swap_cell(
        &mut self,
        node: Option<NodeId>,
        name: Arc<str>,
        version: u64,
        body: Bytes,
    ) -> Result<Swapped, StoreError> {
        if let Some(node) = node {
            self.fence(node)?;
        }
        let now = self.cells.get(&name).cloned();
        if now.as_ref().map_or(0, |cell| cell.version) != version {
            return Ok(Swapped::Changed { at: self.now, now });
        }
        self.cells.insert(name, Cell { version: version + 1, body });
        Ok(Swapped::Done { at: self.now })
    }

    pub(super) fn ends(&self, runs: Vec<RunId>) -> Vec<(RunId, End)> {
        let asked: BTreeSet<_> = runs.into_iter().collect();
        asked.into_iter().filter_map(|run| Some((run, self.runs.get(&run)?.end()?.clone()))).collect()
    }

    pub(super) fn find(&self, query: &Query) -> Page {
        let mut page = Page { runs: Vec::new(), more: false, next: None };
        let mut last = query.after;
        let earlier = self.runs.range(..query.after.unwrap_or(RunId::LAST)).rev();
        for (looked, (run, kept)) in earlier.enumerate() {
            let fits = kept.fits(query);
            if looked >= query.look || fits && page.runs.len() == query.limit {
                return Page { more: true, next: last, ..page };
            }
            page.runs.extend(fits.then(|| kept.summary()));
            last = Some(*run);
        }
        page
    }
}
