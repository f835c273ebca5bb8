//! Attempts of tasks that any node may execute, whoever holds their run.

use std::{
    cmp::Ordering,
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use windlass_core::{ClaimId, NodeId, RunId, Time};

use crate::{Choice, DefinitionId, Lanes, Load, QueueLimits, QueueState, Waiter, choose};

/// The topic under which the outcome of a published attempt lies in the inbox of its run.
pub const OUTCOME: &str = "!outcome";

/// What tells one published attempt of a run from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpreadKey {
    /// The step's name within its run.
    pub step: Arc<str>,
    /// Which attempt.
    pub attempt: u32,
}

impl SpreadKey {
    /// The key of the message that brings its outcome. A run that is reopened counts its attempts anew.
    #[must_use]
    pub fn message_key(&self, generation: u32) -> String {
        format!("{generation}/{}/{}", self.attempt, self.step)
    }
}

/// An attempt to be published. The store adds what the run's own row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSpread {
    /// Which one.
    pub key: SpreadKey,
    /// The queue that it waits in.
    pub queue: Arc<str>,
}

/// A published attempt. It is there until its outcome is delivered, it is withdrawn, or its run ends.
#[derive(Clone, Debug, PartialEq)]
pub struct SpreadRow {
    /// The run that it belongs to.
    pub run: RunId,
    /// Which one of the run.
    pub key: SpreadKey,
    /// The generation of the run.
    pub generation: u32,
    /// The run's workflow.
    pub workflow: Arc<str>,
    /// The version of that workflow which is to execute it.
    pub definition: DefinitionId,
    /// The queue that it waits in.
    pub queue: Arc<str>,
    /// The [lane](crate::lane) of its run.
    pub lane: Arc<str>,
    /// That of the run.
    pub priority: u8,
    /// When it was published.
    pub at: Time,
    /// How many nodes died while they held it.
    pub deaths: u32,
    /// The node that executes it, and the span of holding.
    pub holder: Option<(NodeId, ClaimId)>,
}

impl SpreadRow {
    /// The most urgent first, then those of the oldest run.
    #[must_use]
    pub fn by_urgency(&self, other: &Self) -> Ordering {
        (self.priority, self.run, &self.key).cmp(&(other.priority, other.run, &other.key))
    }

    /// What its place in a lane depends on. An attempt waits since it was published.
    #[must_use]
    pub const fn waiter(&self) -> Waiter {
        Waiter { priority: self.priority, run: self.run, since: self.at }
    }
}

/// Which published attempts are withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only those that no node holds.
    Unclaimed,
    /// Those that a node holds, too: what it says of them comes too late.
    All,
}

/// A wish for published attempts.
#[derive(Clone, Debug)]
pub struct SpreadClaim {
    /// Who claims.
    pub node: NodeId,
    /// What to write into the rows. The same id again answers with the same rows.
    pub claim: ClaimId,
    /// How many at most, over all queues.
    pub room: usize,
    /// The queues, each once, and how many of each at most.
    pub queues: Vec<(Arc<str>, usize)>,
    /// The workflows whose code the node has, each once, with its version: others are not taken.
    pub workflows: Vec<(Arc<str>, DefinitionId)>,
    /// What has seen so many deaths is a suspect.
    pub suspect_after: u32,
    /// How many suspects at most.
    pub suspects: usize,
}

impl SpreadClaim {
    /// Whether the claim asks for such attempts at all. Who holds the row is not looked at.
    #[must_use]
    pub fn is_for(&self, row: &SpreadRow) -> bool {
        self.room > 0
            && (self.suspects > 0 || !self.is_suspect(row))
            && self.queues.iter().any(|(queue, room)| *queue == row.queue && *room > 0)
            && self.workflows.iter().any(|(name, id)| *name == row.workflow && *id == row.definition)
    }

