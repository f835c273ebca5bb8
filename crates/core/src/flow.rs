//! The journal of a durable function: what its code called, what is recorded of that, and in which order it hears of it.
//!
//! The code of a durable function is run again from its top whenever its run is taken up. It must then take the same
//! path as before, so completions reach it in the order in which they were recorded, one at a time; and nothing that
//! is not recorded begins before it has heard of everything that is.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    fmt,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{Divergence, Fingerprint, RunId, Time};

/// The name of the record that says how a run will end once its undos have ended.
pub const VERDICT: &str = "//verdict";

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
    /// Whether it is from an earlier generation of the run. Such a record is used if the code asks for it, and may as
    /// well be left alone: the code may take another path this time.
    pub is_old: bool,
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
    by_name: HashMap<Arc<str>, usize>,
    /// How many records of earlier generations there are: they come first.
    old: usize,
    /// Records of earlier generations that were called, and not heard yet.
    called_old: BTreeSet<usize>,
    /// The next record of this generation to be heard.
    next: usize,
    calls: HashMap<Arc<str>, CallKind>,
    /// For each name, what it stands for and how often it was called.
    names: HashMap<Arc<str>, (CallKind, u32)>,
    /// Whether everything recorded has been heard, so that new things may begin.
    is_live: bool,
    now: Time,
    /// How many random numbers were drawn.
    draws: u64,
    last: Option<Arc<str>>,
}

impl Journal {
    /// The journal of a function whose round might first run at this time. Records of earlier generations come first.
    #[must_use]
    pub fn new(run: RunId, round: u32, opened_at: Time, kept: Vec<Kept>) -> Self {
        let by_name = kept.iter().enumerate().map(|(at, kept)| (Arc::clone(&kept.name), at)).collect();
        let old = kept.iter().take_while(|kept| kept.is_old).count();
        Self {
            run,
            round,
            by_name,
            old,
            called_old: BTreeSet::new(),
            next: old,
            calls: HashMap::new(),
            names: HashMap::new(),
            is_live: false,
            now: opened_at,
            draws: 0,
            last: None,
            kept,
        }
    }

    /// Notes a call, and answers what it is known by.
    ///
    /// # Errors
    ///
    /// When the name is not one, or stands for something else.
    pub fn call(&mut self, name: &str, kind: CallKind) -> Result<Arc<str>, Misuse> {
        let entry = match self.names.get_mut(name) {
            Some(entry) => entry,
            None => {
                check_call_name(name)?;
                self.names.entry(name.into()).or_insert((kind, 0))
            }
        };
        if entry.0 != kind {
            return Err(Misuse::TwoKinds { name: name.to_owned(), first: entry.0, now: kind });
        }
        entry.1 += 1;
        let id: Arc<str> = match entry.1 {
            1 => name.into(),
            number => format!("{name}#{number}").into(),
        };
        self.calls.insert(Arc::clone(&id), kind);
        if let Some(&at) = self.by_name.get(&id)
            && at < self.old
        {
            self.called_old.insert(at);
        }
        Ok(id)
    }

    /// Whether a call that was made, or might be, is recorded as ended.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.by_name.contains_key(id)
    }

    /// The next ended call that the function has to hear of, if it has made it.
    ///
    /// # Errors
    ///
    /// When it made the call as something else than what is recorded.
    pub fn hear(&mut self) -> Result<Option<Arc<str>>, Divergence> {
        let at = match self.called_old.pop_first() {
            Some(at) => at,
            None => {
                let Some(next) = self.kept.get(self.next) else { return Ok(None) };
                if !self.calls.contains_key(&next.name) {
                    return Ok(None);
                }
                self.next += 1;
                self.next - 1
            }
        };
        let kept = &self.kept[at];
        match self.calls.get(&kept.name) {
            Some(kind) if *kind != kept.kind => {
                Err(Divergence::Kind { step: kept.name.to_string(), recorded: kept.kind, now: *kind })
            }
            _ => {
                self.now = self.now.max(kept.at);
                self.draws = 0;
                self.last = Some(Arc::clone(&kept.name));
                Ok(Some(Arc::clone(&kept.name)))
            }
        }
    }

    /// The function waits, and there is nothing that it could hear of: from here on new things may begin. Answers
    /// whether they could not before.
    ///
    /// # Errors
    ///
    /// When a record is left that the function has not called.
    pub fn settle(&mut self) -> Result<bool, Divergence> {
        self.check_all_called()?;
        Ok(!std::mem::replace(&mut self.is_live, true))
    }

    /// The function has returned.
    ///
    /// # Errors
    ///
    /// When a record is left that it has not called.
    pub fn check_all_called(&self) -> Result<(), Divergence> {
        let left = self.kept[self.next..].iter().find(|kept| !self.calls.contains_key(&kept.name));
        left.map_or(Ok(()), |kept| {
            Err(Divergence::NotCalled {
                step: kept.name.to_string(),
                recorded: kept.kind,
                after: self.last.as_deref().map(str::to_owned),
            })
        })
    }

    /// What is recorded, in the order of recording.
    #[must_use]
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// Notes that a call has ended, and is recorded.
    pub fn record(&mut self, name: Arc<str>, kind: CallKind, at: Time) {
        if let Entry::Vacant(place) = self.by_name.entry(name) {
            self.kept.push(Kept { name: Arc::clone(place.key()), kind, at, is_old: false });
            place.insert(self.kept.len() - 1);
        }
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
