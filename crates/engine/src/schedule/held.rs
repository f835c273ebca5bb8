//! A claimed schedule or trigger, and what becomes of it when its turn fails.

use std::{sync::Arc, time::Duration};

use windlass_core::{ClaimId, NodeId, RunId, RunState, format_duration, schedule::Backoff};
use windlass_store::{Act, Place, RunImage, Unit, Wait};

use super::happening::cut;
use crate::{Error, node::Node};

/// What the reason of a wait begins with whose turn has failed.
const TROUBLE: &str = "its turn failed: ";

/// A claimed schedule or trigger.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) run: RunId,
    pub(crate) claim: ClaimId,
    pub(crate) holder: NodeId,
}

impl Held {
    /// Puts off a turn that failed: it is taken again after a while, by whoever claims it then, with all that it was told.
    ///
    /// It is not blocked as a run would be whose code does not fit. Other code is not what it waits for, and nobody looks
    /// at it who could free it: what failed was the store, a codec, or an older program, and each may come right by itself.
    pub(crate) fn postpone(self, node: &Arc<Node>, image: &RunImage, topics: &[&str], error: &Error) {
        let pause = node.keeper.failed(self.run);
        let again = format_duration(pause);
        tracing::error!(run = %self.run, workflow = %image.run.workflow, key = image.run.key, %error, again, "a turn failed");
        let until = node.hub.clock.now() + pause;
        // What lies there unread must not wake it at once.
        let is_new = |topic: &&&str| image.inbox.iter().all(|row| row.topic != **topic);
        let wait = Wait {
            state: RunState::Suspended,
            until: Some(until),
            topics: topics.iter().filter(is_new).map(|topic| (*topic).to_owned()).collect(),
            reason: Some(cut(format!("{TROUBLE}{error}"))),
            blocked_by: None,
        };
        let park = Act::Park { claim: self.claim, steps: Vec::new(), consumed: Vec::new(), wait };
        let keeper = Arc::clone(node);
        node.hub.committer.submit_group(self.holder, vec![Unit { run: self.run, act: park }], move |fates| {
            tracing::debug!(run = %self.run, ?fates, "the turn was put off");
            keeper.due(Some(until));
            keeper.claim.notify_one();
            self.leave(&keeper);
        });
    }

    /// Ends the turn, and gives back the room that it took.
    pub(crate) fn leave(self, node: &Node) {
        node.keeper.leave(node, self.run, self.claim);
    }
}

/// How long after so many failures in a row a turn is taken again.
pub(super) fn pause_after(failures: u32) -> Duration {
    Backoff::default().jitter(0.0).delay(failures, 0.0)
}

/// Why the last turn of a schedule or a trigger failed, if it did and was not taken again yet.
pub(crate) fn trouble(image: &RunImage) -> Option<String> {
    let Place::Waiting(wait) = &image.standing.place else { return None };
    wait.reason.as_ref()?.strip_prefix(TROUBLE).map(str::to_owned)
}
