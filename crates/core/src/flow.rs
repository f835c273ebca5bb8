//! The journal of a durable function: what its code called, what is recorded of that, and in which order it hears of it.
//!
//! The code of a durable function is run again from its top whenever its run is taken up. It must then take the same
//! path as before, so completions reach it in the order in which they were recorded, one at a time; and nothing that
//! is not recorded begins before it has heard of everything that is.

#[cfg(test)]
mod tests;

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{Divergence, Fingerprint, RunId, Time};

/// The name of the record that says how a run will end once its undos have ended.
pub const VERDICT: &str = "//verdict";

/// The name of the record that says that a run went on under a changed definition.
pub const VERSION: &str = "//version";

/// What the name of the record of a task's undo ends with, after the name of the task or instance.
pub const UNDO: &str = "//undo";

/// Things known by a name. Every call looks several of them up, so the hash is a quick one; it is seeded by chance, as
/// names may hold what strangers send.
pub type ByName<V> = HashMap<Arc<str>, V, rapidhash::fast::RandomState>;

/// The longest name of a call, in characters.
const LONGEST: usize = 200;

/// What a durable function may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallKind {
    /// A step.
    #[default]
    Step,
    /// A wait for a time.
    Sleep,
    /// A wait for an event.
    Event,
    /// A run of its own.
    Child,
    /// A question whether the code is newer than the run.
    Patch,
    /// A visit of a state, by a state machine.
    Visit,
}

impl CallKind {
    pub(crate) fn is_step(&self) -> bool {
        *self == Self::Step
    }
}

impl fmt::Display for CallKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Step => "a step",
            Self::Sleep => "a sleep",
            Self::Event => "an event",
            Self::Child => "a child run",
            Self::Patch => "a patch",
            Self::Visit => "a visit of a state",
        })
    }
}

/// A call that has ended, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The call's name and, from the second of that name on, its number: `charge`, `charge#2`.
    pub name: Arc<str>,
    /// What it was.
    pub kind: CallKind,
    /// When it ended.
    pub at: Time,
    /// Whether it is from an earlier generation of the run, or an earlier attempt of a visit. Such a record is used if
    /// the code asks for it, and may as well be left alone: the code may take another path this time.
    pub is_old: bool,
    /// Whether it was made in a visit of a state that is over. What such a visit came to is recorded, so its code is not
    /// run again, unless somebody looks back at it.
    pub is_past: bool,
}

impl Kept {
    /// Whether it is heard of only by who asks for it.
    const fn is_on_demand(&self) -> bool {
        self.is_old || self.is_past
    }
}

/// A call that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// The name is not one.
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The name stands for something else in the same function.
    TwoKinds {
        /// The name.
        name: String,
        /// What it was first.
        first: CallKind,
        /// What it is now.
        now: CallKind,
    },
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name, why } => write!(f, "`{name}` cannot be the name of a call: {why}"),
            Self::TwoKinds { name, first, now } => {
                write!(
                    f,
                    "`{name}` is the name of {first}, and cannot be that of {now} too: give one of them another name"
                )
            }
        }
    }
}

/// What a durable function called, and what it has heard of.
#[derive(Debug)]
pub struct Journal {
    run: RunId,
    /// How many times the function began anew with another input.
    round: u32,
    /// In the order of recording.
    kept: Vec<Kept>,
    /// What was called, and what is recorded.
    known: ByName<Known>,
    /// Records that are heard on demand, were called, and are not heard yet.
    called_old: BTreeSet<usize>,
    /// The next record to be heard, of those that are not heard on demand.
    next: usize,
    /// Where the present visit of a state began.
    visit: Mark,
    /// Whether a visit of a state waits for its next attempt, so that nothing is called meanwhile.
    is_resting: bool,
    /// For each name, what it stands for and how often it was called.
    names: ByName<(CallKind, u32)>,
    /// Whether the code may take another path each time: then what is recorded is used if the code asks for it, and may
    /// as well be left alone.
    is_loose: bool,
    /// Whether everything recorded has been heard, so that new things may begin.
    is_live: bool,
    /// When the function's round might first run.
    opened_at: Time,
    now: Time,
    /// How many random numbers were drawn.
    draws: u64,
    last: Option<Arc<str>>,
}

/// What is known of a call.
#[derive(Debug, Default)]
struct Known {
    /// What it was made as, if the code made it.
    called: Option<CallKind>,
    /// Where it stands in the order of recording, if it has ended.
    at: Option<usize>,
}

