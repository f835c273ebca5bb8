//! Whom an attempt belongs to.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};
use windlass_core::{Failure, LaneId, Time};
use windlass_store::{Act, Unit, Written};

use crate::{
    Done,
    committer::{Lost, Reply},
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

    /// Keeps a value for the next attempt.
    pub(crate) async fn save(&self, step: Arc<str>, json: Bytes) -> Result<(), Failure> {
        let (subject, hub) = (self.subject(), &self.node().hub);
        let value = hub.keep(format_args!("what `{step}` saves"), json).map_err(Failure::from)?;
        let (sender, fate) = oneshot::channel();
        let claim = subject.claim;
        let act = match self {
            Self::Home(_) => Act::Save { claim, step, value },
            Self::Away(guest) => Act::SaveSpread { claim, task: guest.key().clone(), value },
        };
        // An attempt that was dropped meanwhile does not want to know.
        let reply = Reply::Then(Box::new(move |fate, _| drop(sender.send(fate))));
        hub.committer.submit(subject.holder, Unit { run: subject.run, act }, reply);
        match fate.await {
            Ok(Ok(Written::TooLate)) => {
                Err(Failure::new("the value was not saved: the attempt was withdrawn"))
            }
            Ok(Ok(_)) => Ok(()),
            Ok(Err(Lost::Refused(why))) => Err(Failure::new(format!("the value was not saved: {why}"))),
            Ok(Err(Lost::Failed(why))) => Err(Failure::new(format!("the value was not saved: {why}"))),
            Ok(Err(Lost::Fenced)) | Err(_) => {
                Err(Failure::new("the value was not saved: the node lost its lease"))
            }
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
