//! This process as one that runs workflows.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

use metrics::Gauge;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use windlass_core::{ClaimId, Failure, NodeId, Plan, RunId, TaskIx, Time};
use windlass_store::{DefinitionId, InboxRow};

use crate::{
    AnyWorkflow, Cx, Executor, Resources,
    busy::Busy,
    by_run::ByRun,
    forsaken::Forsaken,
    grip::Grip,
    guard::Shared,
    guests::Guests,
    hub::Hub,
    machine::{Guards, Observers, Wardens},
    metric::{self, Meters},
    options::Options,
    receivers::{Receivers, Whose},
    routes::{Routes, Rule},
    run_loop::{Mail, RunCell},
    slots::Slots,
    throughput::Throughput,
    watchdog::Watchdog,
};

/// A workflow that this node has the code of.
pub(crate) struct Registered {
    pub(crate) workflow: AnyWorkflow,
    pub(crate) plan: Arc<Plan>,
    pub(crate) definition: DefinitionId,
    pub(crate) routes: Routes,
    pub(crate) meters: Meters,
    /// Older versions that this node has the code of, for the runs that began under them.
    pub(crate) kept: Vec<Arc<Self>>,
}

impl Registered {
    /// A workflow whose version has this number.
    pub(crate) fn new(workflow: AnyWorkflow, definition: DefinitionId, rules: &[Rule]) -> Self {
        let has_transaction = |at: TaskIx| workflow.code()[at.get()].run.transaction().is_some();
        let what = Arc::clone(workflow.definition());
        let (meters, routes) = (Meters::new(&what), Routes::new(&what, rules, has_transaction));
        let (plan, kept) = (Arc::new(Plan::new(what)), Vec::new());
        Self { workflow, plan, definition, routes, meters, kept }
    }

    /// The version that goes on with a run that is recorded under this one: the same if it was kept, else the newest.
    pub(crate) fn serving(self: &Arc<Self>, recorded: Option<DefinitionId>) -> &Arc<Self> {
        let same = self.kept.iter().find(|kept| Some(kept.definition) == recorded);
        same.unwrap_or(self)
    }
}

/// Decides, in tests, which attempts fail on purpose.
pub(crate) type Saboteur = Arc<dyn Fn(&Cx) -> Option<Failure> + Send + Sync>;

/// Lets other threads have what was woken on this one last. A worker of tokio keeps that for itself, where nobody can
/// take it, until something newer takes its place.
pub(crate) fn make_way(user: &Handle) {
    user.spawn(async {});
}

