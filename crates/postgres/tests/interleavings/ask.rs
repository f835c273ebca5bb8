//! What is asked of a store, and what it answers, in words that can be compared.

use std::{fmt::Debug, sync::Arc};

use windlass_core::{NodeId, RunId};
use windlass_store::{
    Act, Claim, Claimed, Death, DefinitionId, Discard, InboxRow, NewNode, NodeRow, QueueChange, RunImage,
    SpreadClaim, Store, StoreError, Unit,
};

use crate::{acts::CHILD, call::Call};

/// An operation.
#[derive(Clone, Debug)]
pub enum Ask {
    Commit(Option<NodeId>, Vec<Unit>),
    Claim(Claim),
    ClaimTasks(SpreadClaim),
    Unblock(NodeId, Vec<(Arc<str>, DefinitionId)>),
    Join(NewNode),
    Heartbeat(NodeId),
    Leave(NodeId),
    DeclareDead(NodeId, NodeId),
    Sweep(NodeId),
    Discard(Discard),
    Define(windlass_store::DefinitionRow),
    ChangeQueue(QueueChange),
    /// A function that an application calls.
    Call(Call),
    /// Nothing at all.
    Nothing,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Words(String),
    /// What a claim got, and whether it knows that it has to look again.
    Claimed {
        runs: String,
        /// The same without what children have sent.
        unread: String,
        count: usize,
        looks_again: bool,
    },
}

impl Ask {
    pub fn commit(node: impl Into<Option<NodeId>>, acts: Vec<(RunId, Act)>) -> Self {
        Self::Commit(node.into(), acts.into_iter().map(|(run, act)| Unit { run, act }).collect())
    }

    pub async fn put(self, store: &dyn Store) -> Said {
        Said::Words(match self {
            Self::Commit(node, batch) => show(store.commit(node, Arc::new(batch)).await),
            Self::Claim(claim) => return claimed(store.claim(claim).await),
            Self::ClaimTasks(claim) => match store.claim_tasks(claim).await {
                Ok(claimed) => {
                    // Whoever got something claims again.
                    let count = claimed.tasks.len();
                    let looks_again = claimed.more || count > 0;
                    let runs = format!("{:?}", claimed.tasks);
                    return Said::Claimed { unread: runs.clone(), runs, count, looks_again };
                }
                Err(error) => show::<()>(Err(error)),
            },
            Self::Unblock(node, workflows) => show(store.unblock(node, workflows).await),
            Self::Join(node) => show(store.join(node).await.map(|joined| joined.fenced)),
            Self::Heartbeat(node) => show(store.heartbeat(node, 1.into()).await.map(|mut beat| {
                beat.others.iter_mut().for_each(nameless);
                count(&mut beat.inbox);
                beat
            })),
            Self::Leave(node) => show(store.leave(node).await),
            Self::DeclareDead(judge, condemned) => {
                show(store.declare_dead(judge, condemned, Death::Stale).await)
            }
            Self::Sweep(judge) => show(store.sweep(judge, 1_000_000).await),
            Self::Discard(request) => show(store.discard(request).await),
            Self::ChangeQueue(change) => show(store.change_queue("default".into(), change).await),
            Self::Define(row) => show(store.define(row).await.map(|_| ())),
            Self::Call(call) => call.put(store).await,
            Self::Nothing => String::new(),
        })
    }

