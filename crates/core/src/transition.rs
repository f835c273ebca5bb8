//! Every step from one state to another that is legal, as data.

use std::fmt::{Display, Write as _};

use crate::{
    RunState::{
        self, Abandoned, Blocked, Cancelled, Completed, Failed, Paused, Pending, Running, Suspended, Undoing,
    },
    TaskState,
};

/// One legal step from a state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition<S: 'static> {
    /// The state before.
    pub from: S,
    /// The state after.
    pub to: S,
    /// What makes it so.
    pub why: &'static str,
}

impl<S> Transition<S> {
    /// Whether a person makes it by retrying the run.
    #[must_use]
    pub fn is_retry(&self) -> bool {
        self.why.starts_with("retry:")
    }
}

const fn run(from: RunState, to: RunState, why: &'static str) -> Transition<RunState> {
    Transition { from, to, why }
}

const fn task(from: TaskState, to: TaskState, why: &'static str) -> Transition<TaskState> {
    Transition { from, to, why }
}

/// Every legal step of a run.
///
/// A step that leaves a terminal state begins with `retry:`; there is no other way out.
pub const RUN_TRANSITIONS: &[Transition<RunState>] = &[
    run(Pending, Running, "a node with room claims it"),
    run(Pending, Paused, "a person pauses it before it begins"),
    run(Pending, Cancelled, "a person cancels it before it begins"),
    run(Running, Suspended, "it waits for a time, an event or a node: its own stopped or died"),
    run(Running, Paused, "a person pauses it; what was executing has finished"),
    run(Running, Blocked, "the code of the node that claimed it cannot continue it"),
    run(Running, Undoing, "its verdict is recorded, and completed work has undos"),
    run(Running, Completed, "every task has ended, and none failed"),
    run(Running, Failed, "a task failed for good, or the run took too long"),
    run(Running, Cancelled, "a person cancels it"),
    run(Running, Abandoned, "it was recovered from dead processes too often"),
    run(Suspended, Running, "a node claims it: its wait is over"),
    run(Suspended, Paused, "a person pauses it while it waits"),
    run(Suspended, Cancelled, "a person terminates it"),
    run(Paused, Pending, "a person resumes it before it has begun"),
    run(Paused, Suspended, "a person resumes it, and it waits for a node"),
    run(Paused, Running, "a person resumes it, and a node claims it"),
    run(Paused, Cancelled, "a person cancels or terminates it"),
    run(Blocked, Suspended, "code that may continue it has appeared, and it waits for a node"),
    run(Blocked, Running, "a node with code that may continue it claims it"),
    run(Blocked, Undoing, "code that agrees has appeared, and its verdict is recorded already"),
    run(Blocked, Failed, "it took too long, and nothing of it has to be undone"),
    run(Blocked, Cancelled, "a person terminates it; or cancels it, and nothing of it has to be undone"),
    run(Undoing, Blocked, "no live node has code that can undo it"),
    run(Undoing, Failed, "its undos have ended, and its verdict was failure"),
    run(Undoing, Cancelled, "its undos have ended, and its verdict was cancellation"),
    run(Failed, Pending, "retry: a person reopens it before any node has claimed it"),
    run(Failed, Suspended, "retry: a person reopens it, and it waits for a node"),
    run(Cancelled, Pending, "retry: a person reopens it before any node has claimed it"),
    run(Cancelled, Suspended, "retry: a person reopens it, and it waits for a node"),
    run(Abandoned, Suspended, "retry: a person reopens it, and it waits for a node"),
];

