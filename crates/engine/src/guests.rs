//! The published attempts that this node executes.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_core::{ClaimId, RunId};
use windlass_store::{NodeRow, SpreadKey, SpreadRow};

use crate::{guest::Guest, node::Node};

/// What tells one guest from another.
type GuestId = (RunId, SpreadKey, ClaimId);

/// The published attempts that this node executes.
#[derive(Default)]
pub(crate) struct Guests {
    here: Mutex<HashMap<GuestId, Arc<Guest>>>,
    /// Wakes whoever takes published attempts and looks after them.
    pub(crate) changed: Notify,
    /// Whether there was more to take than room.
    crowded: AtomicBool,
    /// Set when the engine gives up what it executes.
    given_up: AtomicBool,
    /// The queues that are served by anybody, and those about which was complained.
    served: Mutex<HashSet<Arc<str>>>,
    unserved: Mutex<HashSet<Arc<str>>>,
}

impl Guests {
    pub(crate) fn len(&self) -> usize {
        self.here.lock().len()
    }

    /// How many are here that nearly killed too many nodes.
    pub(crate) fn suspects(&self, after: u32) -> usize {
        self.here.lock().values().filter(|guest| guest.row.deaths >= after).count()
    }

    /// Whether any is of one of these runs.
    pub(crate) fn are_of_any(&self, runs: &[RunId]) -> bool {
        let here = self.here.lock();
        !here.is_empty() && here.keys().any(|(run, ..)| runs.contains(run))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Guest>> {
        self.here.lock().values().map(Arc::clone).collect()
    }

    /// Forgets all of them: what still executes does not speak for this node any more.
    pub(crate) fn forget(&self) {
        self.here.lock().clear();
    }

    /// Drops all of them at once, but for code that cannot be stopped.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.all().iter().for_each(|guest| guest.give_up());
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Notes whether there was more to take than room: then whoever leaves calls for more.
    pub(crate) fn set_crowded(&self, crowded: bool) {
        self.crowded.store(crowded, Ordering::Release);
    }

    /// Learns which queues are served.
    pub(crate) fn learn_served(&self, nodes: &[NodeRow], own: impl Iterator<Item = Arc<str>>) {
        let others = nodes.iter().filter(|node| !node.dead).flat_map(|node| &node.queues);
        let served = others.map(|queue| Arc::from(queue.as_str())).chain(own).collect();
        *self.served.lock() = served;
    }

    /// Says, once for each queue, that nobody who is up serves it.
    pub(crate) fn check_served(&self, queue: &Arc<str>, step: &str, run: RunId) {
        if self.served.lock().contains(queue) {
            self.unserved.lock().remove(queue);
        } else if self.unserved.lock().insert(Arc::clone(queue)) {
            tracing::warn!(
                %run, step, %queue,
                "no engine that is up serves the queue `{queue}`: what is published in it waits until one does"
            );
        }
    }
}

impl Node {
    /// Notes that a published attempt is executed here.
    pub(crate) fn welcome(&self, guest: &Arc<Guest>) {
        self.guests.here.lock().insert(id_of(&guest.row, guest.subject.claim), Arc::clone(guest));
    }

    /// Has others look who wait for a slot of a queue: runs and attempts share them.
    pub(crate) fn slot_is_free(&self) {
        if self.limited.load(Ordering::Acquire) {
            self.look.notify_one();
        }
        if self.guests.crowded.load(Ordering::Acquire) {
            self.guests.changed.notify_one();
        }
    }

    /// Notes that it is not any more.
    pub(crate) fn part_with(&self, guest: &Guest) {
        if self.guests.here.lock().remove(&id_of(&guest.row, guest.subject.claim)).is_some() {
            self.released.notify_waiters();
            self.slot_is_free();
        }
    }
}

fn id_of(row: &SpreadRow, claim: ClaimId) -> GuestId {
    (row.run, row.key.clone(), claim)
}
