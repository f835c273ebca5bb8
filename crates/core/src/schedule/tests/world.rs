//! A schedule, a clock, and a store that starts one run for each key.

use std::collections::BTreeMap;

use super::*;

/// A schedule that wants to be woken more often than this never rests.
const MOST_WAKES: usize = 1_000;

pub(super) struct World {
    pub(super) schedule: Schedule,
    pub(super) state: State,
    pub(super) now: Time,
    /// Every run that was started, in order.
    pub(super) starts: Vec<Firing>,
    pub(super) cancels: Vec<String>,
    pub(super) tells: Vec<Tell>,
    /// Every key that there is a run for, and whether it has not ended.
    pub(super) store: BTreeMap<String, bool>,
    pub(super) removed: bool,
}

impl World {
    pub(super) fn new(draft: ScheduleDraft, now: Time) -> Self {
        let schedule = draft.check().unwrap_or_else(|problems| panic!("{problems}"));
        let Decision { state, commands } = schedule.begin(now);
        assert_eq!(commands, [Command::Advance(state.wake())]);
        Self {
            schedule,
            state,
            now,
            starts: Vec::new(),
            cancels: Vec::new(),
            tells: Vec::new(),
            store: BTreeMap::new(),
            removed: false,
        }
    }

    /// Tells the schedule something, as if in one transaction, and what follows from it.
    pub(super) fn tell(&mut self, event: Event) -> &mut Self {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let decision = self.schedule.decide(self.state.clone(), event.clone(), self.now);
            if let Event::Update(to) = event {
                self.schedule = *to;
            }
            // What is kept is what is read again.
            let kept = serde_json::to_string(&decision.state).unwrap();
            self.state = serde_json::from_str(&kept).unwrap();
            assert_eq!(self.state, decision.state);
            for command in decision.commands {
                match command {
                    Command::Start(firing) if self.store.contains_key(&firing.key) => {
                        events.push(Event::Existed { key: firing.key });
                    }
                    Command::Start(firing) => {
                        assert_eq!(firing.fired_at, self.now);
                        assert_eq!(firing.workflow, self.schedule.workflow());
                        self.store.insert(firing.key.clone(), true);
                        self.starts.push(firing);
                    }
                    Command::Cancel { key } => self.cancels.push(key),
                    Command::Advance(at) => assert_eq!(at, self.state.wake()),
                    Command::Remove => self.removed = true,
                    Command::Tell(tell) => {
                        let kept = serde_json::to_string(&tell).unwrap();
                        assert_eq!(serde_json::from_str::<Tell>(&kept).unwrap(), tell);
                        self.tells.push(tell);
                    }
                }
            }
        }
        self
    }

    /// Lets the clock go to a time, and wakes the schedule whenever it wants to.
    pub(super) fn until(&mut self, time: Time) -> &mut Self {
        for _ in 0..MOST_WAKES {
            let Some(wake) = self.state.wake().filter(|wake| *wake <= time) else {
                self.now = time;
                return self;
            };
            self.now = self.now.max(wake);
            self.tell(Event::Due);
        }
        panic!("it is woken for ever: {:?}", self.state);
    }

    /// Lets the clock go to a time while nobody looks.
    pub(super) fn away_until(&mut self, time: Time) -> &mut Self {
        self.now = self.now.max(time);
        self.tell(Event::Due).until(time)
    }

    /// Ends the oldest run that is under way.
    pub(super) fn end(&mut self, outcome: Outcome) -> &mut Self {
        let live = self.starts.iter().find(|firing| self.store[&firing.key]).expect("a run is under way");
        let key = live.key.clone();
        self.store.insert(key.clone(), false);
        let at = self.now;
        self.tell(Event::Ended { key, outcome, at })
    }

    /// Ends the oldest run that is under way, and nobody looks before a later time.
    pub(super) fn end_unseen(&mut self, outcome: Outcome, seen: Time) -> &mut Self {
        let live = self.starts.iter().find(|firing| self.store[&firing.key]).expect("a run is under way");
        let (key, at) = (live.key.clone(), self.now);
        self.store.insert(key.clone(), false);
        self.now = seen;
        self.tell(Event::Ended { key, outcome, at }).until(seen)
    }

    /// Declares it again.
    pub(super) fn update(&mut self, to: ScheduleDraft) -> &mut Self {
        self.tell(Event::Update(Box::new(to.check().unwrap_or_else(|problems| panic!("{problems}")))))
    }

    pub(super) fn complete(&mut self) -> &mut Self {
        self.end(Outcome::Completed)
    }

    pub(super) fn fail(&mut self) -> &mut Self {
        self.end(Outcome::Failed { error: "no bank".to_owned() })
    }

    pub(super) fn trigger(&mut self, id: &str) -> &mut Self {
        let exists = self.store.contains_key(&Slot::Wish(id.to_owned()).key(self.schedule.name()));
        self.tell(Event::Trigger { id: id.to_owned(), exists })
    }

    /// The times that were started, and when: `10:00` on time, `10:00 at 10:05` late.
    pub(super) fn started(&self) -> Vec<String> {
        let shown = |firing: &Firing| {
            let (time, at) = (short(firing.scheduled_at), short(firing.fired_at));
            if time == at { time } else { format!("{time} at {at}") }
        };
        self.starts.iter().map(shown).collect()
    }

    /// What was left out because of others.
    pub(super) fn skipped(&self) -> Vec<(String, Skip)> {
        let skipped = self.tells.iter().filter_map(|tell| match tell {
            Tell::Skipped { slot: Slot::Time(time), why } => Some((short(*time), *why)),
            Tell::Skipped { slot: Slot::Wish(id), why } => Some((id.clone(), *why)),
            _ => None,
        });
        skipped.collect()
    }

    /// What was missed for good: from, to, and how many.
    pub(super) fn missed(&self) -> Vec<(String, String, u64)> {
        let missed = self.tells.iter().filter_map(|tell| match tell {
            Tell::Missed { first, last, times } => Some((short(*first), short(*last), *times)),
            _ => None,
        });
        missed.collect()
    }
}