    /// Chooses what the claim takes from streams of rows that nobody holds and that it [is for](Self::is_for): always the
    /// most urgent of those that come next, where `urgency` says what they have [come to](QueueLimits::urgency). The rows of a
    /// queue are in one stream.
    #[must_use]
    pub fn choose(
        &self,
        mut streams: Vec<VecDeque<SpreadRow>>,
        urgency: impl Fn(&SpreadRow) -> u8,
    ) -> Vec<SpreadRow> {
        let weigh = |row: &SpreadRow| (urgency(row), row.run);
        let before = |one: &SpreadRow, other: &SpreadRow| {
            weigh(one).cmp(&weigh(other)).then_with(|| one.key.cmp(&other.key))
        };
        let mut rooms: HashMap<_, _> = self.queues.iter().cloned().collect();
        let (mut suspects, mut chosen) = (self.suspects, Vec::new());
        while chosen.len() < self.room {
            let heads = streams.iter_mut().filter(|stream| !stream.is_empty());
            let Some(next) = heads.min_by(|one, other| before(&one[0], &other[0])) else { break };
            let Some(row) = next.pop_front() else { break };
            let is_suspect = self.is_suspect(&row);
            let room = rooms.get_mut(&row.queue).filter(|room| **room > 0);
            let Some(room) = room.filter(|_| suspects > 0 || !is_suspect) else { continue };
            *room -= 1;
            suspects -= usize::from(is_suspect);
            chosen.push(row);
        }
        chosen
    }

    /// What the claim may take from a declared queue, for which it has so much room: first the attempts that share the
    /// slots of their runs (`sharers`, one for each run, the most urgent first), then others as their keys have their turn.
    ///
    /// # Errors
    ///
    /// Those of the lanes.
    pub fn turn<L: Lanes<Run = SpreadRow>>(
        lanes: &mut L,
        state: &QueueState,
        load: &Load,
        sharers: Vec<SpreadRow>,
        room: usize,
    ) -> Result<(Vec<SpreadRow>, Choice<SpreadRow>), L::Error> {
        let (sharers, most) = Self::admit(load, &state.limits, sharers, room);
        Ok((sharers, choose(lanes, state, load, most)?))
    }

    /// Of attempts that would share the slots of their runs, those that the node has room for; and how many others may be
    /// taken then.
    #[must_use]
    pub fn admit(
        load: &Load,
        limits: &QueueLimits,
        sharers: Vec<SpreadRow>,
        room: usize,
    ) -> (Vec<SpreadRow>, usize) {
        let (mut admitted, mut strangers) = (Vec::new(), 0);
        for row in sharers {
            let is_stranger = !load.is_here(row.run);
            if admitted.len() < room && !(is_stranger && strangers >= load.node_left(limits)) {
                strangers += usize::from(is_stranger);
                admitted.push(row);
            }
        }
        let most = (room - admitted.len()).min(load.left(limits, strangers));
        (admitted, most)
    }

    /// For how many of a queue there is room.
    #[must_use]
    pub fn room_in(&self, queue: &str) -> usize {
        let room = self.queues.iter().find(|(name, _)| **name == *queue).map_or(0, |(_, room)| *room);
        room.min(self.room)
    }

    /// Whether it nearly killed too many nodes.
    #[must_use]
    pub const fn is_suspect(&self, row: &SpreadRow) -> bool {
        row.deaths >= self.suspect_after
    }
}

/// The answer to a claim of published attempts.
#[derive(Clone, Debug)]
pub struct SpreadClaimed {
    /// The store's time.
    pub now: Time,
    /// The attempts, now held by the node, the most urgent first.
    pub tasks: Vec<SpreadRow>,
    /// Whether the same request with a fresh claim would take something.
    pub more: bool,
    /// When the rate of a declared queue lets the next one be taken, if that is all that it waits for.
    pub next: Option<Time>,
    /// Whether one of the queues was declared: then whoever frees a slot makes room for another. Where nothing waits, it
    /// need not be looked for.
    pub limited: bool,
}

impl SpreadClaimed {
    /// The answer when nothing waits.
    #[must_use]
    pub const fn nothing(now: Time) -> Self {
        Self { now, tasks: Vec::new(), more: false, next: None, limited: false }
    }
}
