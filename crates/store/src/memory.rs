//! The reference model.

mod claim;
mod commit;
mod discard;
mod fault;
mod figures;
mod node;
mod queue;
mod spread;
mod state;

use std::{
    future::{pending, ready},
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use windlass_core::{NodeId, RunId, Time};

pub use self::fault::{Call, Moment, Side, Verdict};
use self::{fault::Process, state::State};
use crate::{
    Aged, AgedRun, Answer, Backlog, Cell, Claim, Claimed, Count, Death, DefinitionId, DefinitionRow, Discard,
    End, Heartbeat, Hint, InboxRow, Joined, LogLine, Looked, NewNode, NodeRow, Page, Pulse, Query,
    QueueChange, QueueChanged, QueueRow, Refusal, RunImage, SpreadClaim, SpreadClaimed, SpreadRow, StepRow,
    Store, StoreError, Swapped, Swept, Tally, Unit, Versions, Written,
};

/// A store that keeps everything in memory: the shortest code that is right.
///
/// It is the model that every other store must agree with, and what tests of engines run on. A call is done
/// when it returns, so its answer is there at the first poll: it needs no runtime and no threads, and
/// virtual time never waits for it.
///
/// A `Memory` is a handle, as a process would have one. Clones are the same handle;
/// [`Memory::process`] makes another one on the same state. A handle can be made to fail, to lose answers
/// and to crash: see [`Memory::on_call`], [`Memory::crash`] and [`Memory::kill`].
///
/// Its hints go to everybody, the one who caused them included: [`Hint::Changed`] when a run became ready,
/// got an inbox row, ended, or published something or took it back; [`Hint::Gone`] when a node's process ended by [`Memory::kill`] or
/// [`Memory::crash`].
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
    process: Arc<Process>,
}

/// What the handles on one state have in common.
struct Shared {
    clock: Box<dyn Fn() -> Time + Send + Sync>,
    state: Mutex<State>,
    hints: broadcast::Sender<Hint>,
}

impl Memory {
    /// An empty store that asks `clock` for the time, once in each call. A clock that goes back is held at
    /// the latest time it gave.
    #[must_use]
    pub fn new(clock: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        let shared = Shared {
            clock: Box::new(clock),
            state: Mutex::new(State::default()),
            hints: broadcast::Sender::new(256),
        };
        Self { shared: Arc::new(shared), process: Arc::default() }
    }

    /// Another handle on the same state, as another process would have it: crashing one leaves the other
    /// alone, and it has no hook yet.
    #[must_use]
    pub fn process(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), process: Arc::default() }
    }

    /// Sets what is asked before and after each call through this handle (and its clones), in place of what
    /// was set before. By default every call proceeds.
    ///
    /// The hook is called without any lock held, so it may use the store itself (through another handle, or
    /// it is asked about that too).
    pub fn on_call(&self, hook: impl Fn(&Moment) -> Verdict + Send + Sync + 'static) {
        self.process.set_hook(hook);
    }

    /// Ends the process of this handle: whatever is asked through it (or its clones) from now on is not
    /// done and never answered, and its nodes are proven to be gone.
    pub fn crash(&self) {
        for node in self.process.end() {
            self.kill(node);
        }
    }

    /// Ends the process of one node: whatever that node asks from now on is not done and never answered, and
    /// the store can prove to the others that it is gone. The handle that it joined through stays usable.
    pub fn kill(&self, node: NodeId) {
        self.shared.state.lock().gone.insert(node);
        self.hint(Hint::Gone(node));
    }

    /// Does one call under the lock, unless the hook, a crash or a kill says otherwise.
    fn call<T: Send + 'static>(
        &self,
        call: Call,
        node: Option<NodeId>,
        work: impl FnOnce(&mut State) -> Result<T, StoreError>,
    ) -> Answer<'_, T> {
        if self.process.has_ended() {
            return Box::pin(pending());
        }
        if let Some(instead) = self.ask(call, node, Side::Before) {
            return instead;
        }
        let answer = {
            let mut state = self.shared.state.lock();
            if node.is_some_and(|node| state.gone.contains(&node)) {
                return Box::pin(pending());
            }
            state.turn_clock((self.shared.clock)());
            work(&mut state)
        };
        if std::mem::take(&mut self.shared.state.lock().changed) {
            self.hint(Hint::Changed);
        }
        if let Some(instead) = self.ask(call, node, Side::After) {
            return instead;
        }
        Box::pin(ready(answer))
    }

    /// What is answered in place of the truth, if the hook has it so.
    fn ask<T: Send + 'static>(&self, call: Call, node: Option<NodeId>, side: Side) -> Option<Answer<'_, T>> {
        match self.process.verdict(&Moment { call, node, side }) {
            Verdict::Proceed => None,
            Verdict::Unavailable => {
                Some(Box::pin(ready(Err(StoreError::Unavailable("made unavailable by a test".into())))))
            }
            Verdict::Silent => Some(Box::pin(pending())),
            Verdict::Crash => {
                self.crash();
                Some(Box::pin(pending()))
            }
        }
    }

    fn hint(&self, hint: Hint) {
        // Nobody may be listening, and that is fine.
        let _ = self.shared.hints.send(hint);
    }
}