/// What the services and run loops of one engine share.
pub(crate) struct Node {
    pub(crate) hub: Arc<Hub>,
    pub(crate) options: Options,
    pub(crate) registry: HashMap<Arc<str>, Arc<Registered>>,
    pub(crate) resources: Arc<Resources>,
    pub(crate) slots: Slots,
    /// What executes the tasks of some queues in place of their code.
    pub(crate) executors: HashMap<Arc<str>, Arc<dyn Executor>>,
    /// The published attempts that this node executes.
    pub(crate) guests: Guests,
    /// Where user code runs.
    pub(crate) user: Handle,
    /// Whether that has several threads.
    is_shared: bool,
    pub(crate) watchdog: Watchdog,
    pub(crate) saboteur: Option<Saboteur>,
    /// Held by the one suspect that executes alone.
    pub(crate) isolation: Arc<Semaphore>,
    runs: Mutex<ByRun<Arc<RunCell>>>,
    held: Gauge,
    /// Runs that are held or about to be.
    reserved: AtomicUsize,
    /// Those of them that have ended, and whose end is being written.
    ending: AtomicUsize,
    /// What came for runs that were not held yet.
    missed: Receivers,
    /// How many times a run was taken up here.
    taken_up: AtomicU64,
    /// Whether the claimer waits for room.
    crowded: AtomicBool,
    /// Whether it serves queues that were declared: then what is given up may let another run begin.
    pub(crate) limited: AtomicBool,
    /// How much has ended here of late.
    pub(crate) throughput: Throughput,
    /// When the next waiting run is due, as far as this node knows.
    next_due: AtomicI64,
    /// When this node began.
    boot: Instant,
    /// When it must stop acting unless a heartbeat is answered first, in microseconds after its boot.
    lease_end: AtomicI64,
    /// Woken when there is something to claim.
    pub(crate) claim: Notify,
    /// Woken when there is some room again, while the claimer waits for it.
    pub(crate) spare: Notify,
    /// Woken when there may be something to claim.
    pub(crate) look: Notify,
    /// What this process has put into the inboxes of runs that it holds.
    pub(crate) mail: Receivers,
    /// What this node holds, and nothing here goes on with.
    pub(crate) forsaken: Forsaken,
    /// Woken whenever a run is given up or an attempt ends for good.
    pub(crate) released: Notify,
    /// Set when nothing new may be claimed or started.
    pub(crate) stopping: CancellationToken,
    /// Cancelled just before it leaves: from then on it joins no more.
    pub(crate) leaving: CancellationToken,
    /// The blocking attempts that exist.
    pub(crate) blocking: Busy,
    /// What stands before the handlers of state machines.
    pub(crate) guards: Guards,
    /// The rate limits and circuit breakers that tasks share with other processes.
    pub(crate) shared: Shared,
    /// Who is told of state machines.
    pub(crate) observers: Observers,
    /// The resources that are set up and torn down.
    pub(crate) wardens: Wardens,
    /// What takes the turns of schedules.
    #[cfg(feature = "schedule")]
    pub(crate) keeper: crate::schedule::Keeper,
}

impl Node {
    pub(crate) fn new(
        hub: Arc<Hub>,
        options: Options,
        registry: HashMap<Arc<str>, Arc<Registered>>,
        resources: Arc<Resources>,
        executors: HashMap<Arc<str>, Arc<dyn Executor>>,
        saboteur: Option<Saboteur>,
        wardens: Wardens,
    ) -> Arc<Self> {
        let slots = Slots::new(&options.queues, options.slots);
        Arc::new(Self {
            hub,
            options,
            registry,
            resources,
            slots,
            executors,
            guests: Guests::default(),
            user: Handle::current(),
            is_shared: Handle::current().metrics().num_workers() > 1,
            watchdog: Watchdog::default(),
            saboteur,
            isolation: Arc::new(Semaphore::new(1)),
            runs: Mutex::default(),
            held: metric::runs_held(),
            reserved: AtomicUsize::new(0),
            ending: AtomicUsize::new(0),
            missed: Receivers::default(),
            taken_up: AtomicU64::new(0),
            crowded: AtomicBool::new(false),
            limited: AtomicBool::new(false),
            throughput: Throughput::default(),
            next_due: AtomicI64::new(i64::MIN),
            boot: Instant::now(),
            lease_end: AtomicI64::new(0),
            claim: Notify::new(),
            spare: Notify::new(),
            look: Notify::new(),
            forsaken: Forsaken::default(),
            mail: Receivers::default(),
            released: Notify::new(),
            stopping: CancellationToken::new(),
            leaving: CancellationToken::new(),
            blocking: Busy::default(),
            guards: Guards::default(),
            shared: Shared::default(),
            observers: Observers::default(),
            wardens,
            #[cfg(feature = "schedule")]
            keeper: crate::schedule::Keeper::default(),
        })
    }

    /// Before code begins on this thread that may keep it: lets other threads have what was woken on it last.
    pub(crate) fn make_way(&self) {
        if self.is_shared {
            make_way(&self.user);
        }
    }

    /// The failure that a test planned for this attempt.
    pub(crate) fn planned_failure(&self, cx: &Cx) -> Option<Failure> {
        self.saboteur.as_ref().and_then(|saboteur| saboteur(cx))
    }

    /// Takes room for one run; answers whether there was any.
    pub(crate) fn reserve(&self) -> bool {
        let grant = |reserved: usize| (reserved < self.options.max_runs).then_some(reserved + 1);
        self.reserved.fetch_update(Ordering::AcqRel, Ordering::Acquire, grant).is_ok()
    }

