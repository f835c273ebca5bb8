//! What an attempt is given, from the records of its run.

use windlass_core::{Context, Failure, LaneId, Run, Skip, StepKind, TaskIx};

use crate::{Call, Cx, Dependency, Item, outputs::Outputs, run_loop::Subject};

/// What an attempt of this lane is given. What it waits for has ended.
pub(crate) fn call(subject: &Subject, run: &mut Run, outputs: &mut Outputs, lane: LaneId, cx: Cx) -> Call {
    let task = subject.task(lane.task);
    let dependencies = task.dependencies.iter().map(|&at| dependency(run, outputs, at)).collect();
    let item = task.for_each.zip(lane.item).and_then(|(for_each, index)| {
        let source = outputs.result(for_each.over, run)?;
        Some(Item { source, index: index as usize })
    });
    Call {
        input: subject.input.clone(),
        dependencies,
        item,
        context: Context::new(run.context_for(lane.task)),
        detached: None,
        cx,
    }
}

fn dependency(run: &Run, outputs: &mut Outputs, at: TaskIx) -> Dependency {
    match run.outcome(at) {
        Some(StepKind::Completed) => match outputs.result(at, run) {
            Some(slot) => Dependency::Completed(slot),
            None => Dependency::Failed(Failure::permanent("its result is missing from the record")),
        },
        Some(StepKind::Skipped) => match run.skip(at) {
            Some(skip) => Dependency::Skipped(skip.clone()),
            None => Dependency::Skipped(Skip::Rule),
        },
        Some(StepKind::Failed) => match run.failure(at) {
            Some(failure) => Dependency::Failed(failure.clone()),
            None => Dependency::Failed(Failure::new("the task failed")),
        },
        _ => Dependency::Cancelled,
    }
}
