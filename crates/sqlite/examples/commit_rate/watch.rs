//! What the thread that writes spends, and on what.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use windlass_core::Time;
use windlass_sqlite::{CommitMoment, SqliteOptions};

/// Microseconds for one unit.
pub(crate) struct Cost {
    /// Processor time of the thread, all in all.
    pub(crate) total: f64,
    /// From the begin of the batch until its rows are written, in the median batch.
    rows: f64,
    /// The same for the commit: log, disk, checkpoint.
    commit: f64,
}

impl Cost {
    /// What the one in the middle says, of each.
    pub(crate) fn middle(many: Vec<Self>) -> Self {
        let of = |pick: fn(&Self) -> f64| median(&mut many.iter().map(pick).collect::<Vec<_>>());
        Self { total: of(|cost| cost.total), rows: of(|cost| cost.rows), commit: of(|cost| cost.commit) }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { total, rows, commit } = self;
        write!(f, "{total:.2} (by the clock: rows {rows:.2}, commit {commit:.2})")
    }
}

/// Watches the writer from inside: its clock is asked when a batch begins.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<Mutex<Moments>>);

#[derive(Default)]
struct Moments {
    began: Option<Instant>,
    written: Option<Instant>,
    last: Option<(Duration, Duration)>,
}

impl Watch {
    /// Options that let this one watch.
    pub(crate) fn options(&self) -> SqliteOptions {
        let (clock, hook) = (Arc::clone(&self.0), Arc::clone(&self.0));
        let epoch = Instant::now();
        SqliteOptions::new()
            .clock(move || {
                let now = Instant::now();
                clock.lock().began = Some(now);
                Time(1_700_000_000_000_000 + i64::try_from((now - epoch).as_micros()).unwrap_or(i64::MAX))
            })
            .on_commit(move |moment| {
                let mut moments = hook.lock();
                match (moment, moments.began, moments.written) {
                    (CommitMoment::Before(_), ..) => moments.written = Some(Instant::now()),
                    (CommitMoment::After(_), Some(began), Some(written)) => {
                        moments.last = Some((written.saturating_duration_since(began), written.elapsed()));
                    }
                    _ => {}
                }
            })
    }

    /// Begins to count.
    pub(crate) fn count(&self) -> Count<'_> {
        Count { watch: self, used: writer_seconds(), units: 0, rows: Vec::new(), commits: Vec::new() }
    }
}

/// Counts units and what they cost.
pub(crate) struct Count<'a> {
    watch: &'a Watch,
    used: f64,
    units: usize,
    rows: Vec<f64>,
    commits: Vec<f64>,
}

impl Count<'_> {
    /// Notes that a batch of this many units was answered. Answers for how long it was written.
    pub(crate) fn note(&mut self, units: usize) -> Duration {
        self.units += units;
        let Some((rows, commit)) = self.watch.0.lock().last.take() else { return Duration::ZERO };
        self.rows.push(micros(rows) / units as f64);
        self.commits.push(micros(commit) / units as f64);
        rows + commit
    }

    /// What was counted.
    pub(crate) fn cost(mut self) -> Cost {
        let total = (writer_seconds() - self.used) * 1e6 / self.units as f64;
        Cost { total, rows: median(&mut self.rows), commit: median(&mut self.commits) }
    }
}

/// A span in microseconds.
pub(crate) fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

/// The one in the middle.
pub(crate) fn median(all: &mut [f64]) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// How long the threads that write have used processors, where that can be told.
fn writer_seconds() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let writers = threads.map(|thread| thread.path()).filter(|thread| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "windlass-write")
    });
    writers.map(|thread| used(&thread.join("schedstat"))).sum()
}

/// How long this thread has used processors.
pub(crate) fn my_seconds() -> f64 {
    used("/proc/thread-self/schedstat".as_ref())
}

fn used(schedstat: &std::path::Path) -> f64 {
    let text = std::fs::read_to_string(schedstat).unwrap_or_default();
    text.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}
