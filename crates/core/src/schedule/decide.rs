//! What a schedule does when something happens.

use std::time::Duration;

use super::{
    Command, Event, Firing, Origin, Overlap, Schedule, Skip, Slot, State, Tell, Timing,
    state::{Live, Span, Waiting},
};
use crate::Time;

/// A time that is no later than this was not missed. Clocks and processes are not that exact, and nothing is left out
/// because of a hiccup.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// More runs than this are not asked for at once: the rest follows in the next step.
pub(super) const MOST_AT_ONCE: usize = 1_000;

/// More than this do not wait.
const MOST_WAITING: usize = 1_000;

/// More than this are not under way beside each other.
const MOST_RUNNING: usize = 1_000;

/// A wish whose id has more characters than this is refused: it becomes part of a key.
const LONGEST_WISH: usize = 200;

/// What a schedule comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Where it stands now.
    pub state: State,
    /// What it asks for, in order.
    pub commands: Vec<Command>,
}

impl Schedule {
    /// Declares the schedule for the first time.
    ///
    /// Its first time is after `now`. Only an instant of [`at`](super::ScheduleDraft::at) may be ten seconds past, so that
    /// *at once* can be said.
    #[must_use]
    pub fn begin(&self, now: Time) -> Decision {
        let mut step = Step::new(self, State::declared(fresh(self, now), now), now);
        step.state.wake = step.next_wake();
        step.commands.push(Command::Advance(step.state.wake));
        Decision { state: step.state, commands: step.commands }
    }

    /// Decides what an event comes to.
    ///
    /// It depends on nothing but what it is given. The new state and all commands belong into one transaction that checks
    /// that the state is still the old one: then each time of the schedule is started once, whoever decides, and however
    /// often an event is told.
    ///
    /// When the clock goes back, nothing is decided on again: the schedule waits until the clock is where it was.
    ///
    /// ```
    /// use windlass_core::{Time, schedule::{Command, Event, ScheduleDraft}};
    ///
    /// let minute = 60_000_000;
    /// let schedule = ScheduleDraft::new("poll", "inbox").cron("* * * * *").check().unwrap();
    /// let state = schedule.begin(Time(0)).state;
    /// assert_eq!(state.wake(), Some(Time(minute)));
    ///
    /// let decision = schedule.decide(state, Event::Due, Time(minute));
    /// let Command::Start(run) = &decision.commands[0] else { panic!() };
    /// assert_eq!(run.key, "poll@1970-01-01T00:01:00Z");
    /// assert_eq!(decision.commands[1], Command::Advance(Some(Time(2 * minute))));
    /// ```
    #[must_use]
    pub fn decide(&self, state: State, event: Event, now: Time) -> Decision {
        let mut step = Step::new(self, state, now);
        match event {
            Event::Due => {}
            Event::Ended { key, outcome, at } => step.ended(&key, outcome, at.min(now)),
            Event::Existed { key } => return step.existed(&key),
            Event::Trigger { id, exists } => step.trigger(id, exists),
            Event::Backfill { from, to } => step.backfill(from, to),
            Event::Pause { note } => step.state.paused = Some(note),
            Event::Resume => step.resume(),
            Event::Reset => step.reset(),
            Event::Update(to) => {
                step.go_on();
                return step.update(*to);
            }
            Event::Remove => return step.remove(),
        }
        step.finish()
    }
}

/// The instant up to which a new schedule, or new times, have nothing to decide on.
pub(super) fn fresh(schedule: &Schedule, now: Time) -> Time {
    match schedule.timing() {
        Timing::At(_) => now - GRACE,
        _ => now,
    }
}

/// One decision under way.
pub(super) struct Step<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) state: State,
    pub(super) now: Time,
    pub(super) commands: Vec<Command>,
}

impl<'a> Step<'a> {
    fn new(schedule: &'a Schedule, state: State, now: Time) -> Self {
        Self { schedule, state, now, commands: Vec::new() }
    }

    pub(super) fn finish(mut self) -> Decision {
        self.go_on();
        let wake = self.next_wake();
        self.rest_until(wake)
    }

    pub(super) fn rest_until(mut self, wake: Option<Time>) -> Decision {
        if wake != self.state.wake {
            self.state.wake = wake;
            self.commands.push(Command::Advance(wake));
        }
        Decision { state: self.state, commands: self.commands }
    }

