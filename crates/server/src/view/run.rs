//! A run, in a list and by itself.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass::{
    RunError, RunStatus,
    store::{Place, RunSummary, Wait},
};

use super::{
    Graph, State, instant,
    task::{Call, Failure, Task},
};

/// A run in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunLine {
    #[schema(format = Uuid)]
    id: String,
    workflow: String,
    state: State,
    queue: String,
    /// 0 is the most urgent, 9 the least.
    priority: u8,
    key: Option<String>,
    tags: Vec<String>,
    /// How many times it was opened: 1, and one more for each retry.
    generation: u32,
    /// How many times it was taken over from a dead process.
    recoveries: u32,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    ended_at: Option<String>,
    /// What it waits for, in words.
    waits_for: Option<String>,
}

impl From<RunSummary> for RunLine {
    fn from(run: RunSummary) -> Self {
        let (ended_at, waits_for) = match &run.standing.place {
            Place::Ready => (None, Some(ROOM.to_owned())),
            Place::Waiting(wait) => (None, Some(words(wait))),
            Place::Owned { .. } => (None, None),
            Place::Ended(end) => (Some(instant(end.at)), None),
        };
        Self {
            id: run.id.to_string(),
            workflow: run.workflow.to_string(),
            state: run.standing.state().into(),
            queue: run.queue.to_string(),
            priority: run.priority,
            key: run.key,
            tags: run.tags,
            generation: run.standing.generation,
            recoveries: run.standing.recoveries,
            created_at: instant(run.created_at),
            ended_at,
            waits_for,
        }
    }
}

/// Where a run stands, with all but its payloads.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunView {
    #[schema(format = Uuid)]
    id: String,
    workflow: String,
    /// The version that it runs under, if it is known.
    version: Option<String>,
    state: State,
    queue: String,
    /// What it is counted by within its queue.
    queue_key: Option<String>,
    /// 0 is the most urgent, 9 the least.
    priority: u8,
    key: Option<String>,
    tags: Vec<String>,
    /// The longest it may take, in seconds.
    timeout: Option<f64>,
    /// The run that started it, and waits for its end.
    #[schema(format = Uuid)]
    parent: Option<String>,
    #[schema(format = Uuid)]
    forked_from: Option<String>,
    generation: u32,
    recoveries: u32,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    ended_at: Option<String>,
    /// What it waits for, in words.
    waits_for: Option<String>,
    /// Until when, if it is a time.
    #[schema(format = DateTime)]
    waits_until: Option<String>,
    /// Why it ended, unless it completed; or why it is being undone.
    verdict: Option<Verdict>,
    tasks: Vec<Task>,
    calls: Vec<Call>,
    /// What its durable function published.
    published: BTreeMap<String, Value>,
    /// What it follows, if it is known.
    graph: Option<Graph>,
}

impl From<RunStatus> for RunView {
    fn from(run: RunStatus) -> Self {
        let waits_for = match (&run.wait, State::from(run.state)) {
            (Some(wait), _) => Some(words(wait)),
            (None, State::Pending | State::Suspended) => Some(ROOM.to_owned()),
            _ => None,
        };
        let verdict = run.verdict.map(|verdict| Verdict::new(run.id, &run.workflow, verdict));
        Self {
            id: run.id.to_string(),
            workflow: run.workflow.to_string(),
            version: run.definition.as_ref().map(|known| known.version.to_string()),
            state: run.state.into(),
            queue: run.queue.to_string(),
            queue_key: run.queue_key.map(|key| key.to_string()),
            priority: run.priority,
            key: run.key,
            tags: run.tags,
            timeout: run.timeout.map(|timeout| timeout.as_secs_f64()),
            parent: run.parent.map(|parent| parent.to_string()),
            forked_from: run.forked_from.map(|from| from.to_string()),
            generation: run.generation,
            recoveries: run.recoveries,
            created_at: instant(run.created_at),
            ended_at: run.ended_at.map(instant),
            waits_for,
            waits_until: run.wait.and_then(|wait| wait.until).map(instant),
            verdict,
            tasks: run.tasks.into_iter().map(Into::into).collect(),
            calls: run.calls.into_iter().map(Into::into).collect(),
            published: run.published,
            graph: run.definition.map(|known| Graph::of(&known)),
        }
    }
}

