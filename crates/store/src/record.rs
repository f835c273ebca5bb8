//! What stores keep.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_core::{ClaimId, NodeId, RunId, RunState, StepKind, Time, VERDICT};

use crate::{NewMessage, STOPS, SpreadRow};

/// The number that a store gave to one version of one workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DefinitionId(pub i64);

/// One version of one workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionRow {
    /// The workflow's name.
    pub workflow: Arc<str>,
    /// Its version.
    pub version: Arc<str>,
    /// The definition as JSON, so that a later program can compare itself with it.
    pub body: Bytes,
}

/// Which versions of workflows to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Versions {
    /// The newest of each workflow, by the workflow's name, byte by byte.
    Newest,
    /// Those of one workflow, newest first.
    Of {
        /// The workflow's name.
        workflow: Arc<str>,
        /// How many at most.
        limit: usize,
    },
}

/// A run as its start describes it. It is written once and never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// The run's name, for ever.
    pub id: RunId,
    /// The workflow it is a run of.
    pub workflow: Arc<str>,
    /// The queue it waits in.
    pub queue: Arc<str>,
    /// What it is counted by within its queue.
    pub queue_key: Option<Arc<str>>,
    /// 0 is the most urgent, 9 the least.
    pub priority: u8,
    /// When its start was committed.
    pub created_at: Time,
    /// The longest it may take since it might first run.
    pub timeout: Option<Duration>,
    /// Its input, encoded.
    pub input: Bytes,
    /// The context it starts with, encoded; `None` is an empty one.
    pub context: Option<Bytes>,
    /// The key it was started under.
    pub key: Option<String>,
    /// For search; kept as they were given.
    pub tags: Vec<String>,
    /// The run that this one was forked from.
    pub forked_from: Option<RunId>,
    /// The trace that its start belonged to, as a W3C `traceparent`.
    pub trace: Option<String>,
    /// The run that is told of each of its ends.
    pub parent: Option<Parent>,
}

/// The run that is told when another one, its child, ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Which run. It need not be there.
    pub run: RunId,
    /// The topic of the message that it gets. It begins with `>`.
    pub topic: String,
}

impl Parent {
    /// What the parent is told when its child ends in this generation. Its body is the child's id, as text.
    #[must_use]
    pub fn message(&self, child: RunId, generation: u32) -> NewMessage {
        let key = Some(format!("{child}/{generation}"));
        NewMessage { topic: self.topic.clone(), body: child.to_string().into(), key }
    }
}

/// Where a run stands: exactly one of four places, and what goes along from one to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The place.
    pub place: Place,
    /// Raised by a person's retry; there is one end for each. Counted from 1.
    pub generation: u32,
    /// The version it runs under, once a node has held it. It then stays, through releases, recoveries
    /// and generations, so that `None` means that no node ever held the run.
    pub definition: Option<DefinitionId>,
    /// When this generation might first run (the commit of its start and its delay, or the commit of its
    /// reopening): what its time limit counts from.
    pub opened_at: Time,
    /// How many times a sweep took it from a dead node in this generation. A release is not counted.
    pub recoveries: u32,
}

/// The four places of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// It may be claimed.
    Ready,
    /// It waits for a time or an inbox row.
    Waiting(Wait),
    /// A node holds it.
    Owned {
        /// The holder.
        node: NodeId,
        /// The span of holding.
        claim: ClaimId,
    },
    /// It has ended.
    Ended(End),
}

/// What a run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// How the run is shown meanwhile: pending (a delay), suspended, paused, blocked or undoing.
    pub state: RunState,
    /// When it becomes ready by itself: the first claim at this time or later makes it so, whatever the
    /// state. `None` is never.
    pub until: Option<Time>,
    /// The inbox topics that make it ready, compared as they are written.
    pub topics: Vec<String>,
    /// Why, in words, for people.
    pub reason: Option<String>,
    /// For a blocked run: the version of its workflow that could not continue it.
    /// [`Store::unblock`](crate::Store::unblock) passes over the run when it offers that version again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<DefinitionId>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// One of the terminal states.
    pub state: RunState,
    /// When it was committed.
    pub at: Time,
    /// The run's output, encoded; only when it completed and has one.
    pub output: Option<Bytes>,
    /// Why it did not complete, encoded.
    pub failure: Option<Bytes>,
}

