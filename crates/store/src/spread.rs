//! Attempts of tasks that any node may execute, whoever holds their run.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use windlass_core::{ClaimId, NodeId, RunId, Time};

use crate::DefinitionId;

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

    /// Chooses what the claim takes, from rows that nobody holds and that it [is for](Self::is_for), the most
    /// urgent first.
    #[must_use]
    pub fn choose(&self, candidates: impl IntoIterator<Item = SpreadRow>) -> Vec<SpreadRow> {
        let mut rooms: HashMap<_, _> = self.queues.iter().cloned().collect();
        let (mut suspects, mut chosen) = (self.suspects, Vec::new());
        for row in candidates {
            if chosen.len() == self.room {
                break;
            }
            let is_suspect = self.is_suspect(&row);
            let room = rooms.get_mut(&row.queue).filter(|room| **room > 0);
            let Some(room) = room.filter(|_| suspects > 0 || !is_suspect) else { continue };
            *room -= 1;
            suspects -= usize::from(is_suspect);
            chosen.push(row);
        }
        chosen
    }

    const fn is_suspect(&self, row: &SpreadRow) -> bool {
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
}
