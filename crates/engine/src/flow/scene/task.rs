//! What a task of a graph waits for, over all its attempts.

use std::{collections::BTreeMap, sync::Arc, task::Waker};

use windlass_core::{CallKind, Detail, Journal, Kept, LaneId, RunId, StepKind, Time};
use windlass_store::StepRow;

use super::{super::waker, Scene, State, Then};
use crate::{Error, Slot, run_loop::RunCell};

impl Scene {
    /// A task whose waits left these records, in order.
    pub(crate) fn of_task(
        cell: &Arc<RunCell>,
        lane: LaneId,
        name: Arc<str>,
        records: &[StepRow],
        saved: &BTreeMap<Arc<str>, Slot>,
    ) -> Result<Self, Error> {
        let mut scene = Self::new(cell, lane, name, Time(0), records, saved)?;
        scene.is_task = true;
        let state = scene.state.get_mut();
        (state.rehearses, state.keeps) = (false, true);
        state.start_over(cell.subject.run);
        Ok(scene)
    }

    /// Whether this is a task of a graph.
    pub(crate) const fn is_task(&self) -> bool {
        self.is_task
    }

    /// The next attempt of the task begins: what was recorded before is there if it asks for it.
    pub(crate) fn start_over(&self) {
        self.state.lock().start_over(self.cell.subject.run);
    }

    /// The attempt is asked to stop, and its waits end.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        let waiting = state.waiting();
        drop(state);
        waker::ours(|| waiting.into_iter().for_each(Waker::wake));
        self.nudge();
    }

    /// Records when a wait ends: it is not to be longer after a restart.
    pub(in crate::flow) fn promise(self: &Arc<Self>, id: &Arc<str>, kind: CallKind, due: Time) {
        let (now, detail) = (self.now(), Detail { call: kind, retry_at: Some(due), ..Detail::default() });
        match self.cell.encode(&detail) {
            Ok(detail) => {
                let row = self.row(id, 1, StepKind::Started, now, now, None, detail);
                self.record(row, Vec::new(), Then::Promised(Arc::clone(id), due));
            }
            Err(why) => self.cell.break_off(why),
        }
    }

    /// Children that have not ended as far as it knows, but for those that are to be left alone.
    pub(crate) fn unended_children(&self) -> Vec<RunId> {
        let state = self.state.lock();
        let unended = state.begun.iter().filter(|(id, is_left)| !**is_left && !state.journal.has(id));
        let generation = self.cell.subject.generation;
        // Several tasks of one run may start children of the same name.
        let name = |id: &Arc<str>| if self.is_task { self.record_name(id) } else { Arc::clone(id) };
        unended.map(|(id, _)| state.journal.child(&name(id), generation)).collect()
    }
}

impl State {
    fn start_over(&mut self, run: RunId) {
        let kept: Vec<Kept> = self.journal.kept().to_vec();
        self.journal = Journal::loose(run, kept);
        self.open.clear();
        self.waits.clear();
        self.numbers.clear();
        self.children.clear();
        (self.rests, self.topics) = (None, Vec::new());
    }

    /// Sets when a wait of a task ends: when it was to end before, or else at this time, once that is recorded.
    pub(super) fn promise(&mut self, number: u64, due: Time) {
        let Some(call) = self.open.get_mut(&number) else { return };
        let kept = self.dues.get(&call.id).copied();
        call.is_unkept = kept.is_none();
        self.wait_until(number, kept.unwrap_or(due));
    }
}