/// A finished attempt, as stores keep it.
///
/// Its key is run, generation, name, attempt and, for [`StepKind::Started`] only, epoch. The first row
/// with a key stays as it is; a later one with the same key is left out without an error.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRow {
    /// In which generation of its run it was written.
    pub generation: u32,
    /// The step's name within its run.
    pub name: Arc<str>,
    /// Which attempt, counted from 1; zero for a task that never ran.
    pub attempt: u32,
    /// The run's recoveries when it was written.
    pub epoch: u32,
    /// How it ended.
    pub kind: StepKind,
    /// When the attempt began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Time,
    /// What it returned, encoded.
    pub output: Option<Bytes>,
    /// Errors, context changes and so on, encoded.
    pub detail: Option<Bytes>,
}

/// Something that came to a run from outside and was not yet taken in.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxRow {
    /// Unique in the store, and never given out again, so that taking in a row twice cannot hit another.
    /// Numbers do not commit in order: never use one as a high-water mark.
    pub seq: i64,
    /// The run it is for.
    pub run: RunId,
    /// What it is about; a wait names the topics it is woken by.
    pub topic: String,
    /// The rest, encoded by whoever sent it.
    pub body: Bytes,
    /// When it was committed.
    pub at: Time,
}

/// A value that a running attempt saved for the next one.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedRow {
    /// The step's name within its run.
    pub step: Arc<str>,
    /// The value, encoded.
    pub value: Bytes,
}

/// A run with all that is needed to continue it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunImage {
    /// How it was started.
    pub run: RunRow,
    /// Where it stands.
    pub standing: Standing,
    /// Every recorded step of every generation that was not forgotten, in the order in which they were recorded.
    pub steps: Vec<StepRow>,
    /// What it has not taken in yet, oldest first (by number).
    pub inbox: Vec<InboxRow>,
    /// What its attempts saved, by step name.
    pub saved: Vec<SavedRow>,
    /// Its attempts that any node may execute, by key.
    pub published: Vec<SpreadRow>,
}

impl RunImage {
    /// From when on all that is left for the run is to stop: at once when it was [told to](STOPS), or how it ends is
    /// recorded, or else when its time limit is over. `None` for one that nothing stops.
    #[must_use]
    pub fn stops_at(&self) -> Option<Time> {
        let Standing { generation, opened_at, .. } = self.standing;
        let is_told = self.inbox.iter().any(|row| STOPS.contains(&row.topic.as_str()));
        let is_judged = |row: &StepRow| row.generation == generation && &*row.name == VERDICT;
        if is_told || self.steps.iter().any(is_judged) {
            return Some(Time(0));
        }
        self.run.timeout.map(|timeout| opened_at + timeout)
    }
}

/// A process that runs an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    /// This boot of it.
    pub id: NodeId,
    /// The name it was given, if any.
    pub name: Option<String>,
    /// Its process id, for the person who has to find it.
    pub pid: u32,
    /// The machine it runs on.
    pub host: String,
    /// The version of its program, as it says.
    pub version: String,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// When it joined.
    pub started_at: Time,
    /// When it last said that it lives.
    pub heartbeat_at: Time,
    /// After how long without a heartbeat it may be declared dead.
    pub stale_after: Duration,
    /// Whether it was declared dead.
    pub dead: bool,
    /// How many runs it holds, as it said with its last heartbeat.
    pub running: u32,
    /// How many runs it had ended, and published attempts it had executed, in the minute before that, by queue.
    pub ended: BTreeMap<String, u32>,
}

/// A run in a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// Its id.
    pub id: RunId,
    /// The workflow it is a run of.
    pub workflow: Arc<str>,
    /// The queue it is in.
    pub queue: Arc<str>,
    /// 0 is the most urgent, 9 the least.
    pub priority: u8,
    /// The key it was started under.
    pub key: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// When its start was committed.
    pub created_at: Time,
    /// Where it stands.
    pub standing: Standing,
}

impl Wait {
    /// Whether the wait is over at this time, whatever comes.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Whether a row with this topic ends the wait.
    #[must_use]
    pub fn is_for(&self, topic: &str) -> bool {
        self.topics.iter().any(|mine| mine == topic)
    }

    /// Whether its state is one in which runs wait.
    #[must_use]
    pub const fn is_fit(&self) -> bool {
        matches!(
            self.state,
            RunState::Pending
                | RunState::Suspended
                | RunState::Paused
                | RunState::Blocked
                | RunState::Undoing
        )
    }
}

impl Standing {
    /// The state that people see.
    #[must_use]
    pub fn state(&self) -> RunState {
        match &self.place {
            // A run that a node has held before is on its way back, not new.
            Place::Ready if self.definition.is_some() => RunState::Suspended,
            Place::Ready => RunState::Pending,
            Place::Waiting(wait) => wait.state,
            Place::Owned { .. } => RunState::Running,
            Place::Ended(end) => end.state,
        }
    }
}