    /// Starts whatever may start now: what waits first, then what the clock asks for, then past times.
    fn go_on(&mut self) {
        if self.schedule.settings().overlap == Overlap::CancelRunning {
            // What waits would be started only to be cancelled by what the clock asks for.
            self.take_due();
        }
        self.release();
        self.take_due();
        self.fill();
    }

    /// Whether nothing may start that nobody asks for in person.
    pub(super) fn is_held(&self) -> bool {
        self.state.paused.is_some() || self.state.tripped || self.now < self.state.held_until
    }

    fn resume(&mut self) {
        if self.state.paused.take().is_some() {
            self.state.held_until = self.state.held_until.max(self.now);
        }
    }

    fn reset(&mut self) {
        if self.state.tripped {
            self.state.tripped = false;
            self.state.held_until = self.now;
        }
        self.forgive(self.now);
        self.excuse();
        // A clock that was far ahead has been set right. What was started meanwhile is known by its key.
        self.state.rested_at = self.state.rested_at.min(self.now);
        if self.state.cursor > self.now + GRACE {
            self.state.cursor = fresh(self.schedule, self.now);
        }
    }

    fn trigger(&mut self, id: String, exists: bool) {
        if id.chars().count() > LONGEST_WISH {
            let slot = Slot::Wish(id.chars().take(LONGEST_WISH).collect());
            return self.tell(Tell::Skipped { slot, why: Skip::TooLong });
        }
        let slot = Slot::Wish(id);
        let key = slot.key(self.schedule.name());
        let was_last = self.state.last_run.as_ref().is_some_and(|last| last.key == key);
        if exists || was_last || self.is_taken(&slot) {
            return;
        }
        if self.state.tripped {
            return self.tell(Tell::Skipped { slot, why: Skip::Tripped });
        }
        self.offer(Waiting { slot, origin: Origin::Trigger, at: self.now });
    }

    /// Whether it is under way, or will be.
    pub(super) fn is_taken(&self, slot: &Slot) -> bool {
        let state = &self.state;
        state.running.iter().any(|live| live.slot == *slot)
            || state.waiting.iter().any(|waiting| waiting.slot == *slot)
    }

    fn backfill(&mut self, from: Time, to: Time) {
        match self.schedule.backfill(&self.state, from, to, self.now) {
            Ok(times) => {
                if let (Some(first), Some(last)) = (times.first(), times.last()) {
                    self.state.backfills.push(Span { after: Time(first.0 - 1), last: *last });
                }
            }
            Err(error) => self.tell(Tell::BackfillRefused(error)),
        }
    }

    fn remove(mut self) -> Decision {
        for waiting in std::mem::take(&mut self.state.waiting) {
            self.tell(Tell::Skipped { slot: waiting.slot, why: Skip::Removed });
        }
        self.drop_backfills();
        self.state.wake = None;
        self.commands.push(Command::Remove);
        Decision { state: self.state, commands: self.commands }
    }

    /// Starts a run, or does what the overlap says when one is under way.
    pub(super) fn offer(&mut self, waiting: Waiting) {
        let only_backfills = self.state.running.iter().all(|live| live.origin == Origin::Backfill);
        let overlap = match self.schedule.settings().overlap {
            // Past times make room for the present, and are not lost for it.
            Overlap::Skip | Overlap::CancelRunning if only_backfills => Overlap::BufferOne,
            overlap => overlap,
        };
        if self.is_free() {
            return self.start(waiting);
        }
        let why = match overlap {
            Overlap::BufferOne if self.state.waiting.is_empty() => return self.wait(waiting),
            Overlap::BufferAll | Overlap::Allow => return self.wait(waiting),
            Overlap::CancelRunning => return self.take_over(waiting),
            Overlap::Skip | Overlap::BufferOne => Skip::Running,
        };
        self.tell(Tell::Skipped { slot: waiting.slot, why });
    }

    /// Lets it wait, if there is room.
    pub(super) fn wait(&mut self, waiting: Waiting) {
        if self.state.waiting.len() >= MOST_WAITING {
            return self.tell(Tell::Skipped { slot: waiting.slot, why: Skip::Full });
        }
        self.tell(Tell::Waits { slot: waiting.slot.clone() });
        self.state.waiting.push(waiting);
    }

