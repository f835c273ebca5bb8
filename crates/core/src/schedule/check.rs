//! Finding everything that is wrong with a schedule.

use std::time::Duration;

use super::{
    CatchUp, Cron, Problem, Problems, Schedule, ScheduleDraft, Timing, Zone,
    zone::{FIRST, LAST},
};
use crate::{Time, check::odd_name, format_duration};

/// No two times are nearer to each other than this.
const SHORTEST: Duration = Duration::from_millis(1);

/// More instants than this are another kind of list.
const MOST_INSTANTS: usize = 1_000;

/// More times than this are never made up for.
const MOST_CAUGHT_UP: u32 = 1_000;

/// A draft under examination, and what was found so far.
struct Check<'a> {
    draft: &'a ScheduleDraft,
    problems: Vec<Problem>,
}

pub(super) fn check(draft: ScheduleDraft) -> Result<Schedule, Problems> {
    let mut check = Check { draft: &draft, problems: Vec::new() };
    let timing = check.run();
    let mut problems = check.problems;
    if let (Some(timing), true) = (timing, problems.is_empty()) {
        let schedule = Schedule::new(draft, timing);
        match never(&schedule) {
            None => return Ok(schedule),
            Some(problem) => problems.push(problem),
        }
    }
    Err(Problems(problems))
}

/// A cron expression fires some day, but not always between two others.
fn never(schedule: &Schedule) -> Option<Problem> {
    let has_times = matches!(schedule.timing(), Timing::Every(_) | Timing::Cron(..) | Timing::At(_));
    if !has_times || schedule.next_time(Time(i64::MIN)).is_some() {
        return None;
    }
    let shown = |bound: Option<Time>, none: &str| bound.map_or_else(|| none.to_owned(), |at| at.to_string());
    Some(Problem::Never {
        schedule: schedule.name().to_owned(),
        from: shown(schedule.settings().start, "the beginning"),
        until: shown(schedule.settings().end, "the end"),
    })
}

impl Check<'_> {
    /// When it fires, where that can be told.
    fn run(&mut self) -> Option<Timing> {
        let draft = self.draft;
        for (what, name) in [("a schedule", &draft.name), ("a workflow", &draft.workflow)] {
            if let Some(why) = odd_name(name) {
                self.problems.push(Problem::Name { what, name: name.clone(), why });
            }
        }
        let timing = self.timing();
        self.placement();
        self.numbers();
        timing
    }

    fn timing(&mut self) -> Option<Timing> {
        let draft = self.draft;
        let ways = [
            ("every", draft.every.is_some()),
            ("cron", draft.cron.is_some()),
            ("at", !draft.at.is_empty()),
            ("manual", draft.manual),
        ];
        let ways: Vec<&str> = ways.into_iter().filter(|(_, used)| *used).map(|(way, _)| way).collect();
        let schedule = draft.name.clone();
        match ways.len() {
            0 => self.problems.push(Problem::NoTiming { schedule }),
            1 => {}
            _ => self.problems.push(Problem::Timings { schedule, ways }),
        }
        let every = draft.every.map(|period| {
            self.period(period);
            if draft.after_finish { Timing::AfterFinish(period) } else { Timing::Every(period) }
        });
        let cron = self.cron();
        let at = (!draft.at.is_empty()).then(|| self.instants());
        every.or(cron).or(at).or(draft.manual.then_some(Timing::Manual))
    }

    fn period(&mut self, period: Duration) {
        if period < SHORTEST {
            let (period, shortest) = (format_duration(period), format_duration(SHORTEST));
            self.refuse("interval", format!("{period} is shorter than {shortest}"));
        } else if !period.subsec_nanos().is_multiple_of(1_000) {
            self.refuse("interval", format!("{} is finer than a microsecond", format_duration(period)));
        }
    }

    fn cron(&mut self) -> Option<Timing> {
        let cron = self.draft.cron.as_deref()?.parse::<Cron>();
        let zone = self.draft.timezone.as_deref().map_or_else(|| Ok(Zone::utc()), Zone::named);
        match (cron, zone) {
            (Ok(cron), Ok(zone)) => return Some(Timing::Cron(cron, zone)),
            (cron, zone) => {
                self.problems.extend(cron.err().map(Problem::Cron));
                self.problems.extend(zone.err().map(Problem::Zone));
            }
        }
        None
    }

    fn instants(&mut self) -> Timing {
        let mut times = self.draft.at.clone();
        times.sort_unstable();
        times.dedup();
        if times.len() > MOST_INSTANTS {
            self.refuse(
                "list of instants",
                format!("it has {}, and {MOST_INSTANTS} are the most", times.len()),
            );
        }
        let known = Time(FIRST * 1_000_000)..Time(LAST * 1_000_000);
        for time in times.iter().filter(|time| !known.contains(time)).take(1) {
            self.refuse("list of instants", format!("{time} is beyond the calendar"));
        }
        Timing::At(times)
    }

    /// Settings that would be without effect.
    fn placement(&mut self) {
        let draft = self.draft;
        let with_times = "schedules with times of their own";
        for (setting, used, fits, belongs) in [
            ("after_finish", draft.after_finish, draft.every.is_some(), "`every`"),
            ("timezone", draft.timezone.is_some(), draft.cron.is_some(), "`cron`"),
            (
                "catch_up_within",
                draft.catch_up_within.is_some(),
                draft.catch_up != CatchUp::Skip,
                "schedules that catch up",
            ),
            ("catch_up", draft.catch_up != CatchUp::default(), !draft.manual, with_times),
            ("jitter", !draft.jitter.is_zero(), !draft.manual, with_times),
            ("starting_at", draft.start.is_some(), !draft.manual, with_times),
            ("ending_at", draft.end.is_some(), !draft.manual, with_times),
            ("count", draft.count.is_some(), !draft.manual, with_times),
        ] {
            if used && !fits {
                let schedule = draft.name.clone();
                self.problems.push(Problem::Misplaced { schedule, setting, belongs });
            }
        }
    }

    fn numbers(&mut self) {
        let draft = self.draft;
        match draft.catch_up {
            CatchUp::All { max } if !(1..=MOST_CAUGHT_UP).contains(&max) => {
                self.refuse("catch-up", format!("{max} times are not between 1 and {MOST_CAUGHT_UP}"));
            }
            _ => {}
        }
        if draft.catch_up_within.is_some_and(|window| window.is_zero()) {
            self.refuse("catch-up", "nothing is within 0s: say `CatchUp::Skip` if that is meant".to_owned());
        }
        if draft.count == Some(0) {
            self.refuse("count", "with 0 runs it would do nothing: leave it out for no limit".to_owned());
        }
        if let (Some(start), Some(end)) = (draft.start, draft.end)
            && start >= end
        {
            self.refuse("end", format!("{end} is not after its beginning at {start}"));
        }
        for fault in draft.backoff.faults() {
            self.refuse("backoff", fault);
        }
    }

    fn refuse(&mut self, setting: &'static str, why: String) {
        self.problems.push(Problem::Setting { schedule: self.draft.name.clone(), setting, why });
    }
}
