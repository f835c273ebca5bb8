//! A claimed schedule or trigger, and what becomes of it when its turn fails.

use std::{fmt, sync::Arc, thread, time::Duration};

use tokio::sync::oneshot;
use windlass_core::{ClaimId, NodeId, RunId, RunState, format_duration, schedule::Backoff};
use windlass_store::{Act, Place, RunImage, Unit, Wait};

use super::{happening::cut, keeper::Entry};
use crate::{Error, committer::Lost, node::Node};

/// What the reason of a wait begins with whose turn has failed.
const TROUBLE: &str = "its turn failed: ";

/// How long what only a newer program can do is put off at most.
const NEWERS: Duration = Duration::from_secs(5);

/// A claimed schedule or trigger.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) run: RunId,
    pub(crate) claim: ClaimId,
    pub(crate) holder: NodeId,
}

impl Held {
    /// Begins the turn. Answers whether it is to be taken: see [`Keeper::enter`](super::keeper::Keeper::enter).
    pub(crate) fn enter(self, node: &Arc<Node>) -> bool {
        let entry = node.keeper.enter(self.run, self.claim);
        if entry == Entry::Taken {
            self.give_back(node);
        }
        entry == Entry::Free
    }

    /// Gives back a run that came again under a claim whose turn was taken. If that was an old image, the store refuses;
    /// if the claim itself arrived twice, the run is held, and nobody else would ever take it.
    fn give_back(self, node: &Arc<Node>) {
        let (keeper, act) = (Arc::clone(node), Act::Release { claim: self.claim });
        node.hub.committer.submit_group(self.holder, vec![Unit { run: self.run, act }], move |fates| {
            tracing::debug!(run = %self.run, ?fates, "a run whose turn was taken came again, and is given back");
            keeper.claim.notify_one();
        });
    }

    /// Puts off a turn that failed: it is taken again after a while, by whoever claims it then, with all that it was told.
    ///
    /// It is not blocked as a run would be whose code does not fit. Other code is not what it waits for, and nobody looks
    /// at it who could free it: what failed was the store, a codec, or an older program, and each may come right by itself.
    pub(crate) fn postpone(self, node: &Arc<Node>, image: &RunImage, topics: &[&str], error: &Error) {
        let pause = node.keeper.failed(self.run);
        // A newer program that is there goes on with it, and must not have to wait for long because this one was quicker.
        let is_newers = matches!(error, Error::Newer { .. });
        let pause = if is_newers { pause.min(NEWERS) } else { pause };
        let again = format_duration(pause);
        tracing::error!(run = %self.run, workflow = %image.run.workflow, key = image.run.key, %error, again, "a turn failed");
        let until = node.hub.clock.now() + pause;
        // What lies there unread must not wake it at once.
        let is_new = |topic: &&&str| image.inbox.iter().all(|row| row.topic != **topic);
        let wait = Wait {
            state: RunState::Suspended,
            until: Some(until),
            topics: topics.iter().filter(is_new).map(|topic| (*topic).to_owned()).collect(),
            reason: Some(said(error)),
            blocked_by: None,
        };
        let park = Act::Park { claim: self.claim, steps: Vec::new(), consumed: Vec::new(), wait };
        let keeper = Arc::clone(node);
        node.hub.committer.submit_group(self.holder, vec![Unit { run: self.run, act: park }], move |fates| {
            if let Some(Err(Lost::Failed(why))) = fates.last() {
                return self.give_up(&keeper, why);
            }
            tracing::debug!(run = %self.run, ?fates, "the turn was put off");
            if !is_newers {
                keeper.due(Some(until));
                keeper.claim.notify_one();
            }
            self.leave(&keeper);
        });
    }

    /// Gives up a run of which the store takes nothing, after a while: held by a process that lives, nobody else would take
    /// it.
    pub(crate) fn give_up(self, node: &Arc<Node>, why: &dyn fmt::Display) {
        tracing::error!(run = %self.run, %why, "a turn could not be written, and is taken again");
        let keeper = Arc::clone(node);
        node.hub.backroom.spawn(async move {
            while self.pause(&keeper).await && !self.release(&keeper).await {}
            self.leave(&keeper);
            keeper.claim.notify_one();
        });
    }

    /// Waits until it is worth another try. Answers whether the run is still this node's.
    async fn pause(self, node: &Node) -> bool {
        tokio::select! {
            () = tokio::time::sleep(node.keeper.failed(self.run)) => node.is(self.holder),
            () = node.hub.closed.cancelled() => false,
        }
    }

    /// Lets anybody claim it. Answers whether the store has said anything to that.
    async fn release(self, node: &Node) -> bool {
        let (sender, answer) = oneshot::channel();
        let release = Unit { run: self.run, act: Act::Release { claim: self.claim } };
        node.hub.committer.submit_group(self.holder, vec![release], move |mut fates| {
            // Whoever waited for it has gone with its process.
            drop(sender.send(fates.pop()));
        });
        !matches!(answer.await, Ok(Some(Err(Lost::Failed(_)))))
    }

    /// Ends the turn.
    pub(crate) fn leave(self, node: &Node) {
        node.keeper.leave(self.run, self.claim);
    }
}

/// Gives up a run whose turn panics: a mistake of ours must not leave it with a process that does nothing about it.
pub(crate) struct Guard {
    pub(crate) node: Arc<Node>,
    pub(crate) held: Held,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.held.give_up(&self.node, &"the engine panicked");
        }
    }
}

/// How long after so many failures in a row a turn is taken again.
pub(super) fn pause_after(failures: u32) -> Duration {
    Backoff::default().jitter(0.0).delay(failures, 0.0)
}

/// What the wait of a run says whose turn failed, so that [`trouble`] finds it.
pub(crate) fn said(error: &Error) -> String {
    cut(format!("{TROUBLE}{error}"))
}

/// Why the last turn of a schedule or a trigger failed, if it did and was not taken again yet.
pub(crate) fn trouble(image: &RunImage) -> Option<String> {
    let Place::Waiting(wait) = &image.standing.place else { return None };
    wait.reason.as_ref()?.strip_prefix(TROUBLE).map(str::to_owned)
}