    /// Cancels what runs, and waits in the place of all others.
    fn take_over(&mut self, waiting: Waiting) {
        self.replace_waiting();
        let name = self.schedule.name();
        for live in self.state.running.iter_mut().filter(|live| !live.cancelled) {
            live.cancelled = true;
            self.commands.push(Command::Cancel { key: live.slot.key(name) });
        }
        self.wait(waiting);
    }

    pub(super) fn replace_waiting(&mut self) {
        for replaced in std::mem::take(&mut self.state.waiting) {
            self.tell(Tell::Skipped { slot: replaced.slot, why: Skip::Replaced });
        }
    }

    fn start(&mut self, waiting: Waiting) {
        let Waiting { slot, origin, at } = waiting;
        let (name, workflow) = (self.schedule.name(), self.schedule.workflow().to_owned());
        let live = Live { slot, origin, fired_at: self.now, cancelled: false, excused: false };
        let last = live.as_last_run(name);
        let key = last.key.clone();
        self.state.runs += 1;
        self.state.fired += u64::from(origin.is_by_clock());
        if let Some(ended) = self.state.last_run.replace(last).filter(|last| last.ended_at.is_some()) {
            self.state.ended_run = Some(ended);
        }
        self.state.running.push(live);
        let firing = Firing { key, workflow, scheduled_at: at, fired_at: self.now, origin };
        self.commands.push(Command::Start(firing));
    }

    /// Starts what waits, as far as there is room beside what runs.
    fn release(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let passes = |waiting: &Waiting| waiting.origin == Origin::Trigger && !self.state.tripped;
            let first = self.state.waiting.iter().position(|waiting| passes(waiting) || !self.is_held());
            let (Some(first), true) = (first, self.is_free()) else { return };
            let waiting = self.state.waiting.remove(first);
            self.start(waiting);
        }
    }

    /// Starts past times that somebody asked for.
    fn fill(&mut self) {
        let mut started = 0;
        while let Some(span) = self.state.backfills.first().copied()
            && self.is_free()
            && !self.is_held()
            && started < MOST_AT_ONCE
        {
            match self.schedule.next_time(span.after).filter(|time| *time <= span.last) {
                None => drop(self.state.backfills.remove(0)),
                Some(time) => {
                    self.state.backfills[0].after = time;
                    let slot = Slot::Time(time);
                    if !self.is_taken(&slot) {
                        self.start(Waiting { slot, origin: Origin::Backfill, at: time });
                        started += 1;
                    }
                }
            }
        }
    }

    /// Whether another run may be under way beside those that are.
    fn is_free(&self) -> bool {
        let most = if self.schedule.settings().overlap == Overlap::Allow { MOST_RUNNING } else { 1 };
        self.state.running.len() < most
    }

    /// When it wants to hear of the clock again.
    fn next_wake(&self) -> Option<Time> {
        let state = &self.state;
        if state.paused.is_some() || state.tripped {
            return None;
        }
        let (left, next) = (state.left(self.schedule), state.next_time(self.schedule));
        let clock = next.filter(|_| left > 0).map(|time| self.schedule.due(time));
        let waits = !(state.waiting.is_empty() && state.backfills.is_empty());
        let rest = (waits && self.is_free()).then_some(self.now);
        [clock, rest].into_iter().flatten().min().map(|at| at.max(state.held_until))
    }

    pub(super) fn tell(&mut self, tell: Tell) {
        self.commands.push(Command::Tell(tell));
    }
}

impl State {
    /// The next time that is not decided on.
    pub(super) fn next_time(&self, schedule: &Schedule) -> Option<Time> {
        let Timing::AfterFinish(pause) = schedule.timing() else { return schedule.next_time(self.cursor) };
        if !(self.running.is_empty() && self.waiting.is_empty()) {
            return None;
        }
        let settings = schedule.settings();
        let rested = (self.rested_at + *pause).max(settings.start.unwrap_or(self.rested_at));
        let next = rested.max(self.held_until).max(Time(self.cursor.0.saturating_add(1)));
        Some(next).filter(|time| settings.end.is_none_or(|end| *time < end))
    }
}
