//! Faults on purpose: what a test can do to a handle.

use std::sync::Arc;

use parking_lot::Mutex;
use windlass_core::NodeId;

/// What is asked of a store, by method. Methods that change nothing are all one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// [`Store::join`](crate::Store::join).
    Join,
    /// [`Store::heartbeat`](crate::Store::heartbeat).
    Heartbeat,
    /// [`Store::leave`](crate::Store::leave).
    Leave,
    /// [`Store::declare_dead`](crate::Store::declare_dead).
    DeclareDead,
    /// [`Store::sweep`](crate::Store::sweep).
    Sweep,
    /// [`Store::commit`](crate::Store::commit).
    Commit,
    /// [`Store::claim`](crate::Store::claim).
    Claim,
    /// [`Store::claim_tasks`](crate::Store::claim_tasks).
    ClaimTasks,
    /// [`Store::unblock`](crate::Store::unblock).
    Unblock,
    /// [`Store::discard`](crate::Store::discard).
    Discard,
    /// [`Store::swap_cell`](crate::Store::swap_cell).
    SwapCell,
    /// [`Store::define`](crate::Store::define).
    Define,
    /// [`Store::change_queue`](crate::Store::change_queue).
    ChangeQueue,
    /// [`Store::tally`](crate::Store::tally) and [`Store::add_log`](crate::Store::add_log).
    Note,
    /// Any method that only reads.
    Read,
}

/// Just before a call does its work, or just after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Nothing has been done.
    Before,
    /// The work is done (or was refused), and the answer is on its way.
    After,
}

/// An instant at which a call can be disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The call.
    pub call: Call,
    /// The acting node, where there is one.
    pub node: Option<NodeId>,
    /// Which side of the work.
    pub side: Side,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    #[default]
    Proceed,
    /// It is answered with [`StoreError::Unavailable`](crate::StoreError::Unavailable): before the work, as a
    /// failed call; after it, as a call whose answer was lost.
    Unavailable,
    /// It is never answered: before the work, as a call that did not arrive; after it, as an answer that is
    /// still on its way.
    Silent,
    /// The process ends here, as with [`Memory::crash`](crate::Memory::crash).
    Crash,
}

type Hook = Arc<dyn Fn(&Moment) -> Verdict + Send + Sync>;

/// The process that a handle stands for.
#[derive(Default)]
pub(super) struct Process {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    ended: bool,
    nodes: Vec<NodeId>,
    hook: Option<Hook>,
}

impl Process {
    pub(super) fn set_hook(&self, hook: impl Fn(&Moment) -> Verdict + Send + Sync + 'static) {
        self.inner.lock().hook = Some(Arc::new(hook));
    }

    pub(super) fn verdict(&self, moment: &Moment) -> Verdict {
        let hook = self.inner.lock().hook.clone();
        hook.map_or(Verdict::Proceed, |hook| hook(moment))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.inner.lock().ended
    }

    /// Remembers that a node joined through this process.
    pub(super) fn adopt(&self, node: NodeId) {
        self.inner.lock().nodes.push(node);
    }

    /// Ends the process and answers its nodes.
    pub(super) fn end(&self) -> Vec<NodeId> {
        let mut inner = self.inner.lock();
        inner.ended = true;
        std::mem::take(&mut inner.nodes)
    }
}
