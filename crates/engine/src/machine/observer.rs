//! Who watches machines go from state to state.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::mpsc::{Sender, channel, error::TrySendError};
use windlass_core::{Failure, RunId};

/// How much news waits for observers at most.
const ROOM: usize = 10_000;

/// Is told how machines go from state to state in this process.
///
/// It is told on a thread of its own, after the fact: it can neither slow nor fail a run. What happened in other
/// processes, or before a crash, it does not hear of; and when it falls behind by more than ten thousand pieces of news,
/// the next ones are dropped, with a warning.
pub trait Observer: Send + Sync + 'static {
    /// A machine begins to handle a state.
    fn entered(&self, visit: &Visited) {
        let _ = visit;
    }

    /// A machine has left a state for another, which is recorded.
    fn left(&self, visit: &Visited, to: &str) {
        let _ = (visit, to);
    }

    /// An attempt to handle a state has failed.
    fn failed(&self, visit: &Visited, failure: &Failure) {
        let _ = (visit, failure);
    }
}

/// A machine in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Visited {
    /// The run.
    pub run: RunId,
    /// The machine's name.
    pub machine: &'static str,
    /// The state's name.
    pub state: &'static str,
}

enum News {
    Entered(Visited),
    Left(Visited, &'static str),
    Failed(Visited, Failure),
}

/// The way to the observers.
#[derive(Default)]
pub(crate) struct Observers {
    sender: OnceLock<Sender<News>>,
    is_behind: AtomicBool,
}

impl Observers {
    /// Has these observers told of everything from now on.
    pub(crate) fn start(&self, observers: Vec<Box<dyn Observer>>) -> std::io::Result<()> {
        if observers.is_empty() {
            return Ok(());
        }
        let (sender, mut news) = channel::<News>(ROOM);
        let tell = move || {
            while let Some(news) = news.blocking_recv() {
                for observer in &observers {
                    let told = catch_unwind(AssertUnwindSafe(|| news.tell(&**observer)));
                    if told.is_err() {
                        tracing::error!("an observer of state machines panicked");
                    }
                }
            }
        };
        std::thread::Builder::new().name("windlass-observers".to_owned()).spawn(tell)?;
        // There is one start for each engine.
        drop(self.sender.set(sender));
        Ok(())
    }

    fn send(&self, news: impl FnOnce() -> News) {
        let Some(sender) = self.sender.get() else { return };
        match sender.try_send(news()) {
            Ok(()) => self.is_behind.store(false, Ordering::Relaxed),
            Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(_)) => {
                if !self.is_behind.swap(true, Ordering::Relaxed) {
                    tracing::warn!("the observers of state machines are behind, and miss what happens now");
                }
            }
        }
    }

    pub(super) fn entered(&self, visit: impl FnOnce() -> Visited) {
        self.send(|| News::Entered(visit()));
    }

    pub(super) fn left(&self, visit: impl FnOnce() -> Visited, to: &'static str) {
        self.send(|| News::Left(visit(), to));
    }

    pub(super) fn failed(&self, visit: impl FnOnce() -> Visited, failure: &Failure) {
        self.send(|| News::Failed(visit(), failure.clone()));
    }
}

impl News {
    fn tell(&self, observer: &dyn Observer) {
        match self {
            Self::Entered(visit) => observer.entered(visit),
            Self::Left(visit, to) => observer.left(visit, to),
            Self::Failed(visit, failure) => observer.failed(visit, failure),
        }
    }
}
