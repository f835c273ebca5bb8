//! What a running attempt knows about itself.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::Notify, time::Instant};
use windlass_core::{Attempt, Failure, RunId};

use crate::{
    Slot,
    attempt::{Host, Limits, Link},
    flow::Scene,
    node::Node,
    run_loop::Subject,
    slots::Seat,
};

/// What a running attempt knows about itself, and how it speaks with the engine.
///
/// A task asks for it with a parameter `cx: &Cx`. It is cheap to clone.
#[derive(Clone)]
pub struct Cx {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) origin: Origin,
    attempt: u32,
    pub(crate) limits: Limits,
    pub(crate) stop: StopSignal,
    /// Set when it should not begin, if it has not.
    pub(crate) call_off: StopSignal,
    pub(crate) pulse: Pulse,
    pub(crate) saved: Mutex<Option<Slot>>,
    /// The durable function that the attempt is, or what its task waits for.
    scene: OnceLock<Arc<Scene>>,
    /// How often the task was undone before it is done again.
    times_undone: AtomicU32,
    /// Whether it was asked to stop because its run ends.
    is_run_ending: AtomicBool,
}

/// Where an attempt comes from.
pub(crate) enum Origin {
    /// A run.
    Run(Link),
    /// A step of a durable function.
    Step { scene: Arc<Scene>, id: Arc<str> },
    /// A direct call of a task's body, for a run that is somewhere else or nowhere.
    Nobody { run: RunId, task: Arc<str>, item: Option<usize> },
}

impl Inner {
    /// How the attempt speaks with its run, if it belongs to one.
    pub(crate) fn link(&self) -> Option<&Link> {
        match &self.origin {
            Origin::Run(link) => Some(link),
            Origin::Step { .. } | Origin::Nobody { .. } => None,
        }
    }

    /// Whether this is a task that has waited for something.
    pub(crate) fn has_waited(&self) -> bool {
        self.scene.get().is_some_and(|scene| scene.is_task())
    }

    /// The durable function that the attempt is, or what its task waits for.
    pub(crate) fn scene(&self) -> Option<&Arc<Scene>> {
        self.scene.get()
    }

    pub(crate) fn set_scene(&self, scene: Arc<Scene>) -> &Arc<Scene> {
        // An attempt begins once.
        self.scene.get_or_init(|| scene)
    }

    /// The node that executes the attempt, if one does.
    pub(crate) fn node(&self) -> Option<&Arc<Node>> {
        match &self.origin {
            Origin::Run(link) => Some(link.host.node()),
            Origin::Step { scene, .. } => Some(&scene.cell().node),
            Origin::Nobody { .. } => None,
        }
    }

    /// Asks the attempt to stop, because its run ends. A task that waits hears of it there.
    pub(crate) fn end_with_run(&self) {
        self.is_run_ending.store(true, Ordering::SeqCst);
        self.stop.set();
        if let Some(scene) = self.scene.get().filter(|scene| scene.is_task()) {
            scene.stop();
        }
    }

    pub(crate) fn is_run_ending(&self) -> bool {
        self.is_run_ending.load(Ordering::SeqCst)
    }

    /// Notes how often the task was undone before it is done again.
    pub(crate) fn set_times_undone(&self, times: u32) {
        self.times_undone.store(times, Ordering::Relaxed);
    }

    /// What the attempt belongs to, if that is a run of this process.
    fn subject(&self) -> Option<&Subject> {
        match &self.origin {
            Origin::Run(link) => Some(link.host.subject()),
            Origin::Step { scene, .. } => Some(&scene.cell().subject),
            Origin::Nobody { .. } => None,
        }
    }
}

impl Cx {
    /// The node that executes the attempt, if one does.
    pub(crate) fn node(&self) -> Option<&Arc<Node>> {
        self.inner.node()
    }

    /// What an attempt of this run knows.
    pub(crate) fn of(host: Host, attempt: Attempt, now: Instant) -> Self {
        let task = host.subject().task(attempt.lane.task);
        let limits = Limits {
            timeout: task.timeout,
            beat_timeout: task.beat_timeout,
            deadline: attempt.deadline.zip(task.deadline),
        };
        let link = Link { host, lane: attempt.lane, seat: Seat::default() };
        Self::new(Origin::Run(link), attempt.number, limits, now)
    }