/// A point in the life of a function.
#[derive(Clone, Debug)]
struct Mark {
    next: usize,
    now: Time,
    last: Option<Arc<str>>,
}

impl Journal {
    /// The journal of a function whose round might first run at this time. Records of earlier generations come first.
    #[must_use]
    pub fn new(run: RunId, round: u32, opened_at: Time, kept: Vec<Kept>) -> Self {
        let known =
            |(at, kept): (usize, &Kept)| (Arc::clone(&kept.name), Known { called: None, at: Some(at) });
        let known = kept.iter().enumerate().map(known).collect();
        let mut journal = Self {
            run,
            round,
            known,
            called_old: BTreeSet::new(),
            next: 0,
            visit: Mark { next: 0, now: opened_at, last: None },
            is_resting: false,
            names: ByName::default(),
            is_loose: false,
            is_live: false,
            opened_at,
            now: opened_at,
            draws: 0,
            last: None,
            kept,
        };
        journal.skip();
        journal
    }

    /// Leaves out what is heard on demand.
    fn skip(&mut self) {
        while self.kept.get(self.next).is_some_and(Kept::is_on_demand) {
            self.next += 1;
        }
    }

    /// The journal of code that may take another path whenever it is run again: a task of a graph.
    #[must_use]
    pub fn loose(run: RunId, kept: Vec<Kept>) -> Self {
        let kept = kept.into_iter().map(|kept| Kept { is_old: true, ..kept }).collect();
        Self { is_loose: true, ..Self::new(run, 0, Time(0), kept) }
    }

    /// Notes a call, and answers what it is known by.
    ///
    /// # Errors
    ///
    /// When the name is not one, or stands for something else.
    pub fn call(&mut self, name: &str, kind: CallKind) -> Result<Arc<str>, Misuse> {
        self.call_as(name, kind, check_call_name)
    }

    /// Notes a call that is made during the visit of this name.
    ///
    /// # Errors
    ///
    /// When the name is not one, or stands for something else.
    pub fn call_within(&mut self, visit: &str, name: &str, kind: CallKind) -> Result<Arc<str>, Misuse> {
        // Nobody else names a sleep: the engine's own begin with a mark.
        let own = if kind == CallKind::Sleep { name.strip_prefix('/') } else { None };
        check_call_name(own.unwrap_or(name))?;
        self.call_as(&within(visit, name), kind, |_| Ok(()))
    }

    /// What the next call of this name will be known by.
    #[must_use]
    pub fn upcoming(&self, name: &str) -> Arc<str> {
        numbered(name, self.names.get(name).map_or(1, |(_, number)| number + 1))
    }

    fn call_as(
        &mut self,
        name: &str,
        kind: CallKind,
        check: impl FnOnce(&str) -> Result<(), Misuse>,
    ) -> Result<Arc<str>, Misuse> {
        let entry = match self.names.get_mut(name) {
            Some(entry) => entry,
            None => {
                check(name)?;
                self.names.entry(name.into()).or_insert((kind, 0))
            }
        };
        if entry.0 != kind {
            return Err(Misuse::TwoKinds { name: name.to_owned(), first: entry.0, now: kind });
        }
        entry.1 += 1;
        let id = numbered(name, entry.1);
        let known = self.known.entry(Arc::clone(&id)).or_default();
        known.called = Some(kind);
        if let Some(at) = known.at
            && self.kept[at].is_on_demand()
        {
            self.called_old.insert(at);
        }
        Ok(id)
    }

