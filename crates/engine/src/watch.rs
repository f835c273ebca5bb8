//! Following a run as it happens.

use std::{
    collections::HashSet,
    fmt,
    pin::Pin,
    str::FromStr,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use hmac_sha256::Hash;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use windlass_core::{Failure, RunId, RunState, Step, StepKind, Time, VERDICT, VERSION, Verdict};
use windlass_store::{Place, RunImage, StepRow};

use crate::{Client, Error, VersionChange, boxed::boxed, feed::Sight, handle::verdict_of, take_up};

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
        /// What to go on after, if the watcher is cut off: see [`watch_after`](crate::Run::watch_after).
        mark: Mark,
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
    /// It went on under changed code.
    Version(VersionChange),
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

/// Names a recorded step of a run, for a watcher who was cut off and goes on where it stopped. It prints as sixteen digits,
/// and is read from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark(u64);

impl Mark {
    fn of(row: &StepRow) -> Self {
        let StepRow { generation, name, attempt, epoch, kind, .. } = row;
        let digest = Hash::hash(format!("{generation} {attempt} {epoch} {kind:?} {name}").as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest[..8]);
        Self(u64::from_be_bytes(bytes))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Mark {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_one = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mark = is_one.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        mark.map(Self).ok_or_else(|| Error::Invalid(format!("`{text}` is not the mark of a step")))
    }
}

/// A stream of what happens to a run, from its beginning to its end.
///
/// It is a `Stream`, and has a [`next`](Self::next) of its own.
#[derive(Debug)]
pub struct Watch {
    updates: Receiver<Result<Update, Error>>,
}

impl Watch {
    pub(crate) fn new(client: Client, run: RunId, after: Option<Mark>) -> Self {
        let (sender, updates) = channel(AHEAD);
        tokio::spawn(boxed(async move {
            let follower = Follower { client, run, after, seen: HashSet::new(), state: None };
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

/// Passes on what is new in a run's records whenever they were read again.
struct Follower {
    client: Client,
    run: RunId,
    /// Nothing up to this step is passed on.
    after: Option<Mark>,
    seen: HashSet<(u32, Arc<str>, u32, StepKind, u32)>,
    state: Option<RunState>,
}

/// Nobody watches any more.
struct Gone;

impl Follower {
    async fn follow(mut self, watcher: &Sender<Result<Update, Error>>) {
        let hub = Arc::clone(self.client.hub());
        let mut sights = hub.sights(self.run);
        // What others have read before may be older than what this watcher has seen.
        let mut is_old = true;
        loop {
            let sight = sights.borrow_and_update().clone();
            match sight {
                Sight::Nothing => is_old = false,
                Sight::Image(image) if std::mem::take(&mut is_old) && !self.goes_on_in(&image) => {
                    hub.look_again(self.run);
                }
                Sight::Image(image) => match self.pass_on(&image, watcher).await {
                    Ok(true) | Err(Gone) => return,
                    Ok(false) => {}
                },
                Sight::Gone => return drop(watcher.send(Err(Error::UnknownRun(self.run))).await),
                Sight::Failed(error) => return drop(watcher.send(Err(error.into())).await),
            }
            tokio::select! {
                next = sights.changed() => if next.is_err() {
                    return;
                },
                () = watcher.closed() => return,
            }
        }
    }

    /// Whether these records have the step that the watcher saw last.
    fn goes_on_in(&self, image: &RunImage) -> bool {
        self.after.is_none_or(|after| image.steps.iter().any(|row| Mark::of(row) == after))
    }

    /// Passes on what is new. Answers whether the run has ended.
    async fn pass_on(
        &mut self,
        image: &RunImage,
        watcher: &Sender<Result<Update, Error>>,
    ) -> Result<bool, Gone> {
        let state = image.standing.state();
        if self.state.is_none_or(|before| before != state) && !state.is_terminal() {
            send(watcher, Ok(Update::State(state))).await?;
        }
        self.state = Some(state);
        if let Some(after) = self.after.take() {
            let known = image.steps.iter().rposition(|row| Mark::of(row) == after).map_or(0, |last| last + 1);
            self.seen.extend(image.steps[..known].iter().map(key));
        }
        for row in &image.steps {
            if !self.seen.insert(key(row)) {
                continue;
            }
            let step = take_up::step(self.client.hub(), row);
            if &*row.name == VERDICT {
                // One that has completed, or is abandoned, only sees to what it has left behind.
                let undoes_nothing = |step: Step| {
                    let verdict = step.detail.verdict.as_deref();
                    matches!(verdict, Some(Verdict::Completed | Verdict::Abandoned { .. }))
                };
                if !step.is_ok_and(undoes_nothing) {
                    send(watcher, Ok(Update::State(RunState::Undoing))).await?;
                }
                continue;
            }
            if &*row.name == VERSION {
                let changed = step.map(|step| step.detail.changed);
                if let Some(changed) = changed.transpose() {
                    let change = changed.map(|changed| VersionChange::new(row.ended_at, *changed));
                    send(watcher, change.map(Update::Version)).await?;
                }
                continue;
            }
            let update = step.map(|step| Update::Step {
                mark: Mark::of(row),
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

/// What tells a step from every other one of its run.
fn key(row: &StepRow) -> (u32, Arc<str>, u32, StepKind, u32) {
    (row.generation, Arc::clone(&row.name), row.attempt, row.kind, row.epoch)
}

async fn send(watcher: &Sender<Result<Update, Error>>, update: Result<Update, Error>) -> Result<(), Gone> {
    watcher.send(update).await.map_err(|_| Gone)
}
