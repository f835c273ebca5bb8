//! A run that this node holds: where it is told things, and whose turn it is to hear them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use windlass_core::{ClaimId, NodeId, Order, RunId, Task, TaskIx, Time};
use windlass_store::{InboxRow, StoreError};

use super::{Mail, RunLoop};
use crate::{
    Cx, Slot, TaskCode,
    committer::{Lost, Thread},
    grip::Grip,
    node::{Node, Registered},
    order,
};

/// What a run is, beside where it stands.
pub(crate) struct Subject {
    pub(crate) run: RunId,
    pub(crate) claim: ClaimId,
    pub(crate) holder: NodeId,
    pub(crate) generation: u32,
    /// How many times the run was recovered from a dead process.
    pub(crate) epoch: u32,
    pub(crate) queue: Arc<str>,
    pub(crate) key: Option<String>,
    /// The run that is told when this one ends.
    pub(crate) parent: Option<RunId>,
    pub(crate) input: Slot,
    pub(crate) registered: Arc<Registered>,
    /// What started it, if a schedule did.
    #[cfg(feature = "schedule")]
    pub(crate) fired: Option<crate::schedule::Fired>,
}

impl Subject {
    pub(crate) fn task(&self, at: TaskIx) -> &Task {
        self.registered.plan.definition.task(at)
    }

    pub(crate) fn code(&self, at: TaskIx) -> &TaskCode {
        &self.registered.workflow.code()[at.get()]
    }
}

/// A run that this node holds.
///
/// It has no task of its own: whoever brings it news also does what follows from it, on the spot. Who comes while
/// another is at it leaves the news with them.
pub(crate) struct RunCell {
    /// Its place in the order of what this node took up.
    pub(crate) number: u64,
    pub(crate) node: Arc<Node>,
    pub(crate) subject: Subject,
    /// The slots of the run's queue.
    pub(crate) slots: Arc<Semaphore>,
    /// When the run has taken too long.
    deadline: Option<Time>,
    post: Mutex<Post>,
    /// Events that have come, and were not received yet.
    mailbox: Mutex<Vec<InboxRow>>,
    /// Whether a person has paused the run.
    paused: AtomicBool,
    /// Locked by whoever hears the mails. `None` when the run is over.
    run: Mutex<Option<RunLoop>>,
    /// Whether its code is only looked at.
    is_dry: bool,
}

/// How long a thread stays with one run, or one kind of work, before others on it have their turn.
pub(crate) const SPELL: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Post {
    mails: Vec<Mail>,
    turn: Turn,
    /// The attempt whose code begins right now, under the turn: it cannot wait for the mail that stops it to be heard.
    entered: Option<Cx>,
}

/// What stops an attempt while it begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// A person, or the run's time limit: the run ends.
    ByOrder,
    /// The node: its attempts do not count.
    ByNode,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Turn {
    /// Whoever brings a mail hears it.
    #[default]
    Free,
    /// Somebody hears mails, and will find those that are left in the post.
    Taken,
    /// The run is over, and hears nothing any more.
    Over,
}

impl RunCell {
    /// Holds a run, unless it is held already. It waits for [`Mail::Begin`].
    pub(crate) fn hold(node: Arc<Node>, subject: Subject, run: RunLoop) -> Option<Arc<Self>> {
        let slots = node.slots.of(&subject.queue);
        let (deadline, post) = (run.run.deadline(), Mutex::default());
        let (mailbox, paused) = (Mutex::default(), AtomicBool::new(false));
        let run = Mutex::new(Some(run));
        let number = node.count_taken_up();
        let is_dry = false;
        let cell =
            Arc::new(Self { number, node, subject, slots, deadline, post, mailbox, paused, run, is_dry });
        cell.node.hold(&cell).then_some(cell)
    }

    /// A run that is somebody else's, or nobody's, for looking at what its code would do. It hears nothing, and nothing is
    /// done in its name.
    pub(crate) fn aside(node: Arc<Node>, subject: Subject) -> Arc<Self> {
        let slots = node.slots.of(&subject.queue);
        let post = Mutex::new(Post { turn: Turn::Over, ..Post::default() });
        let (deadline, mailbox, run) = (None, Mutex::default(), Mutex::default());
        let paused = AtomicBool::new(false);
        Arc::new(Self { number: 0, node, subject, slots, deadline, post, mailbox, paused, run, is_dry: true })
    }

    /// Whether its code is only looked at.
    pub(crate) const fn is_dry(&self) -> bool {
        self.is_dry
    }

    /// How many times something has come to it from outside.
    #[cfg(all(test, feature = "sqlite"))]
    pub(super) fn heard(&self) -> usize {
        self.run.lock().as_ref().map_or(0, |run| run.heard.len())
    }

    /// Tells the run something, and does what follows from it here and now, unless another thread is at it.
    /// Called on threads of the user's runtime: the run's code may begin here.
    pub(crate) fn deliver(self: &Arc<Self>, mail: Mail) {
        if let Some(mail) = self.leave(mail) {
            self.hear(mail);
        }
    }

    /// Tells the run something, from any thread.
    pub(crate) fn tell(self: &Arc<Self>, mail: Mail) {
        if let Some(mail) = self.leave(mail) {
            self.hear_later(mail);
        }
    }

    /// Has a task of its own, which has the turn then, hear something.
    fn hear_later(self: &Arc<Self>, mail: Mail) {
        let cell = Arc::clone(self);
        self.node.user.spawn(async move { cell.hear(mail) });
    }

