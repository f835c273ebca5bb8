//! Under which name this process writes.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_core::NodeId;

/// Under which name this process writes right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    /// It runs nothing, so it needs none.
    Client,
    /// It is this node, as far as it knows.
    Node(NodeId),
    /// It may not act any more, and has not joined anew. It was this node, whose runs nobody may have taken up yet.
    Lost(Option<NodeId>),
}

/// The name of this process, which changes when it is fenced.
#[derive(Debug)]
pub(crate) struct Identity {
    name: watch::Sender<Name>,
    /// The tail of the node's id, which is random, to be compared with at no cost; 0 for no node.
    tail: AtomicU64,
}

impl Identity {
    pub(crate) fn client() -> Self {
        Self::named(Name::Client)
    }

    /// A process that has yet to join.
    pub(crate) fn unjoined() -> Self {
        Self::named(Name::Lost(None))
    }

    fn named(name: Name) -> Self {
        Self { name: watch::Sender::new(name), tail: AtomicU64::new(0) }
    }

    /// Whether this process writes as this node.
    pub(crate) fn is(&self, node: NodeId) -> bool {
        self.tail.load(Ordering::Acquire) == tail(node)
    }

    pub(crate) fn node(&self) -> Option<NodeId> {
        match *self.name.borrow() {
            Name::Node(node) => Some(node),
            Name::Client | Name::Lost(_) => None,
        }
    }

    /// The node that this process is or was, unless that was given up.
    pub(crate) fn last(&self) -> Option<NodeId> {
        match *self.name.borrow() {
            Name::Node(node) => Some(node),
            Name::Lost(node) => node,
            Name::Client => None,
        }
    }

    pub(crate) fn assume(&self, node: NodeId) {
        self.name.send_modify(|name| {
            self.tail.store(tail(node), Ordering::Release);
            *name = Name::Node(node);
        });
    }

    /// Stops writing as this node, if it still does.
    pub(crate) fn lose(&self, node: Option<NodeId>) {
        let Some(node) = node else { return };
        self.change(Name::Node(node), Name::Lost(Some(node)));
    }

    /// Notes that the store knows: nothing is held as this node any more.
    pub(crate) fn give_up(&self, node: NodeId) {
        self.lose(Some(node));
        self.change(Name::Lost(Some(node)), Name::Lost(None));
    }

    /// Goes from one name, if it is that, to one that writes nothing.
    fn change(&self, from: Name, to: Name) {
        self.name.send_if_modified(|name| {
            let mine = *name == from;
            if mine {
                self.tail.store(0, Ordering::Release);
                *name = to;
            }
            mine
        });
    }

    /// The name to write under, as soon as there is one; the inner `None` is a client's. `None` when the
    /// engine stops first.
    pub(crate) async fn settled(&self, stop: &CancellationToken) -> Option<Option<NodeId>> {
        let mut names = self.name.subscribe();
        let name = tokio::select! {
            name = names.wait_for(|name| !matches!(name, Name::Lost(_))) => *name.ok()?,
            () = stop.cancelled() => return None,
        };
        Some(match name {
            Name::Node(node) => Some(node),
            Name::Client | Name::Lost(_) => None,
        })
    }

    /// Waits until this is not the name any more. For a client that is never.
    pub(crate) async fn lost(&self, node: Option<NodeId>) {
        let Some(node) = node else { return std::future::pending().await };
        // The sender is `self`, so it cannot be gone.
        self.name.subscribe().wait_for(|name| *name != Name::Node(node)).await.ok();
    }
}

/// The second half of an id: 62 random bits. A process has a handful of ids in its life.
fn tail(node: NodeId) -> u64 {
    u128::from_be_bytes(*node.as_bytes()) as u64
}