/// Every legal step of a task.
///
/// A step that leaves a terminal state begins with `retry:`; there is no other way out.
pub const TASK_TRANSITIONS: &[Transition<TaskState>] = &[
    task(TaskState::NotStarted, TaskState::Pending, "its run begins"),
    task(TaskState::NotStarted, TaskState::Cancelled, "its run ends before it begins"),
    task(TaskState::Pending, TaskState::Ready, "its dependencies have ended, and its rule holds"),
    task(TaskState::Pending, TaskState::Skipped, "its dependencies have ended, and its rule does not hold"),
    task(TaskState::Pending, TaskState::Cancelled, "its run is cancelled, times out or fails fast"),
    task(TaskState::Ready, TaskState::Running, "it has a slot, and its retry is due"),
    task(TaskState::Ready, TaskState::Completed, "it runs for each element, and there is none"),
    task(TaskState::Ready, TaskState::Failed, "its deadline passes while it waits"),
    task(TaskState::Ready, TaskState::Cancelled, "its run is cancelled, times out or fails fast"),
    task(
        TaskState::Ready,
        TaskState::Abandoned,
        "its run is abandoned, and it was executing when processes died",
    ),
    task(TaskState::Running, TaskState::Completed, "it returned a result, which is recorded"),
    task(TaskState::Running, TaskState::Failed, "it failed, and no attempt follows"),
    task(TaskState::Running, TaskState::Ready, "it failed and is tried again, it waits, or its process died"),
    task(TaskState::Running, TaskState::Cancelled, "its run is cancelled, times out or fails fast"),
    task(TaskState::Running, TaskState::Abandoned, "its run is abandoned while it is executing"),
    task(TaskState::Completed, TaskState::Pending, "retry: its run is reopened, and it had been undone"),
    task(TaskState::Failed, TaskState::Pending, "retry: its run is reopened"),
    task(TaskState::Skipped, TaskState::Pending, "retry: its run is reopened"),
    task(TaskState::Cancelled, TaskState::Pending, "retry: its run is reopened"),
    task(TaskState::Abandoned, TaskState::Pending, "retry: its run is reopened"),
];

impl RunState {
    /// Whether a run in this state may be in that state next.
    #[must_use]
    pub fn may_become(self, to: Self) -> bool {
        RUN_TRANSITIONS.iter().any(|step| step.from == self && step.to == to)
    }

    /// Whether a run in this state may be in that state later, by steps like these. Whoever looks at a run from time to time
    /// does not see every state that it is in.
    #[must_use]
    pub fn leads_to(self, to: Self, like: impl Fn(&Transition<Self>) -> bool) -> bool {
        let mut reached = vec![self];
        let mut next = 0;
        while let Some(&at) = reached.get(next) {
            let steps = RUN_TRANSITIONS.iter().filter(|step| step.from == at && like(step));
            let fresh: Vec<Self> = steps.map(|step| step.to).filter(|to| !reached.contains(to)).collect();
            reached.extend(fresh);
            next += 1;
        }
        reached.contains(&to)
    }

    /// What the state means, in one sentence.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Pending => "Committed, and waiting for a node with room, for its delay, or for its queue.",
            Running => "Owned by a node; something is or may be executing.",
            Suspended => "Parked until a time, an event or a node.",
            Paused => "A person said so: nothing new starts until it is resumed.",
            Blocked => "No live node has code that can continue it. It resumes by itself when one appears.",
            Undoing => "Its verdict is final, and its undos are running.",
            Completed => "Everything it had to do is done.",
            Failed => "A task failed for good, or the run took too long.",
            Cancelled => "Somebody cancelled it.",
            Abandoned => "It killed its process too often.",
        }
    }
}

impl TaskState {
    /// Whether a task in this state may be in that state next.
    #[must_use]
    pub fn may_become(self, to: Self) -> bool {
        TASK_TRANSITIONS.iter().any(|step| step.from == self && step.to == to)
    }

    /// What the state means, in one sentence.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::NotStarted => "Its run has not begun.",
            Self::Pending => "It waits for its dependencies.",
            Self::Ready => "It may run, and waits for a slot or for the time of its retry.",
            Self::Running => "An attempt is executing.",
            Self::Completed => "It returned a result, which is recorded.",
            Self::Failed => "Its last attempt failed.",
            Self::Skipped => "Its rule said no.",
            Self::Cancelled => "The run was cancelled, timed out or failed fast before it ended.",
            Self::Abandoned => "It killed its process too often.",
        }
    }
}

/// The page of the documentation about states, in Markdown.
#[must_use]
pub fn states_page() -> String {
    let runs = RunState::ALL.map(|state| (state, state.meaning(), state.is_terminal()));
    let tasks = TaskState::ALL.map(|state| (state, state.meaning(), state.is_terminal()));
    format!(
        "# States\n\n\
         This page is made from the tables in `crates/core/src/transition.rs`. To change it, change them, and run\n\
         `WINDLASS_BLESS=1 cargo test -p windlass-core states_page`.\n\n\
         A state that ends a run or a task is left only when a person retries the run.\n\n\
         ## Runs\n\n{}\n\
         ## Tasks\n\n{}",
        section(&runs, RUN_TRANSITIONS),
        section(&tasks, TASK_TRANSITIONS),
    )
}