    /// Whether a call that was made, or might be, is recorded as ended.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.place(id).is_some()
    }

    /// The next ended call that the function has to hear of, if it has made it.
    ///
    /// # Errors
    ///
    /// When it made the call as something else than what is recorded.
    pub fn hear(&mut self) -> Result<Option<Arc<str>>, Divergence> {
        let old = self.called_old.pop_first();
        let Some(kept) = self.kept.get(old.unwrap_or(self.next)) else { return Ok(None) };
        let (name, recorded, at) = (Arc::clone(&kept.name), kept.kind, kept.at);
        let Some(kind) = self.called(&name) else { return Ok(None) };
        if old.is_none() {
            self.next += 1;
            self.skip();
        }
        if kind != recorded {
            return Err(Divergence::Kind { step: name.to_string(), recorded, now: kind });
        }
        self.now = self.now.max(at);
        self.draws = 0;
        self.last = Some(Arc::clone(&name));
        Ok(Some(name))
    }

    /// The function waits, and there is nothing that it could hear of: from here on new things may begin. Answers
    /// whether they could not before.
    ///
    /// # Errors
    ///
    /// When a record is left that the function has not called.
    pub fn settle(&mut self) -> Result<bool, Divergence> {
        if self.is_resting {
            return Ok(false);
        }
        self.check_all_called()?;
        Ok(!std::mem::replace(&mut self.is_live, true))
    }

    /// The function has returned.
    ///
    /// # Errors
    ///
    /// When a record is left that it has not called.
    pub fn check_all_called(&self) -> Result<(), Divergence> {
        self.check_called(self.kept[self.next..].iter().filter(|kept| !kept.is_on_demand()))
    }

    fn check_called<'a>(&self, mut kept: impl Iterator<Item = &'a Kept>) -> Result<(), Divergence> {
        let left = kept.find(|kept| self.called(&kept.name).is_none());
        left.map_or(Ok(()), |kept| Err(self.not_called(&kept.name, kept.kind)))
    }

    /// That this call is recorded, and the code does not come to it.
    #[must_use]
    pub fn not_called(&self, step: &str, recorded: CallKind) -> Divergence {
        let after = self.last.as_deref().map(str::to_owned);
        Divergence::NotCalled { step: step.to_owned(), recorded, after }
    }

    /// A visit of a state begins.
    pub fn enter(&mut self) {
        self.visit = self.mark();
    }

    fn mark(&self) -> Mark {
        Mark { next: self.next, now: self.now, last: self.last.clone() }
    }

    /// The present visit is to be made once more, later. Until then nothing is called.
    pub fn rest(&mut self) {
        self.is_resting = true;
    }

    /// The present visit waits no more: its next attempt begins.
    pub fn stop_resting(&mut self) {
        self.is_resting = false;
    }

    /// The present visit is made once more, from its top, as if it had never been begun in this process. Records that
    /// `is_void` are forgotten: their calls are made once more, too. The others are there for who asks.
    pub fn begin_again(&mut self, visit: &str, mut is_void: impl FnMut(&Kept) -> bool) {
        let is_mine = |name: &str| visit_of(name) == Some(visit);
        let Mark { next, now, last } = self.visit.clone();
        (self.is_resting, self.is_live) = (false, false);
        (self.now, self.last, self.draws) = (now, last, 0);
        self.names.retain(|name, _| !is_mine(name));
        self.known.retain(|name, known| {
            known.called.take_if(|_| is_mine(name));
            known.called.is_some() || known.at.is_some()
        });
        for mut kept in self.kept.split_off(next) {
            if is_mine(&kept.name) && is_void(&kept) {
                self.known.remove(&kept.name);
                continue;
            }
            kept.is_old |= is_mine(&kept.name);
            self.known.entry(Arc::clone(&kept.name)).or_default().at = Some(self.kept.len());
            self.kept.push(kept);
        }
        self.called_old.clear();
        self.next = next;
        self.skip();
    }

    /// Somebody looks back at the visit that came after this one; without a name, at the first. It is then what it was.
    pub fn look_back(&mut self, before: Option<&str>) {
        let record = before.and_then(|before| self.place(before)).map(|at| &self.kept[at]);
        self.now = match record {
            Some(record) if record.is_old => record.at,
            Some(record) => record.at.max(self.opened_at),
            None => self.opened_at,
        };
        self.last = record.map(|record| Arc::clone(&record.name));
        self.draws = 0;
    }

    /// Somebody has looked back at a visit that is over.
    ///
    /// # Errors
    ///
    /// When a record is left that its code has not called.
    pub fn check_looked_back(&self, visit: &str) -> Result<(), Divergence> {
        self.check_called(self.kept.iter().filter(|kept| !kept.is_old && visit_of(&kept.name) == Some(visit)))
    }

    /// Whether the last thing that the function heard of is the end of a visit.
    #[must_use]
    pub fn has_just_left(&self) -> bool {
        let last = self.last.as_ref().and_then(|last| self.place(last));
        last.is_some_and(|at| self.kept[at].kind == CallKind::Visit)
    }

    /// What a call was made as, if it was made.
    fn called(&self, id: &str) -> Option<CallKind> {
        self.known.get(id)?.called
    }

    /// Where a call stands in the order of recording.
    #[must_use]
    pub fn place(&self, id: &str) -> Option<usize> {
        self.known.get(id)?.at
    }

    /// What is recorded, in the order of recording.
    #[must_use]
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// Notes that a call has ended, and is recorded.
    pub fn record(&mut self, name: Arc<str>, kind: CallKind, at: Time) {
        let known = self.known.entry(Arc::clone(&name)).or_default();
        if known.at.is_some() {
            return;
        }
        let number = self.kept.len();
        known.at = Some(number);
        if self.is_loose && known.called.is_some() {
            self.called_old.insert(number);
        }
        if self.kept.len() == self.kept.capacity() {
            // By doubling, thousands of functions at work would keep half as much again for nothing.
            self.kept.reserve_exact((self.kept.len() / 4).max(4));
        }
        self.kept.push(Kept { name, kind, at, is_old: self.is_loose, is_past: false });
        self.skip();
    }

    /// Whether something is recorded that the function has not heard of yet.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.next < self.kept.len() || !self.called_old.is_empty()
    }

    /// Whether new things may begin.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.is_live
    }

    /// Whether a visit of a state waits for its next attempt.
    #[must_use]
    pub const fn is_resting(&self) -> bool {
        self.is_resting
    }

    /// The time, as the function sees it: that of the last thing it heard of.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// The last thing that the function heard of.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<str>> {
        self.last.as_ref()
    }

    /// Sixteen bytes that look random, and are the same whenever the function is run again.
    pub fn draw(&mut self) -> [u8; 16] {
        self.draws += 1;
        let mut seed = Fingerprint::new().part("windlass flow 1").part(self.run.as_bytes());
        seed.add(self.round.to_le_bytes());
        seed.add(self.last.as_deref().unwrap_or_default());
        seed.add(self.draws.to_le_bytes());
        seed.sixteen()
    }

    /// The id of the run that this call starts: the same whenever it is made again.
    #[must_use]
    pub fn child(&self, id: &str, generation: u32) -> RunId {
        let seed = Fingerprint::new().part("windlass child 1").part(self.run.as_bytes()).part(id);
        let tail = seed.part(self.round.to_le_bytes()).part(generation.to_le_bytes()).sixteen();
        // It sorts beside its parent: ids begin with a time, and indexes like that.
        let mut bytes = *self.run.as_bytes();
        bytes[6..].copy_from_slice(&tail[6..]);
        bytes[6] = 0x70 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        RunId::from_bytes(bytes)
    }
}

