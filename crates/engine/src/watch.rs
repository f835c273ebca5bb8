//! Following a run as it happens.

use std::{
    collections::HashSet,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use windlass_core::{Failure, RunId, RunState, Step, StepKind, Time, VERDICT, Verdict};
use windlass_store::{Place, RunImage};

use crate::{Client, Error, boxed::boxed, handle::verdict_of, take_up};

/// How many updates may wait for a slow watcher.
const AHEAD: usize = 64;

/// What happened to a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Update {
    /// Its state is now this.
    State(RunState),
    /// A step was recorded.
    Step {
        /// The task's name, with the element's place in a `for_each`; or that of what a durable function called, and
        /// `charge/undo` for the undo of `charge`.
        name: Arc<str>,
        /// Which attempt; zero for a task that was skipped.
        attempt: u32,
        /// How it ended.
        kind: StepKind,
        /// When the attempt began.
        started_at: Time,
        /// When it ended.
        at: Time,
        /// Why it failed.
        failure: Option<Failure>,
    },
    /// The run has ended. Nothing follows.
    Ended {
        /// How it stands.
        state: RunState,
        /// When it ended.
        at: Time,
        /// Why, unless it completed.
        verdict: Option<Verdict>,
    },
}

/// A stream of what happens to a run, from its beginning to its end.
///
/// It is a `Stream`, and has a [`next`](Self::next) of its own.
#[derive(Debug)]
pub struct Watch {
    updates: Receiver<Result<Update, Error>>,
}

impl Watch {
    pub(crate) fn new(client: Client, run: RunId) -> Self {
        let (sender, updates) = channel(AHEAD);
        tokio::spawn(boxed(async move {
            let follower = Follower { client, run, seen: HashSet::new(), state: None };
            follower.follow(&sender).await;
        }));
        Self { updates }
    }

    /// What happens next; `None` after the end.
    pub async fn next(&mut self) -> Option<Result<Update, Error>> {
        self.updates.recv().await
    }
}

impl Stream for Watch {
    type Item = Result<Update, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.updates.poll_recv(cx)
    }
}

/// Reads a run's records again whenever something changed, and passes on what is new.
struct Follower {
    client: Client,
    run: RunId,
    seen: HashSet<(u32, Arc<str>, u32, StepKind, u32)>,
    state: Option<RunState>,
}

/// Nobody watches any more.
struct Gone;

impl Follower {
    async fn follow(mut self, watcher: &Sender<Result<Update, Error>>) {
        let hub = Arc::clone(self.client.hub());
        let _watching = hub.watching();
        loop {
            let changed = hub.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match hub.store.load(self.run).await {
                Ok(Some(image)) => match self.pass_on(image, watcher).await {
                    Ok(true) | Err(Gone) => return,
                    Ok(false) => {}
                },
                Ok(None) => return drop(watcher.send(Err(Error::UnknownRun(self.run))).await),
                Err(error) if error.is_temporary() => {
                    tracing::debug!(%error, "watching a run failed for now")
                }
                Err(error) => return drop(watcher.send(Err(error.into())).await),
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(hub.poll) => {}
                () = watcher.closed() => return,
                () = hub.closed.cancelled() => return,
            }
        }
    }

    /// Passes on what is new. Answers whether the run has ended.
    async fn pass_on(
        &mut self,
        image: RunImage,
        watcher: &Sender<Result<Update, Error>>,
    ) -> Result<bool, Gone> {
        let state = image.standing.state();
        if self.state.is_none_or(|before| before != state) && !state.is_terminal() {
            send(watcher, Ok(Update::State(state))).await?;
        }
        self.state = Some(state);
        for row in &image.steps {
            if !self.seen.insert((row.generation, Arc::clone(&row.name), row.attempt, row.kind, row.epoch)) {
                continue;
            }
            let step = take_up::step(self.client.hub(), row);
            if &*row.name == VERDICT {
                // One that has completed only sees to what it has left behind.
                let completes = |step: Step| step.detail.verdict.as_deref() == Some(&Verdict::Completed);
                if !step.is_ok_and(completes) {
                    send(watcher, Ok(Update::State(RunState::Undoing))).await?;
                }
                continue;
            }
            let update = step.map(|step| Update::Step {
                name: step.name.strip_prefix('/').map_or_else(|| Arc::clone(&step.name), Arc::from),
                attempt: step.attempt,
                kind: step.kind,
                started_at: step.started_at,
                at: step.ended_at,
                failure: step.detail.failure.map(|failure| *failure),
            });
            send(watcher, update).await?;
        }
        let Place::Ended(end) = &image.standing.place else { return Ok(false) };
        let verdict = verdict_of(self.client.hub(), end);
        send(watcher, verdict.map(|verdict| Update::Ended { state, at: end.at, verdict })).await?;
        Ok(true)
    }
}

async fn send(watcher: &Sender<Result<Update, Error>>, update: Result<Update, Error>) -> Result<(), Gone> {
    watcher.send(update).await.map_err(|_| Gone)
}