    /// Gives back room that was not used.
    pub(crate) fn unreserve(&self, runs: usize) {
        self.reserved.fetch_sub(runs, Ordering::AcqRel);
        self.call_claimer();
    }

    /// Notes that a run has ended, and is held only until its end is written.
    pub(crate) fn ends(&self) {
        self.ending.fetch_add(1, Ordering::AcqRel);
        self.call_claimer();
    }

    /// Notes that a run's end is written, or not to be.
    pub(crate) fn ended(&self) {
        self.ending.fetch_sub(1, Ordering::AcqRel);
    }

    /// A claimer that found no room is called when there is a quarter of it, so that a backlog is taken in portions
    /// rather than one by one. Of less it is only told: there may never be more while long runs take the rest.
    fn call_claimer(&self) {
        // Either the claimer sees the room that was given back before, or its flag is seen here.
        fence(Ordering::SeqCst);
        if !self.crowded.load(Ordering::Acquire) {
            return;
        }
        let room = self.room();
        if room < (self.options.max_runs / 4).max(1) {
            if room > 0 {
                self.spare.notify_one();
            }
        } else if self.crowded.swap(false, Ordering::AcqRel) {
            self.claim.notify_one();
        }
    }

    /// For how many runs a claim may ask. When there is no room, the claimer is called as soon as there is.
    ///
    /// The room is taken when the claim is answered. Held back for the time of a commit, it would be missing to
    /// the starts of that time; these would have to be claimed too, and so on without end. So a claim and
    /// starts that meet may pass the limit, by one claim at most.
    pub(crate) fn room_for_claim(&self) -> usize {
        match self.room() {
            0 => {
                self.crowded.store(true, Ordering::Release);
                fence(Ordering::SeqCst);
                // Room that was given back just before the flag was set called nobody.
                self.room()
            }
            room => {
                self.crowded.store(false, Ordering::Release);
                room
            }
        }
    }

    /// Takes room for runs that were claimed.
    pub(crate) fn occupy(&self, runs: usize) {
        self.reserved.fetch_add(runs, Ordering::AcqRel);
    }

    /// Whether there is no room for another run.
    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// A run whose end is being written executes nothing any more, so the next may come while that is done: else half of
    /// the room would wait for commits. It still takes memory, so not more of them count than half of the room.
    fn room(&self) -> usize {
        let most = self.options.max_runs;
        let ending = self.ending.load(Ordering::Acquire).min(most / 2);
        (most + ending).saturating_sub(self.reserved.load(Ordering::Acquire))
    }

    pub(crate) fn held(&self) -> usize {
        self.runs.lock().len()
    }

    /// Notes that a run is held. Its room was reserved before.
    ///
    /// Answers whether it is: not if it is held under the same claim already, as when the answer to a claim was lost and
    /// comes twice, or if it was claimed under a name that this node has lost since.
    pub(crate) fn hold(&self, cell: &Arc<RunCell>) -> bool {
        let mut runs = self.runs.lock();
        let subject = &cell.subject;
        let is_held = runs.get(&subject.run).is_some_and(|held| held.subject.claim == subject.claim);
        if is_held || !self.is(subject.holder) {
            drop(runs);
            self.unreserve(1);
            return false;
        }
        let before = runs.insert(cell.subject.run, Arc::clone(cell));
        self.held.set(runs.len() as f64);
        drop(runs);
        // One of an earlier claim that has not noticed its end yet needs no room any more.
        self.unreserve(usize::from(before.is_some()));
        if let Some(whose) = self.missed.take_out(subject.run) {
            let node = Arc::clone(&cell.node);
            self.hub.backroom.spawn(async move { node.look_into_inboxes(whose).await });
        }
        true
    }