    /// Tells the run something on a thread of this kind.
    pub(crate) fn hand(self: &Arc<Self>, mail: Mail, thread: Thread) {
        match thread {
            Thread::Users => self.deliver(mail),
            Thread::Ours => self.tell(mail),
        }
    }

    /// Leaves a mail with whoever hears mails; gives it back when the caller has to.
    fn leave(&self, mail: Mail) -> Option<Mail> {
        let mut post = self.post.lock();
        match post.turn {
            Turn::Free => {
                post.turn = Turn::Taken;
                Some(mail)
            }
            Turn::Taken => {
                let stopped = if self.stops(&mail).is_some() { post.entered.clone() } else { None };
                post.mails.push(mail);
                drop(post);
                if let Some(cx) = stopped {
                    cx.inner().stop.set();
                }
                None
            }
            Turn::Over => None,
        }
    }

    /// Whether a mail stops everything that executes.
    fn stops(&self, mail: &Mail) -> Option<Stopped> {
        match mail {
            Mail::GiveUp | Mail::Vanish => Some(Stopped::ByNode),
            Mail::Tick => {
                let is_late = self.deadline.is_some_and(|deadline| deadline <= self.node.hub.clock.now());
                is_late.then_some(Stopped::ByOrder)
            }
            Mail::Inbox(row) => match order::decode(row)? {
                Order::Cancel { .. } | Order::Terminate { .. } => Some(Stopped::ByOrder),
                Order::Pause | Order::Resume => None,
            },
            _ => None,
        }
    }

    /// The attempts whose code has a thread now, as far as that is known without waiting.
    pub(crate) fn grips(&self, found: &mut Vec<Grip>) {
        found.extend(self.post.lock().entered.as_ref().and_then(Grip::of));
        if let Some(run) = self.run.try_lock().as_ref().and_then(|run| run.as_ref()) {
            found.extend(run.attempts.values().filter_map(|live| Grip::of(&live.cx)));
        }
    }

    /// Notes, for whoever has the turn, that the code of an attempt begins; not if a mail waits that stops it.
    pub(super) fn enter(&self, cx: &Cx) -> bool {
        let mut post = self.post.lock();
        let may = post.mails.iter().all(|mail| self.stops(mail).is_none());
        post.entered = may.then(|| cx.clone());
        may
    }

    /// Notes that the code has let go of the thread. Answers what stopped it meanwhile.
    pub(super) fn exit(&self) -> Option<Stopped> {
        let mut post = self.post.lock();
        let stopped = post.mails.iter().find_map(|mail| self.stops(mail));
        let entered = post.entered.take();
        drop(post);
        drop(entered);
        stopped
    }

    /// Leaves a mail for oneself, behind those that wait.
    pub(super) fn leave_behind(&self, mail: Mail) {
        self.post.lock().mails.push(mail);
    }

    fn hear(self: &Arc<Self>, first: Mail) {
        let mut place = self.run.lock();
        let Some(run) = place.as_mut() else { return };
        let heard = catch_unwind(AssertUnwindSafe(|| self.hear_all(run, first)));
        let is_over = heard.unwrap_or_else(|_| {
            tracing::error!(run = %self.subject.run, "the engine failed in this run, which goes on with a later heartbeat");
            run.vanish();
            true
        });
        if !is_over {
            return;
        }
        let run = place.take();
        drop(place);
        let mut post = self.post.lock();
        post.turn = Turn::Over;
        let unheard = (std::mem::take(&mut post.mails), post.entered.take());
        drop(post);
        // Values of the user's are dropped here, and others on this thread have to go on if that fails.
        let left = catch_unwind(AssertUnwindSafe(|| {
            drop(unheard);
            if let Some(run) = run {
                run.leave(self);
            }
        }));
        if left.is_err() {
            tracing::error!(run = %self.subject.run, "a value of this run panicked when it was dropped");
        }
    }

    /// Hears this mail and all that come meanwhile. Answers whether the run is over.
    fn hear_all(self: &Arc<Self>, run: &mut RunLoop, first: Mail) -> bool {
        run.take(self, first);
        let began = run.now;
        loop {
            run.go_on(self);
            if run.is_over() {
                return true;
            }
            let mut post = self.post.lock();
            if post.mails.is_empty() {
                post.turn = Turn::Free;
                return false;
            }
            if run.now - began > SPELL {
                drop(post);
                // A task of its own has the turn now, and hears them.
                self.hear_later(Mail::GoOn);
                self.node.make_way();
                return false;
            }
            let mails = std::mem::take(&mut post.mails);
            drop(post);
            for mail in mails {
                run.take(self, mail);
            }
        }
    }

    /// Events that have come, and were not received yet.
    pub(crate) fn mailbox(&self) -> MutexGuard<'_, Vec<InboxRow>> {
        self.mailbox.lock()
    }

    /// Whether a person has paused the run.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    pub(super) fn set_paused(&self, is_paused: bool) {
        self.paused.store(is_paused, Ordering::SeqCst);
    }

    /// The run cannot be recorded.
    pub(crate) fn break_off(self: &Arc<Self>, why: String) {
        self.tell(Mail::Committed(0, Err(Box::new(Lost::Failed(StoreError::Broken(why))))));
    }

    pub(crate) fn code(&self, at: TaskIx) -> &TaskCode {
        self.subject.code(at)
    }

    /// Gives the run's place on this node back.
    pub(super) fn release(&self) {
        self.node.release(self.subject.run, self.subject.claim);
    }

    /// The same when the store was told nothing of that.
    pub(super) fn forsake(&self) {
        self.release();
        self.node.forsake(self.subject.holder, self.subject.run, self.subject.claim);
    }
}