/// Why a run ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Verdict {
    /// `completed`, `failed`, `timed_out`, `cancelled` or `abandoned`.
    kind: &'static str,
    /// Why, as a sentence.
    words: String,
    /// The step that failed first, or that killed its process.
    step: Option<String>,
    /// Its last error.
    failure: Option<Failure>,
}

impl Verdict {
    pub(crate) fn new(run: windlass::RunId, workflow: &str, verdict: windlass::Verdict) -> Self {
        let error = RunError { run, workflow: workflow.to_owned(), verdict };
        let words = error.to_string();
        let (kind, step, failure) = match error.verdict {
            windlass::Verdict::Completed => ("completed", None, None),
            windlass::Verdict::Failed { step, failure, .. } => {
                ("failed", Some(step), Some((*failure).into()))
            }
            windlass::Verdict::TimedOut { .. } => ("timed_out", None, None),
            windlass::Verdict::Cancelled { .. } => ("cancelled", None, None),
            windlass::Verdict::Abandoned { step, .. } => ("abandoned", Some(step), None),
        };
        Self { kind, words, step, failure }
    }
}

/// What a run waits for that could go on at once.
const ROOM: &str = "a process with room that has its code";

/// What a run waits for, in words.
fn words(wait: &Wait) -> String {
    let until = wait.until.map(instant);
    match State::from(wait.state) {
        State::Paused => "somebody to resume it".to_owned(),
        State::Blocked => {
            let why = wait.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("code that can continue it{why}")
        }
        _ => match (things(wait), until) {
            (Some(things), Some(until)) => format!("{things}, until {until}"),
            (Some(things), None) => things,
            (None, Some(until)) => until,
            (None, None) => wait.reason.clone().unwrap_or_else(|| "something to come".to_owned()),
        },
    }
}

/// What has to come, in words. Topics that begin with `!` are the engine's own, and those with `>` are of other runs.
fn things(wait: &Wait) -> Option<String> {
    let events = wait.topics.iter().filter(|topic| !topic.starts_with(['!', '>']));
    let events: Vec<String> = events.map(|event| format!("`{event}`")).collect();
    let others = wait.topics.iter().any(|topic| topic.starts_with('>'));
    match (&*events, others) {
        ([], false) => None,
        ([], true) => Some("other runs or tasks to end".to_owned()),
        ([one], false) => Some(format!("the event {one}")),
        (many, false) => Some(format!("one of the events {}", many.join(", "))),
        (many, true) => Some(format!("{} or the end of other runs", many.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use windlass::{RunState, Time};

    use super::*;

    fn wait(state: RunState, until: Option<Time>, topics: &[&str]) -> Wait {
        let topics = topics.iter().map(ToString::to_string).collect();
        Wait { state, until, topics, reason: None, blocked_by: None }
    }

    #[test]
    fn what_a_run_waits_for_is_said_in_words() {
        let at = Some(Time(1_000_000));
        let said = |state, until, topics: &[&str]| words(&wait(state, until, topics));
        assert_eq!(said(RunState::Pending, at, &[]), "1970-01-01T00:00:01Z");
        assert_eq!(said(RunState::Suspended, None, &["!cancel", "approved"]), "the event `approved`");
        assert_eq!(
            said(RunState::Suspended, at, &["a", "b"]),
            "one of the events `a`, `b`, until 1970-01-01T00:00:01Z"
        );
        assert_eq!(said(RunState::Suspended, None, &["!cancel", ">child"]), "other runs or tasks to end");
        assert_eq!(said(RunState::Paused, at, &["!resume"]), "somebody to resume it");
        let blocked = Wait { reason: Some("no task `x`".into()), ..wait(RunState::Blocked, None, &[]) };
        assert_eq!(words(&blocked), "code that can continue it: no task `x`");
    }
}