    /// Notes that a run is not held any more under this claim.
    pub(crate) fn release(&self, run: RunId, claim: ClaimId) {
        let mut runs = self.runs.lock();
        let Entry::Occupied(held) = runs.entry(run) else { return };
        if held.get().subject.claim != claim {
            return;
        }
        let cell = held.remove();
        self.held.set(runs.len() as f64);
        drop(runs);
        drop(cell);
        self.unreserve(1);
        self.slot_is_free();
        self.released.notify_waiters();
    }

    /// Notes that nothing here goes on with a run that may still be this node's.
    pub(crate) fn forsake(&self, holder: NodeId, run: RunId, claim: ClaimId) {
        // Under another name it holds nothing of that.
        if self.is(holder) {
            self.forsaken.add(run, claim);
        }
    }

    /// Tells every run something.
    pub(crate) fn tell_all(&self, mail: impl Fn() -> Mail) {
        let runs: Vec<Arc<RunCell>> = self.runs.lock().values().map(Arc::clone).collect();
        for cell in runs {
            cell.tell(mail());
        }
    }

    /// The attempts whose code has a thread now.
    pub(crate) fn grips(&self) -> Vec<Grip> {
        let runs: Vec<Arc<RunCell>> = self.runs.lock().values().map(Arc::clone).collect();
        let mut grips = Vec::new();
        runs.iter().for_each(|cell| cell.grips(&mut grips));
        grips
    }

    /// Tells one run something; `None` when it is not held here.
    pub(crate) fn tell(&self, run: RunId, mail: Mail) -> Option<()> {
        self.cell(run)?.tell(mail);
        Some(())
    }

    /// Counts a run that is taken up.
    pub(crate) fn count_taken_up(&self) -> u64 {
        self.taken_up.fetch_add(1, Ordering::AcqRel)
    }

    /// A point in the order of what is taken up here. Take it before inboxes are read, and deliver what is read with it.
    pub(crate) fn point(&self) -> u64 {
        self.taken_up.load(Ordering::Acquire)
    }

    /// Hands inbox rows to the runs they are for. They were read after this point, while the run may have been parked and
    /// taken up again: then it may have taken in some of them before that, and has forgotten which.
    pub(crate) fn deliver(&self, rows: Vec<InboxRow>, since: u64) {
        for row in rows {
            let held = self.cell(row.run).or_else(|| {
                // It is this node's, and about to be held: whoever holds it looks again.
                self.missed.add(row.run);
                self.cell(row.run)
            });
            match held {
                Some(cell) if cell.number < since => cell.tell(Mail::Inbox(Box::new(row))),
                Some(_) => self.mail.add(row.run),
                None => {}
            }
        }
    }

    /// This process has put something into the inbox of a run: the outcome of a published attempt, or the end of a
    /// child. If this node holds the run, it has to be told, and if nobody does, anyone may take it up.
    pub(crate) fn delivered_to(&self, run: RunId) {
        if !self.holds(run) {
            // It may be about to be held, with what was there before: whoever holds it looks again.
            self.missed.add(run);
            self.claim.notify_one();
        }
        if self.holds(run) {
            self.mail.add(run);
        }
    }

    /// Hands on what has come for the runs of this node, if it has any of these.
    pub(crate) async fn look_into_inboxes(&self, whose: Whose) {
        let Some(id) = self.id() else { return };
        let only = match whose {
            Whose::Anyones => {
                if self.reserved.load(Ordering::Acquire) == 0 {
                    // A run may be about to be held, with what was there before: whoever holds the next one looks again.
                    self.missed.add_any();
                    fence(Ordering::SeqCst);
                    if self.reserved.load(Ordering::Acquire) == 0 {
                        return;
                    }
                }
                None
            }
            Whose::Of(mut runs) => {
                // The same of each.
                runs.iter().filter(|run| !self.holds(**run)).for_each(|run| self.missed.add(*run));
                runs.retain(|run| self.holds(*run));
                if runs.is_empty() {
                    return;
                }
                Some(runs)
            }
        };
        let since = self.point();
        match self.hub.store.inbox(id, only).await {
            Ok(rows) => self.deliver(rows, since),
            Err(error) => {
                tracing::debug!(%error, "looking into inboxes failed; the next heartbeat makes up for it")
            }
        }
    }

