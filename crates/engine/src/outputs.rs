//! The results of a run's tasks, in memory.

use bytes::Bytes;
use windlass_core::{LaneId, Run, StepKind, TaskIx};

use crate::{Outcome, Slot};

/// The results of a run's tasks, as dependents get them and as the store keeps them.
#[derive(Debug)]
pub(crate) struct Outputs {
    tasks: Vec<Output>,
}

#[derive(Clone, Debug, Default)]
enum Output {
    #[default]
    None,
    One(Kept),
    Many {
        items: Vec<Option<Kept>>,
        gathered: Option<Slot>,
    },
}

#[derive(Clone, Debug)]
struct Kept {
    slot: Slot,
    kept: Bytes,
}

impl Outputs {
    pub(crate) fn new(tasks: usize) -> Self {
        Self { tasks: vec![Output::None; tasks] }
    }

    pub(crate) fn set(&mut self, lane: LaneId, slot: Slot, kept: Bytes) {
        let value = Kept { slot, kept };
        let output = &mut self.tasks[lane.task.get()];
        let Some(item) = lane.item else {
            *output = Output::One(value);
            return;
        };
        if !matches!(output, Output::Many { .. }) {
            *output = Output::Many { items: Vec::new(), gathered: None };
        }
        if let Output::Many { items, .. } = output {
            let at = item as usize;
            if items.len() <= at {
                items.resize(at + 1, None);
            }
            items[at] = Some(value);
        }
    }

    /// The result of one lane.
    pub(crate) fn slot(&self, lane: LaneId) -> Option<Slot> {
        match (&self.tasks[lane.task.get()], lane.item) {
            (Output::One(value), None) => Some(value.slot.clone()),
            (Output::Many { items, .. }, Some(item)) => {
                items.get(item as usize)?.as_ref().map(|value| value.slot.clone())
            }
            _ => None,
        }
    }

    /// What the store keeps for this lane.
    pub(crate) fn kept(&self, lane: LaneId) -> Option<Bytes> {
        match (&self.tasks[lane.task.get()], lane.item) {
            (Output::One(value), None) => Some(value.kept.clone()),
            (Output::Many { items, .. }, Some(item)) => {
                items.get(item as usize)?.as_ref().map(|value| value.kept.clone())
            }
            _ => None,
        }
    }

    /// The result of a completed task. That of a `for_each` is the array of its instances' results; where
    /// failures are allowed, of their outcomes.
    pub(crate) fn result(&mut self, task: TaskIx, run: &Run) -> Option<Slot> {
        let definition = run.plan().definition.task(task);
        if definition.for_each.is_none() {
            return match &self.tasks[task.get()] {
                Output::One(value) => Some(value.slot.clone()),
                _ => None,
            };
        }
        if let Output::Many { gathered: Some(slot), .. } = &self.tasks[task.get()] {
            return Some(slot.clone());
        }
        let slot = self.gather(task, run, definition.allow_failure)?;
        match &mut self.tasks[task.get()] {
            Output::Many { gathered, .. } => *gathered = Some(slot.clone()),
            other => *other = Output::Many { items: Vec::new(), gathered: Some(slot.clone()) },
        }
        Some(slot)
    }

    fn gather(&self, task: TaskIx, run: &Run, allow_failure: bool) -> Option<Slot> {
        let none = Vec::new();
        let items = match &self.tasks[task.get()] {
            Output::Many { items, .. } => items,
            _ => &none,
        };
        let mut json = Vec::from(*b"[");
        for at in 0..run.instances(task) {
            if at > 0 {
                json.push(b',');
            }
            let value = items.get(at).and_then(Option::as_ref).map(|value| value.slot.bytes());
            match allow_failure {
                false => json.extend_from_slice(value?),
                true => write_outcome(&mut json, run, task, at, value)?,
            }
        }
        json.push(b']');
        Some(Slot::from_bytes(json.into()))
    }
}

/// Writes one instance's outcome in the form that `Outcome` has in JSON.
fn write_outcome(
    json: &mut Vec<u8>,
    run: &Run,
    task: TaskIx,
    at: usize,
    value: Option<&Bytes>,
) -> Option<()> {
    let outcome: Outcome<&serde_json::value::RawValue> = match run.instance(task, at) {
        Some(StepKind::Completed) => Outcome::Completed(serde_json::from_slice(value?).ok()?),
        Some(StepKind::Failed) => Outcome::Failed(run.instance_failure(task, at)?.clone()),
        _ => Outcome::Cancelled,
    };
    serde_json::to_writer(json, &outcome).ok()
}