    /// What it may also come to, because it does not wait for others. A claim passes over what somebody else is moving:
    /// it takes less, or does nothing. A start that wants to be held is not, although the last ready run of its line is
    /// just being taken.
    pub fn or_less(&self) -> Vec<Self> {
        match self {
            Self::Claim(claim) => {
                let one = Claim { room: 1, ..claim.clone() };
                let none = Claim { room: 0, ..claim.clone() };
                let due = Claim { free_own: false, ..none.clone() };
                vec![Self::Claim(one), Self::Claim(none), Self::Claim(due), Self::Nothing]
            }
            // A run that somebody is at is left for another time.
            Self::ClaimTasks(_) | Self::Discard(_) => vec![Self::Nothing],
            Self::Commit(node, batch) => {
                let mut less = batch.clone();
                let owners = less.iter_mut().filter_map(|unit| match &mut unit.act {
                    Act::Start(new) => new.owner.take(),
                    _ => None,
                });
                if owners.count() > 0 { vec![Self::Commit(*node, less)] } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    }
}

impl Ask {
    /// Whether it ends runs that nobody holds.
    pub fn ends_idle(&self) -> bool {
        matches!(self, Self::Commit(_, batch) if batch.iter().any(|unit| matches!(unit.act, Act::EndIdle { .. })))
    }

    /// The first statement before which others can come in between. In most, nothing is locked or read before the
    /// third: a transaction begins, and a node takes its own lock or a client asks the time.
    pub fn first_stop(&self) -> usize {
        if matches!(self, Self::Join(_) | Self::Define(_) | Self::ClaimTasks(_)) { 2 } else { 3 }
    }

    /// Whether it may be held up by the other. A claim is held up by nobody but whoever ends its node.
    pub fn may_wait_for(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Claim(claim), Self::Leave(node) | Self::DeclareDead(_, node)) => claim.node == *node,
            (Self::ClaimTasks(claim), Self::Leave(node) | Self::DeclareDead(_, node)) => claim.node == *node,
            (Self::Claim(_) | Self::ClaimTasks(_), _) => false,
            _ => true,
        }
    }
}

impl Said {
    /// Whether this is an answer that the model gives, too. A claim may think that there is more when there is not.
    pub fn agrees_with(&self, model: &Self) -> bool {
        match (self, model) {
            (
                Self::Claimed { runs, looks_again, .. },
                Self::Claimed { runs: theirs, looks_again: needed, .. },
            ) => runs == theirs && (*looks_again || !needed),
            _ => self == model,
        }
    }

    /// Whether this is a claim that got the same runs as in the model, before a child sent something.
    pub fn is_before(&self, model: &Self) -> bool {
        match (self, model) {
            (Self::Claimed { unread, looks_again, .. }, Self::Claimed { unread: theirs, .. }) => {
                unread == theirs && *looks_again
            }
            _ => false,
        }
    }

    /// Whether this is what the model answers when less is done. Whoever claims must know that there is more; what is
    /// passed over when own runs are freed is looked for again with the next poll.
    pub fn agrees_with_less(&self, model: &Self, ask: &Ask) -> bool {
        match (self, model) {
            (Self::Claimed { runs, looks_again, .. }, Self::Claimed { runs: theirs, .. }) => {
                let frees = matches!(ask, Ask::Claim(claim) if claim.free_own);
                runs == theirs && (*looks_again || frees)
            }
            (Self::Claimed { count, looks_again, .. }, Self::Words(nothing)) => {
                let frees = matches!(ask, Ask::Claim(claim) if claim.free_own);
                *count == 0 && nothing.is_empty() && (*looks_again || frees)
            }
            (Self::Words(said), Self::Words(nothing)) if said.contains("Busy") => nothing.is_empty(),
            _ => self == model,
        }
    }
}

fn claimed(answer: Result<Claimed, StoreError>) -> Said {
    match answer {
        Ok(mut claimed) => {
            claimed.runs.iter_mut().for_each(|image| count(&mut image.inbox));
            let is_due = claimed.next_due.is_some_and(|due| due <= claimed.now);
            let runs = format!("{:?}", claimed.runs);
            for image in &mut claimed.runs {
                image.inbox.retain(|row| &*row.topic != CHILD);
                count(&mut image.inbox);
            }
            Said::Claimed {
                runs,
                unread: format!("{:?}", claimed.runs),
                count: claimed.runs.len(),
                looks_again: claimed.more || is_due,
            }
        }
        Err(error) => Said::Words(show::<()>(Err(error))),
    }
}

/// An answer in words.
pub fn show<T: Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => format!("{error:?}"),
    }
}

/// A run as it can be compared: stores number messages as they like.
pub fn comparable(mut image: RunImage) -> RunImage {
    count(&mut image.inbox);
    image
}

/// A node as it can be compared.
pub fn nameless(row: &mut NodeRow) {
    row.pid = 0;
    row.host.clear();
}

fn count(inbox: &mut [InboxRow]) {
    for (number, row) in (1..).zip(inbox) {
        row.seq = number;
    }
}
