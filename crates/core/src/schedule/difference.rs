//! What two declarations of a schedule differ in.

use std::time::Duration;

use super::{Backoff, CatchUp, Overlap, Schedule, ScheduleDraft, Timing};
use crate::{Fingerprint, Time, format_duration};

impl Schedule {
    /// What is different in another declaration of the same schedule, in words, one sentence each. Nothing when they are
    /// equal.
    ///
    /// ```
    /// use windlass_core::schedule::{Overlap, ScheduleDraft};
    ///
    /// let before = ScheduleDraft::new("nightly", "etl").cron("0 2 * * *").check().unwrap();
    /// let after = ScheduleDraft::new("nightly", "etl").cron("0 3 * * *").overlap(Overlap::Allow).check().unwrap();
    /// assert_eq!(
    ///     before.difference(&after),
    ///     [
    ///         "the times were cron `0 2 * * *` in UTC, and are cron `0 3 * * *` in UTC",
    ///         "the overlap was skip, and is allow",
    ///     ],
    /// );
    /// ```
    #[must_use]
    pub fn difference(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.timing() != other.timing() {
            let (was, is) = (self.timing().as_written(), other.timing().as_written());
            found.push(format!("the times were {was}, and are {is}"));
        }
        if self.settings().input != other.settings().input {
            found.push("the input is another one".to_owned());
        }
        for ((what, was), (_, is)) in shown(self.settings()).into_iter().zip(shown(other.settings())) {
            if was != is {
                found.push(format!("the {what} was {was}, and is {is}"));
            }
        }
        found
    }

    /// A stable hash of everything that the schedule says, however its cron expression is written.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        // No `..` here: a setting that is added must be thought about.
        let ScheduleDraft {
            name,
            workflow,
            input,
            every: _,
            after_finish: _,
            cron: _,
            timezone: _,
            at: _,
            manual: _,
            overlap,
            catch_up,
            catch_up_within,
            jitter,
            start,
            end,
            count,
            backoff,
        } = self.settings();
        let mut hash = Fingerprint::new().part("windlass schedule 1").part(name).part(workflow);
        add(&mut hash, input.as_ref());
        add_timing(&mut hash, self.timing());
        hash.add(match overlap {
            Overlap::Skip => "skip",
            Overlap::BufferOne => "buffer one",
            Overlap::BufferAll => "buffer all",
            Overlap::CancelRunning => "cancel running",
            Overlap::Allow => "allow",
        });
        match catch_up {
            CatchUp::Skip => hash.add("skip"),
            CatchUp::Latest => hash.add("latest"),
            CatchUp::All { max } => hash.add(max.to_le_bytes()),
        }
        add(&mut hash, catch_up_within.map(nanos));
        hash.add(nanos(*jitter));
        add(&mut hash, start.map(instant));
        add(&mut hash, end.map(instant));
        add(&mut hash, count.map(u64::to_le_bytes));
        let Backoff { initial, multiplier, max_delay, jitter, trip_after } = backoff;
        hash.add(nanos(*initial));
        hash.add(nanos(*max_delay));
        hash.add(multiplier.to_bits().to_le_bytes());
        hash.add(jitter.to_bits().to_le_bytes());
        add(&mut hash, trip_after.map(u32::to_le_bytes));
        hash.finish()
    }
}

fn add_timing(hash: &mut Fingerprint, timing: &Timing) {
    match timing {
        Timing::Every(period) => {
            hash.add("every");
            hash.add(nanos(*period));
        }
        Timing::AfterFinish(pause) => {
            hash.add("after finish");
            hash.add(nanos(*pause));
        }
        Timing::Cron(cron, zone) => {
            hash.add("cron");
            cron.add_to(hash);
            hash.add(zone.name());
        }
        Timing::At(times) => {
            hash.add("at");
            hash.add(times.iter().flat_map(|time| instant(*time)).collect::<Vec<u8>>());
        }
        Timing::Manual => hash.add("manual"),
    }
}

/// What may be missing is preceded by whether it is there.
fn add(hash: &mut Fingerprint, value: Option<impl AsRef<[u8]>>) {
    hash.add([u8::from(value.is_some())]);
    if let Some(value) = value {
        hash.add(value);
    }
}

fn nanos(span: Duration) -> [u8; 16] {
    span.as_nanos().to_le_bytes()
}

fn instant(time: Time) -> [u8; 8] {
    time.0.to_le_bytes()
}

/// Each setting with its value in words; what cannot be shown is left to the caller.
fn shown(settings: &ScheduleDraft) -> [(&'static str, String); 10] {
    let none = || "none".to_owned();
    let instant = |at: Option<Time>| at.map_or_else(none, |at| at.to_string());
    let window = settings.catch_up_within.map_or_else(none, format_duration);
    [
        ("name", settings.name.clone()),
        ("workflow", settings.workflow.clone()),
        ("overlap", settings.overlap.to_string()),
        ("catch-up", settings.catch_up.to_string()),
        ("window of the catch-up", window),
        ("jitter", format_duration(settings.jitter)),
        ("beginning", instant(settings.start)),
        ("end", instant(settings.end)),
        ("number of runs", settings.count.map_or_else(none, |count| count.to_string())),
        ("backoff", settings.backoff.to_string()),
    ]
}
