//! One turn of a schedule: what has come to it, and what follows.

use std::time::Duration;

use windlass_core::{
    RunId, RunState, Time,
    schedule::{Command, Decision, Event, Firing, Outcome, Tell},
};

use super::{
    Happening, What,
    declaration::Declaration,
    findings::{Ending, Findings},
    happening::cut,
    ledger::{Known, Ledger},
    message::{Heard, Message},
};

/// How long the name of a removed schedule is remembered. Whoever declares it again meanwhile finds its run.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// More runs than this are not started in one turn.
const MOST: usize = 1_000;

/// A turn under way.
pub(super) struct Turn<'a> {
    pub(super) ledger: Ledger,
    schedule: RunId,
    findings: &'a Findings,
    now: Time,
    /// The runs to be started.
    pub(super) starts: Vec<(RunId, Firing)>,
    /// The runs to be cancelled.
    pub(super) cancels: Vec<RunId>,
    /// What is new at the end of the past.
    pub(super) news: usize,
    /// Whether it was declared again.
    pub(super) is_declared: bool,
    /// Whether anything is different from before.
    pub(super) is_changed: bool,
}

impl<'a> Turn<'a> {
    /// A turn of the schedule whose run this is.
    pub(super) fn new(mut ledger: Ledger, schedule: RunId, findings: &'a Findings, now: Time) -> Self {
        ledger.turn += 1;
        // The first page tells that it was declared.
        let (is_changed, news) = (ledger.is_new, usize::from(ledger.is_new));
        Self {
            ledger,
            schedule,
            findings,
            now,
            starts: Vec::new(),
            cancels: Vec::new(),
            news,
            is_declared: false,
            is_changed,
        }
    }

    /// Whether no more may come before what there is was written.
    pub(super) fn is_full(&self) -> bool {
        self.starts.len() >= MOST
    }

    /// Takes in something that came at a time.
    pub(super) fn hear(&mut self, heard: Heard, at: Time) {
        self.is_changed = true;
        match heard {
            Heard::Noise => {}
            Heard::Ended(run) => self.ended(run),
            Heard::Told(Message::Declare(declaration)) => self.declare(*declaration, at.min(self.now)),
            Heard::Told(_) if self.ledger.removed_at.is_some() => {}
            Heard::Told(message) => self.told(message),
        }
    }

    fn told(&mut self, message: Message) {
        let event = match message {
            Message::Declare(_) => return,
            Message::Trigger { id } => {
                let exists = self.findings.triggered.contains(&id);
                Event::Trigger { id, exists }
            }
            Message::Pause { note } => {
                let note = cut(note);
                self.note(What::Paused { note: note.clone() });
                Event::Pause { note }
            }
            Message::Resume => {
                self.note(What::Resumed);
                Event::Resume
            }
            Message::Reset => {
                self.note(What::Reset);
                Event::Reset
            }
            Message::Backfill { from, to } => {
                self.note(What::BackfillAsked { from, to });
                Event::Backfill { from, to }
            }
            Message::Remove => Event::Remove,
            Message::Existed { key } => return self.existed(&key),
            Message::Refused { key, why } => {
                self.forget(&key);
                Event::Ended { key, outcome: Outcome::Failed { error: why }, at: self.now }
            }
        };
        self.feed(event);
    }

    /// Goes on as it is declared now.
    fn declare(&mut self, to: Declaration, at: Time) {
        // One whose run was opened again begins with what it is told first.
        let is_opened = std::mem::take(&mut self.ledger.is_new) && self.ledger.turn > 1;
        let was_removed = self.ledger.removed_at.is_some();
        if was_removed || is_opened {
            self.ledger.begin(to, at);
            self.is_declared = true;
            return if was_removed {
                self.note(What::Declared)
            };
        }
        let difference = self.ledger.declaration.difference(&to);
        if difference.is_empty() {
            return;
        }
        self.is_declared = true;
        if self.ledger.declaration.schedule == to.schedule {
            self.note(What::Told(Tell::Updated { difference }));
        } else {
            self.feed(Event::Update(Box::new(to.schedule.clone())));
        }
        self.ledger.declaration = to;
    }