/// What stands between a visit of a state and a call that is made during it.
const WITHIN: char = ':';

/// The name of a call that is made during a visit of a state.
#[must_use]
pub fn within(visit: &str, name: &str) -> String {
    format!("{visit}{WITHIN}{name}")
}

/// The visit of a state that a call is made during, in a state machine.
#[must_use]
pub fn visit_of(id: &str) -> Option<&str> {
    id.split_once(WITHIN).map(|(visit, _)| visit)
}

thread_local! {
    /// Where names are put together.
    static SCRATCH: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Two names with a mark between them.
#[must_use]
pub fn joined(first: &str, mark: char, second: &str) -> Arc<str> {
    SCRATCH.with_borrow_mut(|text| {
        text.clear();
        text.push_str(first);
        text.push(mark);
        text.push_str(second);
        text.as_str().into()
    })
}

fn numbered(name: &str, number: u32) -> Arc<str> {
    if number == 1 {
        return name.into();
    }
    // Every call does this, and formatting takes four times as long.
    let (mut digits, mut first, mut left) = ([0; 10], 10, number);
    while left > 0 {
        first -= 1;
        digits[first] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    joined(name, '#', str::from_utf8(&digits[first..]).unwrap_or_default())
}

/// Whether a call can have this name.
///
/// # Errors
///
/// What is wrong with it.
pub fn check_call_name(name: &str) -> Result<(), Misuse> {
    let why = if name.is_empty() {
        "a name needs at least one character"
    } else if name.chars().count() > LONGEST {
        "it is longer than 200 characters"
    } else if name.contains(['/', '#']) {
        "`/` and `#` are used to tell calls apart"
    } else if name.chars().any(char::is_control) {
        "it has a control character"
    } else {
        return Ok(());
    };
    Err(Misuse::Name { name: name.chars().take(LONGEST).collect(), why })
}
