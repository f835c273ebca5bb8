//! Taking the turns of batches.

use std::{sync::Arc, time::Duration};

use windlass_core::{ClaimId, NodeId};
use windlass_store::RunImage;

use super::{
    ledger::Ledger,
    message::TOPICS,
    turn::{Taken, take},
};
use crate::{
    AnyWorkflow, Error, Failure, Task, TaskCx, Workflow,
    committer::{Fate, Lost},
    metric,
    node::Node,
    schedule::{Guard, Held},
};

/// The workflow whose runs are batches.
pub(crate) const WORKFLOW: &str = "windlass.batch";

/// Inboxes with more than this are read where that holds up nobody.
const LARGE: usize = 256 << 10;

/// The workflow that the run of a batch is of. Its code is never executed.
pub(crate) fn own_workflow() -> Result<AnyWorkflow, Error> {
    let never = |_: TaskCx| async { Err::<(), _>(Failure::permanent("a batch has no code of its own")) };
    let workflow = Workflow::builder(WORKFLOW).version("1").task(Task::new("keep", never)).build();
    workflow.map(Into::into).map_err(|error| Error::Store(error.to_string()))
}

/// Takes a turn of a batch that was claimed.
pub(crate) fn take_up(node: &Arc<Node>, holder: NodeId, claim: ClaimId, image: RunImage) {
    let held = Held { run: image.run.id, claim, holder };
    if !held.enter(node) {
        return;
    }
    let keeper = Arc::clone(node);
    node.hub.backroom.spawn(async move {
        let guard = Guard { node: Arc::clone(&keeper), held };
        let image = Arc::new(image);
        match decide(&guard.node, held, &image).await {
            Ok(Some(taken)) => commit(&keeper, held, image.standing.generation, taken),
            Ok(None) => held.give_up(&keeper, &"it was read before its last turn was written"),
            Err(error) => held.postpone(&keeper, &image, &TOPICS, &error),
        }
    });
}

/// Takes the turn: here, unless there is so much to read that others would notice. Answers nothing if the image is old.
async fn decide(node: &Arc<Node>, held: Held, image: &Arc<RunImage>) -> Result<Option<Taken>, Error> {
    let ledger = Ledger::read(&node.hub, image)?;
    if node.keeper.is_old(held.run, (image.standing.generation, ledger.turn)) {
        return Ok(None);
    }
    let bytes: usize = image.inbox.iter().map(|row| row.body.len()).sum();
    let (keeper, image) = (Arc::clone(node), Arc::clone(image));
    let take =
        move || take(&keeper.hub, held, &image, ledger, |error| put_off(&keeper, held, error)).map(Some);
    if bytes < LARGE {
        return take();
    }
    let taken = node.user.spawn_blocking(take).await;
    taken.unwrap_or_else(|error| Err(Error::Store(format!("the engine failed in this batch: {error}"))))
}

/// For how long items are put off that cannot be read. Whoever passes them again and again says so once.
fn put_off(node: &Node, held: Held, error: &Error) -> Duration {
    if !node.keeper.has_failed(held.run) {
        tracing::error!(run = %held.run, %error, "some items of a batch cannot be read, and stay where they are");
    }
    node.keeper.failed(held.run)
}

/// Writes all that the turn came to, or nothing.
fn commit(node: &Arc<Node>, held: Held, generation: u32, taken: Taken) {
    let Taken { units, starts, workflow, wake, turn, is_stuck } = taken;
    let keeper = Arc::clone(node);
    node.hub.committer.submit_group(held.holder, units, move |mut fates| {
        match fates.pop() {
            Some(Ok(_)) => {
                keeper.keeper.wrote(held.run, (generation, turn));
                if !is_stuck {
                    keeper.keeper.succeeded(held.run);
                }
                let workflow = Arc::from(workflow);
                fates.iter().take(starts.len()).for_each(|fate| note_start(held, &workflow, fate));
            }
            Some(Err(Lost::Failed(why))) => return held.give_up(&keeper, &why),
            lost => tracing::debug!(batch = %held.run, ?lost, "the batch was not ours to keep"),
        }
        // An answer that was lost comes as a refusal the second time: see the schedules.
        keeper.due(wake);
        keeper.claim.notify_one();
        held.leave(&keeper);
    });
}

fn note_start(held: Held, workflow: &Arc<str>, fate: &Fate) {
    match fate {
        Ok(_) => metric::run_started(workflow),
        // A start without a key, whose names were checked when it was declared, is refused by no store.
        Err(why) => tracing::error!(batch = %held.run, %workflow, ?why, "a run of a batch was not started"),
    }
}