    /// What an attempt of a step of a durable function knows.
    pub(crate) fn of_step(scene: &Arc<Scene>, id: &Arc<str>, attempt: u32, limits: Limits) -> Self {
        let origin = Origin::Step { scene: Arc::clone(scene), id: Arc::clone(id) };
        let cx = Self::new(origin, attempt, limits, Instant::now());
        *cx.inner.saved.lock() = scene.saved(id);
        cx
    }

    fn new(origin: Origin, attempt: u32, limits: Limits, now: Instant) -> Self {
        let (stop, call_off) = (StopSignal::default(), StopSignal::default());
        let (pulse, saved) = (Pulse::new(now), Mutex::default());
        let (scene, times_undone) = (OnceLock::new(), AtomicU32::new(0));
        let is_run_ending = AtomicBool::new(false);
        Self {
            inner: Arc::new(Inner {
                origin,
                attempt,
                limits,
                stop,
                call_off,
                pulse,
                saved,
                scene,
                times_undone,
                is_run_ending,
            }),
        }
    }

    /// A context that belongs to no engine, for calling a task's body directly.
    #[doc(hidden)]
    #[must_use]
    pub fn detached(task: &str) -> Self {
        Self::elsewhere(RunId::new(), task, None, 1)
    }

    /// What an attempt knows that is executed far from its run.
    pub(crate) fn elsewhere(run: RunId, task: &str, item: Option<usize>, attempt: u32) -> Self {
        let origin = Origin::Nobody { run, task: task.into(), item };
        Self::new(origin, attempt, Limits::default(), Instant::now())
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// The run that this attempt belongs to.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        match &self.inner.origin {
            Origin::Run(link) => link.host.subject().run,
            Origin::Step { scene, .. } => scene.cell().subject.run,
            Origin::Nobody { run, .. } => *run,
        }
    }

    /// The workflow's name.
    #[must_use]
    pub fn workflow(&self) -> &str {
        self.inner.subject().map_or("detached", |subject| &subject.registered.plan.definition.name)
    }

    /// The task's name.
    #[must_use]
    pub fn task(&self) -> &str {
        self.name()
    }

    /// The element's place, in a `for_each`.
    #[must_use]
    pub fn item(&self) -> Option<usize> {
        match &self.inner.origin {
            Origin::Run(link) => link.lane.item.map(|item| item as usize),
            Origin::Step { .. } => None,
            Origin::Nobody { item, .. } => *item,
        }
    }

    /// Which attempt this is, counted from 1. An attempt that its process did not survive is repeated
    /// under the same number.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.inner.attempt
    }

    /// How many times the run was opened: 1, and one more for each retry by a person.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.inner.subject().map_or(1, |subject| subject.generation)
    }

    /// A key for talking to systems that can tell a repeat from a new request. It is the same for every
    /// attempt of this task (or instance) of this run, also after a crash and after a `retry`. Only a task or step that was
    /// undone and is done again has another one: its first request has been taken back.
    #[must_use]
    pub fn key(&self) -> String {
        let (run, step) = (self.run_id(), self.step());
        let times_undone = match &self.inner.origin {
            Origin::Step { scene, id } => scene.times_undone(id),
            Origin::Run(_) | Origin::Nobody { .. } => self.inner.times_undone.load(Ordering::Relaxed),
        };
        match times_undone {
            0 => format!("{run}:{step}"),
            times => format!("{run}:{step}:{}", times + 1),
        }
    }

    /// What the run knows of the schedule that started it: the time that it is for, when it was started, and whether that
    /// is made up for. `None` for a run that no schedule started.
    #[cfg(feature = "schedule")]
    #[must_use]
    pub fn fired(&self) -> Option<&crate::schedule::Fired> {
        self.inner.subject()?.fired.as_ref()
    }

    pub(crate) fn step(&self) -> Arc<str> {
        match self.item() {
            None => Arc::clone(self.name()),
            Some(item) => format!("{}[{item}]", self.name()).into(),
        }
    }

    fn name(&self) -> &Arc<str> {
        match &self.inner.origin {
            Origin::Run(link) => &link.host.subject().task(link.lane.task).name,
            Origin::Step { id, .. } => id,
            Origin::Nobody { task, .. } => task,
        }
    }

    /// Whether the attempt was asked to stop: the run was cancelled, timed out or failed fast, the attempt
    /// ran out of time, or the engine is stopping.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.inner.stop.is_set()
    }

    /// Waits until the attempt is asked to stop. It then has `cancel_grace` to tidy up before it is
    /// dropped.
    pub async fn cancelled(&self) {
        self.inner.stop.wait().await;
    }

    /// Says that the attempt is alive, and how far it has come (0.0 to 1.0). A task with a `beat_timeout`
    /// must call this more often than that.
    pub fn beat(&self, progress: f64) {
        self.inner.pulse.beat(progress);
    }

    /// Keeps a value for the next attempt, durably: it is safe when this returns. It replaces the one kept
    /// before. A cursor into a long piece of work, say.
    ///
    /// # Errors
    ///
    /// When the value cannot be written as JSON or is too large, when the run is no longer this node's, or when the
    /// task has a `tx`.
    pub async fn save<T: Serialize + Send + Sync + 'static>(&self, value: T) -> Result<(), Failure> {
        let slot = Slot::new(value)?;
        match &self.inner.origin {
            Origin::Run(link) => link.save(self.step(), slot.bytes().clone()).await?,
            Origin::Step { scene, id } => scene.save(id, slot.bytes().clone()).await?,
            Origin::Nobody { .. } => {}
        }
        *self.inner.saved.lock() = Some(slot);
        Ok(())
    }

    /// What an earlier attempt of this task (or this one) saved.
    ///
    /// # Errors
    ///
    /// When the value does not fit the type.
    pub fn saved<T: DeserializeOwned + Send + Sync + Clone + 'static>(&self) -> Result<Option<T>, Failure> {
        let saved = self.inner.saved.lock().clone();
        saved.map(|slot| slot.get::<T>().map(|value| T::clone(&value))).transpose()
    }

    /// Asks `condition` every so often until it says yes, without holding a slot between two questions.
    ///
    /// When the wait is long, the run is parked: its future is dropped and the task begins again at its top
    /// when it is time to ask again. So ask first and work after.
    ///
    /// The attempt's `timeout` does not count the time between questions; its task's `deadline` does.
    ///
    /// # Errors
    ///
    /// When the condition fails, or the task has a `tx`.
    pub async fn defer_until<F, C>(&self, every: Duration, mut condition: F) -> Result<(), Failure>
    where
        F: FnMut() -> C,
        C: Future,
        C::Output: Condition,
    {
        while !condition().await.holds()? {
            match self.inner.link() {
                Some(link) => link.defer(self.inner.attempt, every, &self.inner.pulse).await?,
                None => tokio::time::sleep(every).await,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("run", &self.run_id())
            .field("task", &self.step())
            .field("attempt", &self.inner.attempt)
            .finish_non_exhaustive()
    }
}

/// What a condition of [`Cx::defer_until`] may answer: `bool`, or a `Result` of one.
#[diagnostic::on_unimplemented(
    message = "a condition of `defer_until` answers `bool` or `Result<bool, _>`, not `{Self}`"
)]
pub trait Condition {
    /// Whether the wait is over.
    ///
    /// # Errors
    ///
    /// When the question could not be answered.
    fn holds(self) -> Result<bool, Failure>;
}

