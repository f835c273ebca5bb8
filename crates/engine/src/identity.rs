//! Under which name this process writes.

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
    /// It was a node, may not act any more, and has not joined anew.
    Lost,
}

/// The name of this process, which changes when it is fenced.
#[derive(Debug)]
pub(crate) struct Identity {
    name: watch::Sender<Name>,
}

impl Identity {
    pub(crate) fn client() -> Self {
        Self { name: watch::Sender::new(Name::Client) }
    }

    /// A process that has yet to join.
    pub(crate) fn unjoined() -> Self {
        Self { name: watch::Sender::new(Name::Lost) }
    }

    pub(crate) fn node(&self) -> Option<NodeId> {
        match *self.name.borrow() {
            Name::Node(node) => Some(node),
            Name::Client | Name::Lost => None,
        }
    }

    pub(crate) fn assume(&self, node: NodeId) {
        self.name.send_replace(Name::Node(node));
    }

    /// Stops writing as this node, if it still does.
    pub(crate) fn lose(&self, node: Option<NodeId>) {
        let Some(node) = node else { return };
        self.name.send_if_modified(|name| {
            let mine = *name == Name::Node(node);
            if mine {
                *name = Name::Lost;
            }
            mine
        });
    }

    /// The name to write under, as soon as there is one; the inner `None` is a client's. `None` when the
    /// engine stops first.
    pub(crate) async fn settled(&self, stop: &CancellationToken) -> Option<Option<NodeId>> {
        let mut names = self.name.subscribe();
        let name = tokio::select! {
            name = names.wait_for(|name| *name != Name::Lost) => *name.ok()?,
            () = stop.cancelled() => return None,
        };
        Some(match name {
            Name::Node(node) => Some(node),
            Name::Client | Name::Lost => None,
        })
    }

    /// Waits until this is not the name any more. For a client that is never.
    pub(crate) async fn lost(&self, node: Option<NodeId>) {
        let Some(node) = node else { return std::future::pending().await };
        // The sender is `self`, so it cannot be gone.
        self.name.subscribe().wait_for(|name| *name != Name::Node(node)).await.ok();
    }
}
