//! Writing down what is for people only.

use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;
use windlass_core::{RunState, Time};
use windlass_store::{LogLine, Store, StoreError, Tally};

/// How long it gathers before it writes.
const GATHER: Duration = Duration::from_secs(1);
/// How many bytes of lines wait at most: those that come while as many do are lost.
const WAITING: usize = 16 << 20;
/// How many bytes of lines are written in one transaction, which others wait for.
const PORTION: usize = 256 << 10;
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
    lines: Mutex<Lines>,
    noted: Notify,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: Vec<LogLine>,
    bytes: usize,
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
        let has_room = lines.bytes < WAITING;
        if has_room {
            lines.bytes += bytes(&line);
            lines.waiting.push(line);
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
        let mut lines = mem::take(&mut *self.lines.lock()).waiting.into_iter().peekable();
        while lines.peek().is_some() {
            let mut size = 0;
            let portion = std::iter::from_fn(|| {
                let line = lines.next_if(|_| size < PORTION)?;
                size += bytes(&line);
                Some(line)
            });
            if let Err(error) = store.add_log(portion.collect()).await {
                failed("what tasks have logged", &error);
            }
        }
    }
}

/// How much a line takes, about.
fn bytes(line: &LogLine) -> usize {
    size_of::<LogLine>() + line.message.len() + line.fields.as_ref().map_or(0, String::len)
}

fn failed(what: &str, error: &StoreError) {
    // Nobody waits for it, and nothing depends on it.
    tracing::debug!(%error, "{what} could not be written");
}

#[cfg(test)]
mod tests {
    use windlass_core::RunId;

    use super::*;

    #[test]
    fn lines_wait_until_their_bytes_fill_the_room() {
        let scribe = Scribe::default();
        let line = |message: String| LogLine {
            run: RunId::new(),
            at: Time(0),
            level: 3,
            task: "load".into(),
            attempt: 1,
            message,
            fields: None,
            dropped: 0,
        };
        let kept = (0..WAITING).take_while(|_| scribe.log(line("a".repeat(4_096)))).count();
        assert!((WAITING / 8_192..WAITING / 4_096).contains(&kept), "{kept}");
        assert!(!scribe.log(line("of no room".into())));
    }
}