    /// Takes in the end of a run, if it is one that it waits for.
    fn ended(&mut self, run: RunId) {
        let known = self.ledger.runs.iter().find(|known| known.run == run);
        let (Some(key), Some(ending)) = (known.map(|known| known.key.clone()), self.findings.ends.get(&run))
        else {
            return;
        };
        let Ending { state, at, error } = ending.clone();
        self.is_changed = true;
        self.forget(&key);
        let outcome = match state {
            RunState::Completed => Outcome::Completed,
            RunState::Cancelled => Outcome::Cancelled,
            _ => Outcome::Failed { error: error.clone().unwrap_or_default() },
        };
        let at = at.min(self.now);
        self.note_at(What::Ended { key: key.clone(), run, state, error }, at);
        if self.ledger.removed_at.is_none() {
            self.feed(Event::Ended { key, outcome, at });
        }
    }

    /// Takes in what was found out about runs that it may or may not have started.
    pub(super) fn heal(&mut self) {
        for known in self.ledger.runs.clone() {
            if self.findings.ends.contains_key(&known.run) {
                self.ended(known.run);
            } else if self.findings.missing.contains(&known.run) {
                self.existed(&known.key);
            } else if self.findings.found.contains(&known.run) {
                self.settle(known.run);
            }
        }
    }

    /// Notes that a run was started for sure. It is not worth a record of its own.
    fn settle(&mut self, run: RunId) {
        for known in self.ledger.runs.iter_mut().filter(|known| known.run == run) {
            known.is_sure = true;
        }
    }

    fn existed(&mut self, key: &str) {
        self.is_changed = true;
        self.forget(key);
        self.note(What::Existed { key: key.to_owned() });
        self.feed(Event::Existed { key: key.to_owned() });
    }

    /// Lets it look at the clock. Answers when it wants to do that again.
    pub(super) fn look_at_clock(&mut self) -> Option<Time> {
        if let Some(removed_at) = self.ledger.removed_at {
            return Some(removed_at + REMEMBERED);
        }
        let before = self.ledger.state.clone();
        self.feed(Event::Due);
        self.is_changed |= self.ledger.state != before;
        self.ledger.state.wake()
    }

    /// Whether nobody needs to remember it any more.
    pub(super) fn is_over(&self) -> bool {
        self.ledger.removed_at.is_some_and(|at| at + REMEMBERED <= self.now)
    }

    fn feed(&mut self, event: Event) {
        let schedule = self.ledger.declaration.schedule.clone();
        let Decision { state, commands } = schedule.decide(self.ledger.state.clone(), event, self.now);
        self.ledger.state = state;
        for command in commands {
            self.carry_out(command);
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Advance(_) => {}
            Command::Tell(tell) => self.note(What::Told(tell)),
            Command::Cancel { key } => self.cancels.extend(self.ledger.run_of(&key)),
            Command::Remove => {
                self.note(What::Removed);
                self.ledger.removed_at = Some(self.now);
            }
            Command::Start(firing) => {
                let run = firing.run(self.schedule, self.ledger.turn);
                let Firing { key, scheduled_at, origin, .. } = firing.clone();
                self.ledger.runs.push(Known { key: key.clone(), run, is_sure: false });
                self.note(What::Started { key, run, scheduled_at, origin });
                self.starts.push((run, firing));
            }
        }
    }

    fn forget(&mut self, key: &str) {
        self.ledger.runs.retain(|known| known.key != key);
    }

    fn note(&mut self, what: What) {
        self.note_at(what, self.now);
    }

    fn note_at(&mut self, what: What, at: Time) {
        self.news += 1;
        self.ledger.past.push(Happening { at, what: what.cut() });
    }
}
