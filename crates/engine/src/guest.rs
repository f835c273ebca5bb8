//! A published attempt that this node executes.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::AbortHandle};
use windlass_core::{Failure, Time};
use windlass_store::{Act, SpreadKey, SpreadRow, Unit, Written};

use crate::{
    Cx, Done,
    boxed::boxed,
    committer::{Fate, Lost, Reply},
    node::Node,
    report::{Ending, Report},
    run_loop::Subject,
};

/// A published attempt that this node executes, whoever holds its run.
pub(crate) struct Guest {
    pub(crate) node: Arc<Node>,
    /// Its run; the claim is that of the attempt.
    pub(crate) subject: Subject,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) row: SpreadRow,
    live: Mutex<Option<Live>>,
}

/// An attempt that was begun.
struct Live {
    cx: Cx,
    task: AbortHandle,
    /// Whether dropping it would not stop its code.
    is_blocking: bool,
}

impl Guest {
    pub(crate) fn new(node: &Arc<Node>, subject: Subject, row: SpreadRow) -> Arc<Self> {
        let slots = node.slots.of(&row.queue);
        Arc::new(Self { node: Arc::clone(node), subject, slots, row, live: Mutex::default() })
    }

    pub(crate) fn key(&self) -> &SpreadKey {
        &self.row.key
    }

    /// Notes that the attempt was begun.
    pub(crate) fn begun(&self, cx: Cx, task: AbortHandle, is_blocking: bool) {
        *self.live.lock() = Some(Live { cx, task, is_blocking });
        // Whoever told all guests something may have come too early for this one.
        if !self.node.is(self.subject.holder) {
            self.vanish();
        } else if self.node.guests.is_given_up() {
            self.give_up();
        } else if self.node.stopping.is_cancelled() {
            self.call_off();
        }
    }

    /// Keeps the attempt from beginning, if it waits for its slot.
    pub(crate) fn call_off(&self) {
        if let Some(live) = &*self.live.lock() {
            live.cx.inner().call_off.set();
        }
    }

    /// Tells the attempt to stop, gives it its grace, then drops it: nobody wants to hear of it any more.
    pub(crate) fn stop(&self) {
        let live = self.live.lock();
        let Some(live) = &*live else { return };
        if live.cx.is_cancelled() {
            return;
        }
        live.cx.inner().stop.set();
        let (abort, grace) = (live.task.clone(), self.node.options.cancel_grace);
        self.node.user.spawn(boxed(async move {
            tokio::time::sleep(grace).await;
            abort.abort();
        }));
    }

    /// Drops the attempt at once. Nobody else may execute what this process cannot stop, so that is left alone.
    pub(crate) fn give_up(&self) {
        if let Some(live) = &*self.live.lock() {
            live.cx.inner().stop.set();
            if !live.is_blocking {
                live.task.abort();
            }
        }
    }

    /// Drops the attempt at once: this process may not act for it any more.
    pub(crate) fn vanish(&self) {
        if let Some(live) = &*self.live.lock() {
            live.cx.inner().stop.set();
            live.task.abort();
        }
    }

    /// The attempt was dropped. Whoever asked for that needs no word; else its row is freed with the node's name.
    pub(crate) fn cut(self: &Arc<Self>) {
        self.node.part_with(self);
    }

    /// Delivers how the attempt ended.
    pub(crate) fn ended(self: &Arc<Self>, started_at: Time, outcome: Result<Done, Failure>) {
        let ending = match outcome {
            Ok(done) => Ending::Done(done),
            Err(failure) => Ending::Failed(failure),
        };
        self.report(started_at, ending);
    }

    pub(crate) fn report(self: &Arc<Self>, started_at: Time, ending: Ending) {
        let (generation, key) = (self.row.generation, self.row.key.clone());
        let report = |ending| Report { generation, key: key.clone(), started_at, ending };
        let hub = &self.node.hub;
        let encoded = report(ending)
            .encode(hub)
            .or_else(|error| report(Ending::Failed(Failure::permanent(Failure::from(error)))).encode(hub));
        match encoded {
            Ok(outcome) => {
                let (claim, task) = (self.subject.claim, key.clone());
                self.deliver(Act::Deliver { claim, task, outcome });
            }
            Err(error) => {
                let (run, step) = (self.subject.run, &key.step);
                tracing::error!(%run, %step, %error, "an outcome cannot be written; another node has to try");
                self.node.part_with(self);
            }
        }
    }

    fn deliver(self: &Arc<Self>, act: Act) {
        let guest = Arc::clone(self);
        let reply = move |fate, _| guest.delivered(fate);
        let unit = Unit { run: self.subject.run, act };
        self.node.hub.committer.submit(self.subject.holder, unit, Reply::Then(Box::new(reply)));
    }

    fn delivered(self: &Arc<Self>, fate: Fate) {
        let (run, step) = (self.subject.run, &self.row.key.step);
        match fate {
            Ok(Written::TooLate) => {
                tracing::debug!(%run, %step, "the outcome of a published attempt came too late");
            }
            Ok(_) => {
                self.node.throughput.note(&self.row.queue, self.node.hub.clock.now());
                self.node.delivered_to(run);
            }
            Err(Lost::Fenced) => {
                tracing::debug!(%run, %step, "an outcome was not delivered: the node lost its lease");
            }
            Err(Lost::Refused(why)) => tracing::error!(%run, %step, %why, "an outcome was refused"),
            Err(Lost::Failed(why)) => tracing::error!(%run, %step, %why, "an outcome could not be delivered"),
        }
        self.node.part_with(self);
    }
}