fn section<S: Display>(states: &[(S, &str, bool)], steps: &[Transition<S>]) -> String {
    let mut text = String::from("| state | meaning | ends it |\n|---|---|---|\n");
    for (state, meaning, ends) in states {
        let ends = if *ends { "yes" } else { "" };
        writeln!(text, "| {state} | {meaning} | {ends} |").expect("writing to a string succeeds");
    }
    text += "\n```mermaid\nstateDiagram-v2\n";
    for step in steps {
        writeln!(text, "    {} --> {}", step.from, step.to).expect("writing to a string succeeds");
    }
    text += "```\n\n| from | to | when |\n|---|---|---|\n";
    for step in steps {
        writeln!(text, "| {} | {} | {} |", step.from, step.to, step.why)
            .expect("writing to a string succeeds");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, fmt::Debug, hash::Hash};

    use super::*;

    fn walk<S: Copy + Eq + Hash + Debug>(
        start: S,
        all: &[S],
        steps: &[Transition<S>],
        is_terminal: fn(S) -> bool,
    ) {
        let mut reached = HashSet::from([start]);
        let mut frontier = vec![start];
        while let Some(at) = frontier.pop() {
            let next = steps.iter().filter(|step| step.from == at).map(|step| step.to);
            frontier.extend(next.filter(|to| reached.insert(*to)));
        }
        for state in all {
            assert!(reached.contains(state), "{state:?} cannot be reached");
            let leads_on = steps.iter().any(|step| step.from == *state && !step.is_retry());
            assert_eq!(leads_on, !is_terminal(*state), "only a retry leaves {state:?} if it is an end");
        }
        let pairs: HashSet<_> = steps.iter().map(|step| (step.from, step.to)).collect();
        assert_eq!(pairs.len(), steps.len(), "no step is listed twice");
        for step in steps {
            assert_ne!(step.from, step.to);
            assert_eq!(step.is_retry(), is_terminal(step.from), "{step:?}");
            assert!(!(step.is_retry() && is_terminal(step.to)), "a retry leads away from an end: {step:?}");
        }
        // From everywhere, an end can be reached.
        let mut ending: HashSet<S> = all.iter().copied().filter(|state| is_terminal(*state)).collect();
        for _ in all {
            ending
                .extend(steps.iter().filter(|s| ending.contains(&s.to)).map(|s| s.from).collect::<Vec<_>>());
        }
        assert_eq!(ending.len(), all.len(), "no state is a trap");
    }

    #[test]
    fn every_run_state_can_be_reached_and_only_a_retry_leaves_an_end() {
        walk(Pending, &RunState::ALL, RUN_TRANSITIONS, RunState::is_terminal);
    }

    #[test]
    fn every_task_state_can_be_reached_and_only_a_retry_leaves_an_end() {
        walk(TaskState::NotStarted, &TaskState::ALL, TASK_TRANSITIONS, TaskState::is_terminal);
    }

    #[test]
    fn a_completed_run_is_never_reopened_and_an_ended_one_never_runs_at_once() {
        assert!(RunState::ALL.iter().all(|to| !Completed.may_become(*to)));
        assert!(RunState::TERMINAL.iter().all(|from| !from.may_become(Running)));
        assert!(Pending.may_become(Running));
        assert!(!Pending.may_become(Completed));
        assert!(TaskState::Running.may_become(TaskState::Ready));
        assert!(!TaskState::Pending.may_become(TaskState::Running));
    }

    #[test]
    fn an_end_leads_somewhere_else_by_a_retry_alone_and_completion_never() {
        for from in RunState::TERMINAL {
            for to in RunState::ALL {
                assert_eq!(from.leads_to(to, |step| !step.is_retry()), from == to, "{from} to {to}");
                assert_eq!(from.leads_to(to, |_| true), from == to || from != Completed, "{from} to {to}");
            }
        }
        assert!(RunState::ALL.iter().all(|to| Pending.leads_to(*to, |step| !step.is_retry())));
        assert!(!Running.leads_to(Pending, |step| !step.is_retry() && step.from != Paused), "it has begun");
    }

    #[test]
    fn the_states_page_of_the_documentation_is_made_from_the_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/states.md");
        if std::env::var_os("WINDLASS_BLESS").is_some() {
            std::fs::write(path, states_page()).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page == states_page(), "docs/states.md is out of date: run this test with WINDLASS_BLESS=1");
    }
}
