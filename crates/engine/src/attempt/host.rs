//! Whom an attempt belongs to.

use std::sync::Arc;

use tokio::sync::Semaphore;
use windlass_core::{Failure, LaneId, Time};

use crate::{
    Done,
    guest::Guest,
    node::Node,
    run_loop::{Mail, RunCell, Subject},
};

/// Whom an attempt belongs to.
#[derive(Clone)]
pub(crate) enum Host {
    /// A run that this node holds.
    Home(Arc<RunCell>),
    /// A run that another node holds, or this one: the attempt was published, and is delivered to it.
    Away(Arc<Guest>),
}

impl Host {
    pub(crate) fn node(&self) -> &Arc<Node> {
        match self {
            Self::Home(cell) => &cell.node,
            Self::Away(guest) => &guest.node,
        }
    }

    pub(crate) fn subject(&self) -> &Subject {
        match self {
            Self::Home(cell) => &cell.subject,
            Self::Away(guest) => &guest.subject,
        }
    }

    /// The slots of the queue that the attempt is in.
    pub(crate) fn slots(&self) -> &Arc<Semaphore> {
        match self {
            Self::Home(cell) => &cell.slots,
            Self::Away(guest) => &guest.slots,
        }
    }

    /// Says how the attempt ended, on a thread of the user's runtime.
    pub(super) fn ended(&self, lane: LaneId, started_at: Time, outcome: Result<Done, Failure>) {
        match self {
            Self::Home(cell) => {
                cell.deliver(Mail::Ended { lane, started_at, outcome: Some(Box::new(outcome)) });
            }
            Self::Away(guest) => guest.ended(started_at, outcome),
        }
    }

    /// Says that the attempt was cut off; `asked` when somebody wanted that.
    pub(super) fn cut(&self, lane: LaneId, started_at: Time, asked: bool) {
        match self {
            Self::Home(cell) if asked => cell.tell(Mail::Ended { lane, started_at, outcome: None }),
            // Nobody asked for this: the lease is lost, or the runtime goes down. Nothing may begin again.
            Self::Home(cell) => cell.tell(Mail::Vanish),
            Self::Away(guest) => guest.cut(),
        }
    }
}
