//! Visits of states: a state machine is a durable function that goes from one to the next.
//!
//! What a visit came to is one record. Once it is there, the visit's code is not run again, and what it called is passed
//! over. Only when the run does not complete is every such visit looked back at, for the undos that it registered.

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use windlass_core::{ByName, CallKind, Detail, Failure, Kept, StepKind, Time, visit_of};
use windlass_store::StepRow;

use super::{
    Flow, Scene, SleepWait,
    scene::{Call, Outcome, State, Status, Then, Turn},
    waker::for_ours,
};
use crate::{Body, Cx, run_loop::RunCell};

/// The call that ends a visit, or an attempt of it, when it has taken too long.
pub(crate) const TIMEOUT: &str = "/timeout";
/// The call by which a visit waits until it may begin.
pub(crate) const RATE: &str = "/rate";

/// The call by which a split ends with what there is.
pub(crate) const ENOUGH: &str = "/enough";

/// Whether a call belongs to one attempt of its visit, and not to the visit.
pub(super) fn is_passing(id: &str) -> bool {
    visit_of(id).is_some_and(|visit| matches!(&id[visit.len() + 1..], TIMEOUT | RATE | ENOUGH))
}

/// Marks what was called in visits that are over.
pub(super) fn mark_past(kept: &mut [Kept]) {
    let over: HashSet<Arc<str>> =
        kept.iter().filter(|kept| kept.kind == CallKind::Visit).map(|kept| Arc::clone(&kept.name)).collect();
    for kept in kept {
        kept.is_past = visit_of(&kept.name).is_some_and(|visit| over.contains(visit));
    }
}

/// What was undone, up to which generation of the run.
pub(super) struct Undone {
    calls: HashMap<Arc<str>, u32>,
    visits: HashMap<Arc<str>, u32>,
    /// The generation up to which visits do not count any more, since an earlier one has to be made again.
    stale: Option<u32>,
}

impl Undone {
    /// What these records say. Names of calls begin at this place.
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a StepRow>, begin: usize) -> Self {
        let (mut calls, mut visits) = (HashMap::new(), HashMap::new());
        for row in rows.filter(|row| row.kind == StepKind::Completed) {
            let Some(id) = row.name[begin..].strip_suffix("/undo") else { continue };
            let note = |map: &mut HashMap<Arc<str>, u32>, id: &str| {
                let generation = map.entry(id.into()).or_default();
                *generation = row.generation.max(*generation);
            };
            note(&mut calls, id);
            if let Some(visit) = visit_of(id) {
                note(&mut visits, visit);
            }
        }
        Self { calls, visits, stale: None }
    }

    /// Whether a call of this generation was undone: it counts as not made.
    ///
    /// So does a visit if something that it did was undone, or something that a visit before it did: its data is not what
    /// it would be now. Asked in the order of recording.
    pub(super) fn has(&mut self, id: &str, kind: CallKind, generation: u32) -> bool {
        let undone = |map: &HashMap<Arc<str>, u32>| map.get(id).copied().filter(|last| *last >= generation);
        if kind != CallKind::Visit {
            // With the task that it was started by, a child is undone too.
            let whole = self.calls.get("").filter(|last| kind == CallKind::Child && **last >= generation);
            return whole.is_some() || undone(&self.calls).is_some();
        }
        self.stale = self.stale.max(undone(&self.visits));
        self.stale.is_some_and(|stale| stale >= generation)
    }
}

/// One visit of a state.
pub(crate) struct Visit {
    /// What its code calls. Its calls are known by the visit.
    pub(crate) flow: Flow,
    state: &'static str,
}

impl Flow {
    /// The next visit of a state.
    pub(crate) fn visit(&self, state: &'static str) -> Visit {
        let id = self.scene.state().journal.upcoming(state);
        Visit { flow: Flow::new(Arc::clone(&self.scene), self.cx.clone(), id), state }
    }

    pub(crate) fn cell(&self) -> &Arc<RunCell> {
        &self.scene.cell
    }

    /// What the visit is known by.
    pub(crate) const fn visit_id(&self) -> &Arc<str> {
        &self.within
    }

    /// Whether this call of the visit is recorded.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.scene.state().journal.has(&windlass_core::within(&self.within, name))
    }

    /// Whether the code is being run again, and has not come to where it stopped before.
    pub(crate) fn is_behind(&self) -> bool {
        let state = self.scene.state();
        state.journal.is_behind() || state.looking_back.is_some()
    }

    /// A wait of the engine's own, before the code goes on.
    pub(crate) fn pause(&self, name: &str, until: Time) -> SleepWait<'_> {
        SleepWait::pause(Ok(&self.scene), &self.within, name, until)
    }

    /// A wait of the engine's own, beside what the code waits for.
    pub(crate) fn aside(&self, name: &str, until: Time) -> SleepWait<'_> {
        SleepWait::aside(&self.scene, &self.within, name, until)
    }
}

