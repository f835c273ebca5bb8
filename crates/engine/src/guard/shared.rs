//! What the processes on one database share by a name.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use windlass_core::{Circuit, Fuse, Pace, Passage, Time, Turns};
use windlass_store::{Cell, StoreError, Swapped};

use crate::{Failure, node::Node};

/// How long what was read of a circuit breaker is taken for true.
const FRESH: Duration = Duration::from_millis(100);
/// How long to wait before a store that is out of reach is asked again.
const AGAIN: Duration = Duration::from_millis(200);

/// The rate limits and circuit breakers that this process shares with others, by name.
#[derive(Default)]
pub(crate) struct Shared {
    queues: Mutex<HashMap<&'static str, Queue>>,
    circuits: Mutex<HashMap<&'static str, (Instant, Cell)>>,
}

/// Those who wait to be told when they have their turn. All that come while the store is asked are asked for together.
#[derive(Default)]
struct Queue {
    waiting: Vec<oneshot::Sender<Result<Time, Failure>>>,
    is_served: bool,
}

impl Shared {
    /// Takes a turn in a shared rate limit, and answers when it is.
    pub(super) async fn turn(
        &self,
        node: &Arc<Node>,
        name: &'static str,
        pace: Pace,
    ) -> Result<Time, Failure> {
        let (asker, told) = oneshot::channel();
        let is_first = {
            let mut queues = self.queues.lock();
            let queue = queues.entry(name).or_default();
            queue.waiting.push(asker);
            !std::mem::replace(&mut queue.is_served, true)
        };
        if is_first {
            let node = Arc::clone(node);
            let backroom = Arc::clone(&node.hub);
            backroom.backroom.spawn(async move { serve(&node, name, pace).await });
        }
        told.await.unwrap_or_else(|_| Err(Failure::new("the engine has stopped").transient()))
    }

    /// Those who wait now. When nobody does, the next one has to call.
    fn waiting(&self, name: &'static str) -> Vec<oneshot::Sender<Result<Time, Failure>>> {
        let mut queues = self.queues.lock();
        let queue = queues.entry(name).or_default();
        queue.is_served = !queue.waiting.is_empty();
        std::mem::take(&mut queue.waiting)
    }

    /// Whether a call may pass a shared circuit breaker, and how many have failed in a row. A store that is out of reach
    /// stops nobody: what was known last counts.
    pub(super) async fn pass(&self, node: &Arc<Node>, name: &'static str, fuse: Fuse) -> (Passage, u32) {
        let known = self.circuits.lock().get(name).cloned();
        let (mut cell, is_fresh) = match known {
            Some((read_at, cell)) => (cell, read_at.elapsed() < FRESH),
            None => (empty(), false),
        };
        if !is_fresh {
            match node.hub.store.cell(key(BREAKER, name)).await {
                Ok(read) => cell = self.remember(name, read.unwrap_or_else(empty)),
                Err(error) => tracing::debug!(name, %error, "a circuit breaker could not be asked"),
            }
        }
        let mut circuit: Circuit = decode(&cell);
        let passage = circuit.pass(&fuse, node.hub.clock.now());
        let failures = circuit.failures();
        let Passage::Probe(_) = passage else { return (passage, failures) };
        // Others must know of a probe before it begins.
        let probed = change(node, BREAKER, name, Some(cell), |circuit: &mut Circuit, now| {
            let passage = circuit.pass(&fuse, now);
            (passage, matches!(passage, Passage::Probe(_)))
        });
        match probed.await {
            Ok((passage, cell)) => {
                self.remember(name, cell);
                (passage, failures)
            }
            Err(error) => {
                tracing::debug!(name, %error, "a probe of a circuit breaker could not be announced");
                (passage, failures)
            }
        }
    }

