//! What became of the tasks of runs that were.

use std::{collections::HashMap, sync::Arc, time::Duration};

use windlass_core::{StepKind, TaskState, Time, UNDO, VERDICT, VERSION};
use windlass_store::StepRow;

/// What became of a task in a run: for a `for_each`, of all its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPast {
    /// The name of the task, or of what a durable function called.
    pub task: Arc<str>,
    /// How it stands, by its last records.
    pub state: TaskState,
    /// How many attempts it needed; of the elements of a `for_each`, the one that needed most.
    pub attempts: u32,
    /// When its first attempt began.
    pub started_at: Time,
    /// When its last attempt ended.
    pub ended_at: Time,
}

impl TaskPast {
    /// From its first attempt to the end of its last.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.ended_at.since(self.started_at)
    }
}

/// What became of each task, in the order of their first records.
pub(crate) fn of_steps(steps: &[StepRow]) -> Vec<TaskPast> {
    // First by task and element, or by call: each of these has attempts of its own.
    let (mut lanes, mut places): (Vec<TaskPast>, HashMap<&str, usize>) = Default::default();
    for row in steps.iter().filter(|row| row.kind != StepKind::Started) {
        let Some(name) = lane(&row.name) else { continue };
        let place = *places.entry(name).or_insert_with(|| {
            let task = name.split_once(['[', '#']).map_or(name, |(task, _)| task).into();
            let (state, started_at, ended_at) = (TaskState::Pending, row.started_at, row.ended_at);
            lanes.push(TaskPast { task, state, attempts: 0, started_at, ended_at });
            lanes.len() - 1
        });
        let lane = &mut lanes[place];
        lane.state = state(row.kind);
        lane.attempts += u32::from(row.attempt > 0);
        lane.ended_at = lane.ended_at.max(row.ended_at);
    }
    let (mut tasks, mut places): (Vec<TaskPast>, HashMap<Arc<str>, usize>) = Default::default();
    for lane in lanes {
        let Some(place) = places.get(&lane.task) else {
            places.insert(Arc::clone(&lane.task), tasks.len());
            tasks.push(lane);
            continue;
        };
        let task = &mut tasks[*place];
        task.state = graver(task.state, lane.state);
        task.attempts = task.attempts.max(lane.attempts);
        task.started_at = task.started_at.min(lane.started_at);
        task.ended_at = task.ended_at.max(lane.ended_at);
    }
    tasks
}

/// What a record belongs to: a task or an element of one, or a call of a durable function. Undos, verdicts, changes of the
/// definition and what tasks of a graph waited for are left out.
fn lane(name: &str) -> Option<&str> {
    if [VERDICT, VERSION].contains(&name) || name.ends_with(UNDO) {
        return None;
    }
    match name.strip_prefix('/') {
        Some(call) => Some(call).filter(|call| !call.contains('/')),
        None => Some(name).filter(|name| !name.contains('/')),
    }
}

const fn state(last: StepKind) -> TaskState {
    match last {
        StepKind::Completed => TaskState::Completed,
        StepKind::Failed => TaskState::Failed,
        StepKind::Skipped => TaskState::Skipped,
        StepKind::Cancelled => TaskState::Cancelled,
        StepKind::Retrying | StepKind::Started => TaskState::Ready,
    }
}

/// Of two elements, how the worse one stands.
fn graver(a: TaskState, b: TaskState) -> TaskState {
    let order = [TaskState::Failed, TaskState::Cancelled, TaskState::Ready, TaskState::Completed];
    order.into_iter().find(|state| [a, b].contains(state)).unwrap_or(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, attempt: u32, kind: StepKind, at: i64) -> StepRow {
        let (name, output, detail) = (name.into(), None, None);
        let (started_at, ended_at) = (Time(at), Time(at + 10));
        StepRow { generation: 1, name, attempt, epoch: 0, kind, started_at, ended_at, output, detail }
    }

    #[test]
    fn the_elements_of_a_task_count_as_one_and_the_worst_of_them_shows() {
        let past = of_steps(&[
            step("extract", 1, StepKind::Completed, 0),
            step("enrich[0]", 1, StepKind::Retrying, 10),
            step("enrich[1]", 1, StepKind::Completed, 10),
            step("enrich[0]", 2, StepKind::Failed, 30),
            step("report", 0, StepKind::Skipped, 40),
            step("enrich//undo", 1, StepKind::Completed, 50),
            step(VERDICT, 1, StepKind::Completed, 60),
        ]);
        let shown: Vec<_> = past.iter().map(|task| (&*task.task, task.state, task.attempts)).collect();
        let expected = [
            ("extract", TaskState::Completed, 1),
            ("enrich", TaskState::Failed, 2),
            ("report", TaskState::Skipped, 0),
        ];
        assert_eq!(shown, expected);
        assert_eq!(past[1].took(), Duration::from_micros(30));
    }

    #[test]
    fn what_a_durable_function_called_is_shown_by_its_name() {
        let past = of_steps(&[
            step("/charge", 1, StepKind::Completed, 0),
            step("/charge#2", 1, StepKind::Retrying, 10),
            step("/new/patch", 1, StepKind::Completed, 10),
            step("/charge/undo", 1, StepKind::Completed, 20),
            step("pay/approved", 1, StepKind::Completed, 20),
        ]);
        let shown: Vec<_> = past.iter().map(|task| (&*task.task, task.state, task.attempts)).collect();
        assert_eq!(shown, [("charge", TaskState::Ready, 1)]);
    }
}