impl Visit {
    fn id(&self) -> &Arc<str> {
        &self.flow.within
    }

    fn scene(&self) -> &Arc<Scene> {
        &self.flow.scene
    }

    /// Whether what it came to is recorded.
    pub(crate) fn is_over(&self) -> bool {
        self.scene().state().journal.has(self.id())
    }

    /// What it came to. Its code is not run, but can be looked back at.
    pub(crate) async fn read<T: DeserializeOwned>(
        self,
        look_back: impl FnOnce(Flow) -> Looking + Send + 'static,
    ) -> Result<Bytes, Failure> {
        let json = self.heard(self.call()?).await?;
        if self.scene().read::<T>(self.id(), Outcome::Value(json.clone())).is_pending() {
            // The run waits for code that can read it.
            std::future::pending::<()>().await;
        }
        let look_back = LookBack { visit: Arc::clone(self.id()), body: Box::new(look_back) };
        self.scene().state().passed.push(look_back);
        Ok(json)
    }

    /// Begins it. When attempts of it have failed, the next is waited for. Answers how many, and when this one begins.
    pub(crate) async fn enter(&self) -> (u32, Time) {
        let (now, tried) = self.scene().state().enter(self.id());
        let Some((spent, due)) = tried else { return (0, now) };
        let call = self.scene().state().rest(self.id());
        self.turn(call).await;
        self.scene().forget(call);
        // What is recorded of this attempt counts, if it was begun before.
        self.scene().state().journal.stop_resting();
        (spent, due.map_or(now, |due| due.max(now)))
    }

    /// Records that an attempt has failed, and waits for the next, which begins at the time that is answered.
    pub(crate) async fn again(&self, spent: u32, failure: &Failure, delay: Duration) -> Time {
        let scene = self.scene();
        let call = scene.state().open(Arc::clone(self.id()), CallKind::Visit, None);
        // Nothing that is recorded may be left uncalled.
        self.turn(call).await;
        let now = scene.now();
        let due = now + delay;
        let detail = Detail {
            call: CallKind::Visit,
            failure: Some(Box::new(failure.clone())),
            retry_at: Some(due),
            ..Detail::default()
        };
        let detail = scene.encoded(&detail).await;
        let row = scene.row(self.id(), spent, StepKind::Retrying, now, now, None, detail);
        scene.state().journal.rest();
        scene.state().note_recording(call);
        scene.record(row, Vec::new(), Then::Backoff(Arc::clone(self.id()), spent, due));
        self.turn(call).await;
        scene.forget(call);
        scene.state().begin_again(self.id());
        due
    }

    /// Records what it came to. Children that it started, and nobody waits for any more, end with it.
    pub(crate) async fn end(&self, json: Bytes) -> Result<(), Failure> {
        let (scene, id) = (self.scene(), self.id());
        let kept = scene.cell.node.hub.keep(format_args!("the data of `{id}`"), json.clone());
        let kept = kept.map_err(|error| Failure::permanent(Failure::from(error)))?;
        let call = self.call()?;
        self.turn(call).await;
        if scene.state().has_children() {
            for_ours(scene.stop_children()).await;
        }
        let detail = scene.encoded(&Detail { call: CallKind::Visit, ..Detail::default() }).await;
        scene.state().note_recording(call);
        let now = scene.now();
        let attempt = scene.state().spent(id) + 1;
        let row = scene.row(id, attempt, StepKind::Completed, now, now, Some(kept), detail);
        let then = Then::Ended(Arc::clone(id), CallKind::Visit, now, Outcome::Value(json));
        scene.record(row, Vec::new(), then);
        self.heard(call).await?;
        scene.state().leave();
        Ok(())
    }

    fn call(&self) -> Result<u64, Failure> {
        self.scene().call("", self.state, CallKind::Visit, None)
    }

    async fn heard(&self, call: u64) -> Result<Bytes, Failure> {
        let scene = self.scene();
        let outcome = std::future::poll_fn(|cx| match scene.ended(call, cx.waker()) {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        });
        match outcome.await {
            Outcome::Value(json) => Ok(json),
            Outcome::Nothing => Err(Failure::permanent(format!("nothing is recorded of `{}`", self.id()))),
            Outcome::Failed(failure) => Err(*failure),
        }
    }