    /// Says how a call went, as soon as the store can be told.
    pub(super) fn tell(
        &self,
        node: &Arc<Node>,
        name: &'static str,
        fuse: Fuse,
        turn: u64,
        succeeded: Option<bool>,
    ) {
        let known = self.circuits.lock().get(name).map(|(_, cell)| cell.clone());
        let mut circuit: Circuit = known.as_ref().map(decode).unwrap_or_default();
        // Mostly a call succeeds, and nothing is different.
        if !circuit.ended(&fuse, turn, succeeded, node.hub.clock.now()) {
            return;
        }
        let node = Arc::clone(node);
        let backroom = Arc::clone(&node.hub);
        backroom.backroom.spawn(async move {
            let told = change(&node, BREAKER, name, known, |circuit: &mut Circuit, now| {
                ((), circuit.ended(&fuse, turn, succeeded, now))
            });
            match told.await {
                Ok(((), cell)) => drop(node.shared.remember(name, cell)),
                Err(error) => tracing::debug!(name, %error, "a circuit breaker could not be told"),
            }
        });
    }

    fn remember(&self, name: &'static str, cell: Cell) -> Cell {
        self.circuits.lock().insert(name, (Instant::now(), cell.clone()));
        cell
    }
}

const RATE: &str = "rate";
const BREAKER: &str = "breaker";

/// The name of a cell.
fn key(kind: &str, name: &str) -> Arc<str> {
    format!("{kind}:{name}").into()
}

/// One that is not there yet.
fn empty() -> Cell {
    Cell { version: 0, body: Bytes::new() }
}

/// What a cell holds. One that cannot be read, because another version of this crate wrote it, is begun anew.
fn decode<T: DeserializeOwned + Default>(cell: &Cell) -> T {
    serde_json::from_slice(&cell.body).unwrap_or_default()
}

/// Takes turns for those who wait, until nobody does.
async fn serve(node: &Arc<Node>, name: &'static str, pace: Pace) {
    loop {
        let waiting = node.shared.waiting(name);
        if waiting.is_empty() {
            return;
        }
        let taken = change(node, RATE, name, None, |turns: &mut Turns, now| {
            let taken: Vec<Time> = waiting.iter().map(|_| turns.take(&pace, now)).collect();
            (taken, true)
        });
        match taken.await {
            Ok((taken, _)) => {
                for (asker, turn) in waiting.into_iter().zip(taken) {
                    // Whoever was stopped meanwhile has lost its turn.
                    drop(asker.send(Ok(turn)));
                }
            }
            Err(error) => {
                for asker in waiting {
                    let failure = Failure::new(format!("the rate limit `{name}` cannot be asked: {error}"));
                    drop(asker.send(Err(failure.transient())));
                }
            }
        }
    }
}

/// Changes what processes share, whoever else does. `known` is what was read last. Nothing is written when the change says
/// that there is none. Answers what the change gave, and the cell as it is then.
async fn change<S, T>(
    node: &Arc<Node>,
    kind: &str,
    name: &str,
    known: Option<Cell>,
    mut change: impl FnMut(&mut S, Time) -> (T, bool),
) -> Result<(T, Cell), StoreError>
where
    S: Serialize + DeserializeOwned + Default,
{
    let (store, key) = (&node.hub.store, key(kind, name));
    let mut known = known;
    loop {
        let cell = match known.take() {
            Some(cell) => cell,
            None => match store.cell(Arc::clone(&key)).await {
                Ok(cell) => cell.unwrap_or_else(empty),
                Err(error) if error.is_temporary() && node.id().is_some() => {
                    sleep(AGAIN).await;
                    continue;
                }
                Err(error) => return Err(error),
            },
        };
        let mut state: S = decode(&cell);
        let (given, is_different) = change(&mut state, node.hub.clock.now());
        if !is_different {
            return Ok((given, cell));
        }
        let body = serde_json::to_vec(&state).map_err(|error| StoreError::Broken(error.to_string()))?;
        let body = Bytes::from(body);
        let Some(id) = node.id() else { return Err(StoreError::Fenced) };
        match store.swap_cell(Some(id), Arc::clone(&key), cell.version, body.clone()).await {
            Ok(Swapped::Done { .. }) => return Ok((given, Cell { version: cell.version + 1, body })),
            Ok(Swapped::Changed { now, .. }) => known = Some(now.unwrap_or_else(empty)),
            // It may be written or not; whatever was taken by it is not taken again.
            Err(error) if error.is_temporary() && node.id().is_some() => sleep(AGAIN).await,
            Err(error) => return Err(error),
        }
    }
}