impl Condition for bool {
    fn holds(self) -> Result<bool, Failure> {
        Ok(self)
    }
}

impl<E: Into<Failure>> Condition for Result<bool, E> {
    fn holds(self) -> Result<bool, Failure> {
        self.map_err(Into::into)
    }
}

/// Tells an attempt to stop.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    set: AtomicBool,
    wake: Notify,
}

impl StopSignal {
    pub(crate) fn set(&self) {
        self.set.store(true, Ordering::Release);
        self.wake.notify_waiters();
    }

    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    pub(crate) async fn wait(&self) {
        let woken = self.wake.notified();
        tokio::pin!(woken);
        woken.as_mut().enable();
        if !self.is_set() {
            woken.await;
        }
    }
}

/// Signs of life of an attempt.
#[derive(Debug)]
pub(crate) struct Pulse {
    made: Instant,
    /// When the attempt had its slot, in microseconds after `made`: waiting for one is not its own time.
    start: AtomicI64,
    /// Microseconds after its start.
    last_beat: AtomicI64,
    progress: AtomicI64,
    /// Microseconds spent waiting without a slot.
    deferred: AtomicI64,
    is_deferred: AtomicBool,
    /// Since when, in microseconds after its start.
    held_at: AtomicI64,
    /// How many times its code got a thread, and let go of it: an odd number while it has one.
    turns: AtomicU32,
}