    /// Waits until something new may be done.
    async fn turn(&self, call: u64) {
        let scene = self.scene();
        std::future::poll_fn(|cx| match scene.turn(call, cx.waker()) {
            Turn::Begin(..) => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }
}

impl State {
    /// A visit begins. Answers the time, and what earlier attempts of it came to.
    fn enter(&mut self, id: &str) -> (Time, Option<(u32, Option<Time>)>) {
        self.heard = Some(Vec::new());
        self.journal.enter();
        (self.journal.now(), self.tried.get(id).copied())
    }

    /// The present visit waits for its next attempt.
    fn rest(&mut self, id: &Arc<str>) -> u64 {
        self.journal.rest();
        self.open(Arc::clone(id), CallKind::Visit, None)
    }

    /// Whether a visit of a state waits for its next attempt, and the run is to end: what the visit did has to be heard
    /// of first, for its undos.
    pub(super) const fn must_not_rest(&self) -> bool {
        self.closing.is_some() && self.journal.is_resting()
    }

    /// Lets a visit of a state go on that waits for its next attempt, and answers whom to wake.
    pub(super) fn stop_resting(&mut self) -> Vec<Waker> {
        let is_resting =
            |call: &&mut Box<Call>| call.kind == CallKind::Visit && matches!(call.status, Status::Backoff);
        let mut woken = Vec::new();
        for call in self.open.values_mut().filter(is_resting) {
            (call.status, call.due) = (Status::Waiting, None);
            woken.extend(call.waker.clone());
        }
        woken
    }

    /// Whom to wake when a visit waited for what was being recorded of it.
    pub(super) fn ready_visit(&self) -> Option<Waker> {
        let call = self.open.get(&self.turning?)?;
        let waits = matches!(call.status, Status::Waiting) && !self.journal.has(&call.id);
        call.waker.clone().filter(|_| waits && !self.is_recording())
    }

    /// What is recorded of an attempt of a visit that failed is there for the next one: it may ask for it, or not. What
    /// failed is forgotten.
    pub(super) fn void_attempt(&mut self, visit: &str, kept: &mut Vec<Kept>) {
        kept.retain_mut(|kept| {
            let is_mine = visit_of(&kept.name) == Some(visit);
            kept.is_old |= is_mine;
            !is_mine || !void(&mut self.outcomes, kept)
        });
    }

    /// The present visit of a state is made once more, from its top.
    fn begin_again(&mut self, visit: &str) {
        let Self { journal, outcomes, .. } = self;
        journal.begin_again(visit, |kept| void(outcomes, kept));
        let is_mine = |id: &str| visit_of(id) == Some(visit);
        self.undos.retain(|(id, ..)| !is_mine(id));
        self.open.retain(|_, call| !is_mine(&call.id));
        self.waits.retain(|number| self.open.contains_key(number));
        self.numbers.retain(|id, _| !is_mine(id));
    }

    fn look_back(&mut self, visit: &Arc<str>, before: Option<&str>) {
        self.looking_back = Some(Arc::clone(visit));
        self.journal.look_back(before);
    }

    fn note_recording(&mut self, call: u64) {
        if let Some(call) = self.open.get_mut(&call) {
            call.status = Status::Recording;
        }
    }

    fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// The present visit is over: nobody asks for what it heard any more.
    fn leave(&mut self) {
        for id in self.heard.take().unwrap_or_default() {
            if !self.rehearses {
                self.outcomes.remove(&id);
            }
        }
    }
}

/// Forgets what a call came to that is made once more when its visit is. A child that failed is not: it is a run of its
/// own, and stays what it is.
fn void(outcomes: &mut ByName<Outcome>, kept: &Kept) -> bool {
    let has_failed = || matches!(outcomes.get(&kept.name), Some(Outcome::Failed(_)));
    let is_void = is_passing(&kept.name) || (kept.kind != CallKind::Child && has_failed());
    if is_void {
        outcomes.remove(&kept.name);
    }
    is_void
}

/// A visit's code on its way through what is recorded of it.
pub(crate) type Looking = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A visit that is over, and whose code was not run in this process.
pub(crate) struct LookBack {
    pub(super) visit: Arc<str>,
    body: Box<dyn FnOnce(Flow) -> Looking + Send>,
}

impl LookBack {
    /// Runs the code of these visits, for the undos that they register. Everything that they called is recorded, so they
    /// do nothing.
    pub(super) async fn all(scene: Arc<Scene>, cx: Cx, passed: Vec<Self>) -> Body {
        let mut before: Option<Arc<str>> = None;
        for Self { visit, body } in passed {
            scene.state().look_back(&visit, before.as_deref());
            body(Flow::new(Arc::clone(&scene), cx.clone(), Arc::clone(&visit))).await;
            if scene.state().journal.check_looked_back(&visit).is_err() {
                // Whoever drives this says what is wrong.
                break;
            }
            before = Some(visit);
        }
        Err(Failure::new("the run did not complete"))
    }
}