impl Store for Memory {
    fn describe(&self) -> String {
        "memory:".into()
    }

    fn join(&self, node: NewNode) -> Answer<'_, Joined> {
        let id = node.id;
        self.call(Call::Join, Some(id), |state| {
            let joined = state.join(node)?;
            self.process.adopt(id);
            Ok(joined)
        })
    }

    fn heartbeat(&self, node: NodeId, pulse: Pulse) -> Answer<'_, Heartbeat> {
        self.call(Call::Heartbeat, Some(node), |state| state.heartbeat(node, pulse))
    }

    fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.call(Call::Leave, Some(node), |state| state.leave(node))
    }

    fn declare_dead(&self, judge: NodeId, condemned: NodeId, why: Death) -> Answer<'_, bool> {
        self.call(Call::DeclareDead, Some(judge), |state| state.declare_dead(judge, condemned, why))
    }

    fn sweep(&self, judge: NodeId, limit: usize) -> Answer<'_, Swept> {
        self.call(Call::Sweep, Some(judge), |state| state.sweep(judge, limit))
    }

    fn commit(
        &self,
        node: Option<NodeId>,
        batch: Arc<Vec<Unit>>,
    ) -> Answer<'_, Vec<Result<Written, Refusal>>> {
        self.call(Call::Commit, node, |state| state.commit(node, &batch))
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        self.call(Call::Claim, Some(request.node), |state| state.claim(&request))
    }

    fn look(&self, request: Claim) -> Answer<'_, Looked> {
        self.call(Call::Read, Some(request.node), |state| Ok(state.look(&request)))
    }

    fn change_queue(&self, queue: Arc<str>, change: QueueChange) -> Answer<'_, QueueChanged> {
        self.call(Call::ChangeQueue, None, |state| Ok(state.change_queue(&queue, change)))
    }

    fn queues(&self, only: Option<Arc<str>>) -> Answer<'_, Vec<QueueRow>> {
        self.call(Call::Read, None, |state| Ok(state.queue_rows(only.as_ref())))
    }

    fn claim_tasks(&self, request: SpreadClaim) -> Answer<'_, SpreadClaimed> {
        self.call(Call::ClaimTasks, Some(request.node), |state| state.claim_tasks(&request))
    }

    fn held_tasks(&self, node: NodeId) -> Answer<'_, Vec<SpreadRow>> {
        self.call(Call::Read, Some(node), |state| Ok(state.held_tasks(node)))
    }

    fn unblock(&self, node: NodeId, workflows: Vec<(Arc<str>, DefinitionId)>) -> Answer<'_, usize> {
        self.call(Call::Unblock, Some(node), |state| state.unblock(node, &workflows))
    }

    fn define(&self, definition: DefinitionRow) -> Answer<'_, DefinitionId> {
        self.call(Call::Define, None, |state| Ok(state.define(definition)))
    }

    fn definition(&self, id: DefinitionId) -> Answer<'_, Option<DefinitionRow>> {
        self.call(Call::Read, None, |state| Ok(state.definition(id)))
    }

    fn definitions(&self, which: Versions) -> Answer<'_, Vec<(DefinitionId, DefinitionRow)>> {
        self.call(Call::Read, None, |state| Ok(state.versions(&which)))
    }

    fn load(&self, run: RunId) -> Answer<'_, Option<RunImage>> {
        self.call(Call::Read, None, |state| Ok(state.runs.get(&run).map(|kept| kept.image.clone())))
    }

    fn inbox(&self, node: NodeId, only: Option<Vec<RunId>>) -> Answer<'_, Vec<InboxRow>> {
        self.call(Call::Read, Some(node), |state| Ok(state.inbox(node, only.as_deref())))
    }

    fn ends(&self, runs: Vec<RunId>) -> Answer<'_, Vec<(RunId, End)>> {
        self.call(Call::Read, None, |state| Ok(state.ends(runs)))
    }

    fn by_key(&self, workflow: Arc<str>, key: String) -> Answer<'_, Option<RunId>> {
        self.call(Call::Read, None, |state| Ok(state.live_key(&workflow, &key).map(|key| key.run)))
    }

    fn find(&self, query: Query) -> Answer<'_, Page> {
        self.call(Call::Read, None, |state| Ok(state.find(&query)))
    }

    fn count(&self, query: Query, look: usize) -> Answer<'_, Vec<Count>> {
        self.call(Call::Read, None, |state| Ok(state.count(query, look)))
    }

    fn backlog(&self, _: usize) -> Answer<'_, Backlog> {
        self.call(Call::Read, None, |state| Ok(state.backlog()))
    }

    fn outlines(&self, runs: Vec<RunId>, limit: usize) -> Answer<'_, Vec<(RunId, Vec<StepRow>)>> {
        self.call(Call::Read, None, |state| Ok(state.outlines(&runs, limit)))
    }

    fn tally(&self, add: Vec<Tally>) -> Answer<'_, ()> {
        self.call(Call::Note, None, |state| {
            state.tally(add);
            Ok(())
        })
    }

    fn tallies(&self, since: Time) -> Answer<'_, Vec<Tally>> {
        self.call(Call::Read, None, |state| Ok(state.tallies(since)))
    }

    fn add_log(&self, lines: Vec<LogLine>) -> Answer<'_, ()> {
        self.call(Call::Note, None, |state| {
            state.add_log(lines);
            Ok(())
        })
    }

    fn log(&self, run: RunId) -> Answer<'_, Vec<LogLine>> {
        self.call(Call::Read, None, |state| Ok(state.logs.get(&run).cloned().unwrap_or_default()))
    }

    fn aged(&self, request: Aged) -> Answer<'_, Vec<AgedRun>> {
        self.call(Call::Read, None, |state| Ok(state.aged(&request)))
    }

    fn discard(&self, request: Discard) -> Answer<'_, Vec<Result<(), Refusal>>> {
        self.call(Call::Discard, request.node, |state| state.discard(&request))
    }

    fn cell(&self, name: Arc<str>) -> Answer<'_, Option<Cell>> {
        self.call(Call::Read, None, |state| Ok(state.cells.get(&name).cloned()))
    }

    fn swap_cell(
        &self,
        node: Option<NodeId>,
        name: Arc<str>,
        version: u64,
        body: Bytes,
    ) -> Answer<'_, Swapped> {
        self.call(Call::SwapCell, node, |state| state.swap_cell(node, name, version, body))
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeRow>> {
        self.call(Call::Read, None, |state| Ok(state.nodes.values().cloned().collect()))
    }

    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.shared.hints.subscribe()
    }
}

#[cfg(test)]
mod tests;
