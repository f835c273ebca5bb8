//! Writing down what is for people only.

use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;
use windlass_core::{RunState, Time};
use windlass_store::{LogLine, Store, StoreError, Tally};

/// How long it gathers before it writes.
const GATHER: Duration = Duration::from_secs(1);
/// How many lines wait at most: those that come while as many do are lost.
const WAITING: usize = 10_000;
/// How many lines are written in one transaction.
const PORTION: usize = 500;
/// The length of a minute, in microseconds.
const MINUTE: i64 = 60_000_000;

/// What is counted together: a workflow, what became of its runs, and when.
type Counted = (Arc<str>, RunState, Time);

/// Counts what begins and ends here, and keeps what tasks log, until both are written: in few transactions, beside those of
/// steps and never in them.
///
/// Woken by whatever there is to write. What a process has not written when it dies is lost.
#[derive(Debug, Default)]
pub(crate) struct Scribe {
    counts: Mutex<HashMap<Counted, i64>>,
    lines: Mutex<Vec<LogLine>>,
    noted: Notify,
}

impl Scribe {
    /// So many more runs came to a state; fewer than none if they do not stand there any more.
    pub(crate) fn count(&self, workflow: &Arc<str>, state: RunState, at: Time, count: i64) {
        let minute = Time(at.0.div_euclid(MINUTE) * MINUTE);
        *self.counts.lock().entry((Arc::clone(workflow), state, minute)).or_default() += count;
        self.noted.notify_one();
    }

    /// Keeps a line. Answers whether there was room.
    #[cfg_attr(not(feature = "logs"), allow(dead_code, reason = "without the layer nobody listens"))]
    pub(crate) fn log(&self, line: LogLine) -> bool {
        let mut lines = self.lines.lock();
        let has_room = lines.len() < WAITING;
        if has_room {
            lines.push(line);
            drop(lines);
            self.noted.notify_one();
        }
        has_room
    }

    /// Writes until it is closed, and then what is left. `gathers` is false where time does not pass by itself.
    pub(crate) async fn run(
        self: Arc<Self>,
        store: Arc<dyn Store>,
        closed: CancellationToken,
        gathers: bool,
    ) {
        loop {
            tokio::select! {
                () = self.noted.notified() => {}
                () = closed.cancelled() => break,
            }
            if gathers {
                tokio::select! {
                    () = sleep(GATHER) => {}
                    () = closed.cancelled() => break,
                }
            }
            self.write(&*store).await;
        }
        self.write(&*store).await;
    }

    /// Writes what there is. What could not be written for now waits for the next time.
    pub(crate) async fn write(&self, store: &dyn Store) {
        let counts = mem::take(&mut *self.counts.lock());
        if !counts.is_empty() {
            let tally = |((workflow, state, at), count): (&(Arc<str>, RunState, Time), &i64)| Tally {
                workflow: Arc::clone(workflow),
                state: *state,
                at: *at,
                count: *count,
            };
            if let Err(error) = store.tally(counts.iter().map(tally).collect()).await {
                failed("counts of runs", &error);
                if error.is_temporary() {
                    let mut kept = self.counts.lock();
                    counts.into_iter().for_each(|(what, count)| *kept.entry(what).or_default() += count);
                }
            }
        }
        let lines = mem::take(&mut *self.lines.lock());
        for portion in lines.chunks(PORTION) {
            if let Err(error) = store.add_log(portion.to_vec()).await {
                failed("what tasks have logged", &error);
            }
        }
    }
}

fn failed(what: &str, error: &StoreError) {
    // Nobody waits for it, and nothing depends on it.
    tracing::debug!(%error, "{what} could not be written");
}