    /// Whether this node holds a run.
    pub(crate) fn holds(&self, run: RunId) -> bool {
        self.runs.lock().contains_key(&run)
    }

    /// Whether nothing of the user's executes here, as far as that can be stopped.
    pub(crate) fn is_silent(&self) -> bool {
        self.held() == 0 && self.guests.len() == 0
    }

    pub(crate) fn cell(&self, run: RunId) -> Option<Arc<RunCell>> {
        self.runs.lock().get(&run).map(Arc::clone)
    }

    /// Forgets every run: the node was fenced, and the loops are gone.
    pub(crate) fn forget_all(&self) {
        let forgotten = self.runs.lock().drain().count();
        self.unreserve(forgotten);
        self.guests.forget();
        self.forsaken.clear();
        self.released.notify_waiters();
    }

    /// A run was parked until this time.
    pub(crate) fn due(&self, at: Option<Time>) {
        let Some(at) = at else { return };
        if self.next_due.fetch_min(at.0, Ordering::AcqRel) > at.0 {
            self.claim.notify_one();
        }
    }

    /// What the store says about when the next run is due.
    pub(crate) fn learn_due(&self, at: Option<Time>) {
        self.next_due.fetch_min(at.unwrap_or(Time::MAX).0, Ordering::AcqRel);
    }

    pub(crate) fn next_due(&self) -> Time {
        Time(self.next_due.load(Ordering::Acquire))
    }

    /// Forgets when the next run is due, just before the store is asked. Whatever is parked from here on
    /// counts beside the store's answer.
    pub(crate) fn forget_due(&self) {
        self.next_due.store(i64::MAX, Ordering::Release);
    }

    /// A heartbeat that was sent at this instant was answered.
    pub(crate) fn renew_lease(&self, sent: Instant) {
        let end = sent.duration_since(self.boot) + self.options.lease();
        self.lease_end.store(i64::try_from(end.as_micros()).unwrap_or(i64::MAX), Ordering::Release);
    }

    /// Whether something may begin in the name of this node: the process goes by it, and by its own clock the
    /// lease has not run out. A process that was frozen may find that out before its heart does.
    pub(crate) fn may_act(&self, holder: NodeId) -> bool {
        self.may_act_at(Instant::now(), holder)
    }

    /// The same for a caller who has just looked at the clock.
    pub(crate) fn may_act_at(&self, now: Instant, holder: NodeId) -> bool {
        let now = i64::try_from(now.duration_since(self.boot).as_micros()).unwrap_or(i64::MAX);
        let may = self.is(holder) && now < self.lease_end.load(Ordering::Acquire);
        if !may {
            self.hub.identity.lose(Some(holder));
        }
        may
    }

    /// Whether this process goes by this name right now.
    pub(crate) fn is(&self, node: NodeId) -> bool {
        self.hub.identity.is(node)
    }

    /// The node that this process is right now.
    pub(crate) fn id(&self) -> Option<NodeId> {
        self.hub.identity.node()
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::Memory;

    use super::*;
    use crate::Engine;

    #[tokio::test]
    async fn runs_whose_end_is_being_written_make_room_up_to_a_bound() {
        let store = Arc::new(Memory::new(|| Time(1_000_000)));
        let engine = Engine::over(store).max_runs(4).launch().await.expect("it launches");
        let client = engine.client();
        let node = client.node().expect("an engine has one");
        (0..4).for_each(|_| assert!(node.reserve()));
        assert_eq!(node.room_for_claim(), 0);
        node.ends();
        assert_eq!(node.room_for_claim(), 1);
        (0..3).for_each(|_| node.ends());
        assert_eq!(node.room_for_claim(), 2, "commits that never come must not fill the memory");
        assert!(!node.reserve(), "a start that finds no room leaves its run to whoever has some");
        node.occupy(2);
        assert_eq!(node.room_for_claim(), 0);
        (0..4).for_each(|_| node.ended());
        node.unreserve(4);
        assert_eq!(node.room_for_claim(), 2);
    }
}