/// Code that has a thread, until this is dropped.
pub(crate) struct Turn<'p>(&'p Pulse);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.count_turn();
    }
}

impl Pulse {
    fn new(now: Instant) -> Self {
        let zero = AtomicI64::default;
        let is_deferred = AtomicBool::new(false);
        let (start, last_beat, progress) = (zero(), zero(), zero());
        Self {
            made: now,
            start,
            last_beat,
            progress,
            deferred: zero(),
            is_deferred,
            held_at: zero(),
            turns: AtomicU32::new(0),
        }
    }

    /// Notes that its code has a thread.
    pub(crate) fn begin_turn(&self) -> Turn<'_> {
        self.count_turn();
        Turn(self)
    }

    /// One thread at a time does this, so that nothing has to be locked.
    fn count_turn(&self) {
        self.turns.store(self.turns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Which time it is that its code has a thread, if it has one.
    pub(crate) fn turn(&self) -> Option<u32> {
        Some(self.turns.load(Ordering::Relaxed)).filter(|turns| turns % 2 == 1)
    }

    pub(crate) fn start(&self, at: Instant) {
        self.start.store(self.at(at), Ordering::Relaxed);
    }

    fn at(&self, instant: Instant) -> i64 {
        i64::try_from(instant.duration_since(self.made).as_micros()).unwrap_or(i64::MAX)
    }

    fn elapsed(&self) -> i64 {
        self.at(Instant::now()) - self.start.load(Ordering::Relaxed)
    }

    fn beat(&self, progress: f64) {
        self.last_beat.store(self.elapsed(), Ordering::Relaxed);
        self.progress.store((progress.clamp(0.0, 1.0) * 1e6) as i64, Ordering::Relaxed);
    }

    /// How far the attempt says it has come.
    pub(crate) fn progress(&self) -> f64 {
        self.progress.load(Ordering::Relaxed) as f64 / 1e6
    }

    /// Runs `wait` without counting its time.
    pub(crate) async fn pause<T>(&self, wait: impl Future<Output = T>) -> T {
        self.hold();
        let answer = wait.await;
        self.go_on();
        answer
    }

    /// Counts no time until it goes on.
    pub(crate) fn hold(&self) {
        if !self.is_deferred.swap(true, Ordering::Relaxed) {
            self.held_at.store(self.elapsed(), Ordering::Relaxed);
        }
    }

    /// Counts the time again.
    pub(crate) fn go_on(&self) {
        if self.is_deferred.swap(false, Ordering::Relaxed) {
            let now = self.elapsed();
            self.deferred.fetch_add(now - self.held_at.load(Ordering::Relaxed), Ordering::Relaxed);
            self.last_beat.store(now, Ordering::Relaxed);
        }
    }

    /// How long the attempt has waited without a slot; `None` while it does.
    pub(crate) fn waited(&self) -> Option<Duration> {
        let waited = Duration::from_micros(self.deferred.load(Ordering::Relaxed).max(0) as u64);
        (!self.is_deferred.load(Ordering::Relaxed)).then_some(waited)
    }

    /// How long the attempt has worked; `None` while it is deferred.
    pub(crate) fn worked(&self) -> Option<Duration> {
        let worked = self.elapsed() - self.deferred.load(Ordering::Relaxed);
        (!self.is_deferred.load(Ordering::Relaxed)).then(|| Duration::from_micros(worked.max(0) as u64))
    }

    /// How long ago the last sign of life was; `None` while the attempt is deferred.
    pub(crate) fn quiet(&self) -> Option<Duration> {
        let quiet = self.elapsed() - self.last_beat.load(Ordering::Relaxed);
        (!self.is_deferred.load(Ordering::Relaxed)).then(|| Duration::from_micros(quiet.max(0) as u64))
    }
}
