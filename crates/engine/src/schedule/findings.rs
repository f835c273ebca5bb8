//! What a schedule has to know of its runs before it takes a turn.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use windlass_core::{RunId, RunState, Time, schedule::Slot};
use windlass_store::{End, InboxRow};

use super::{
    ledger::Ledger,
    message::{Heard, Message},
};
use crate::{Error, error::reason, handle::verdict_of, hub::Hub};

/// The store answers for a bounded number of runs at a time.
const PORTION: usize = 500;

/// What was found out.
#[derive(Default)]
pub(super) struct Findings {
    /// How runs ended of which it is to hear.
    pub(super) ends: HashMap<RunId, Ending>,
    /// Wishes that have a run already, by their ids.
    pub(super) triggered: HashSet<String>,
    /// Runs that it started, and that are not there: another has their key.
    pub(super) missing: HashSet<RunId>,
    /// Runs that are there.
    pub(super) found: HashSet<RunId>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) state: RunState,
    pub(super) at: Time,
    pub(super) error: Option<String>,
}

/// What has come, with the number and the time of each.
pub(crate) type Mail = Vec<(i64, Time, Heard)>;

/// What lies in the inbox. Whoever takes a turn has to read all of it: what a newer program said, or what cannot be read
/// for the moment, was promised to whoever said it.
pub(crate) fn open(hub: &Hub, inbox: &[InboxRow]) -> Result<Mail, Error> {
    inbox.iter().map(|row| Ok((row.seq, row.at, Heard::decode(hub, row)?))).collect()
}

/// What lies in the inbox and can be read, for whoever only looks.
pub(crate) fn readable(hub: &Hub, inbox: &[InboxRow]) -> Mail {
    let read = |row: &InboxRow| {
        let heard = Heard::decode(hub, row);
        let heard =
            heard.inspect_err(|error| tracing::warn!(run = %row.run, %error, "a message cannot be read"));
        Some((row.seq, row.at, heard.ok()?))
    };
    inbox.iter().filter_map(read).collect()
}

impl Findings {
    /// Asks the store. Most turns need to know nothing.
    pub(super) async fn gather(hub: &Hub, ledger: &Ledger, mail: &Mail) -> Result<Self, Error> {
        let mut found = Self::default();
        found.look_for_ends(hub, ledger, mail).await?;
        found.look_for_runs(hub, ledger).await?;
        found.look_for_wishes(hub, ledger, mail).await?;
        Ok(found)
    }

    /// Those that are said to have ended, and those that are said to be under way: whatever became of the message.
    async fn look_for_ends(&mut self, hub: &Hub, ledger: &Ledger, mail: &Mail) -> Result<(), Error> {
        let told = mail.iter().filter_map(|(_, _, heard)| match heard {
            Heard::Ended(run) => Some(*run),
            _ => None,
        });
        let mut runs: Vec<RunId> = told.chain(ledger.runs.iter().map(|known| known.run)).collect();
        runs.sort_unstable();
        runs.dedup();
        for portion in runs.chunks(PORTION) {
            for (run, end) in hub.store.ends(portion.to_vec()).await? {
                self.ends.insert(run, ending(hub, &end));
            }
        }
        Ok(())
    }

    /// Those of which nobody knows whether they were started: the answer was lost with a process.
    async fn look_for_runs(&mut self, hub: &Hub, ledger: &Ledger) -> Result<(), Error> {
        let doubtful = ledger.runs.iter().filter(|known| !known.is_sure);
        for known in doubtful.filter(|known| !self.ends.contains_key(&known.run)).collect::<Vec<_>>() {
            let is_there = hub.store.load(known.run).await?.is_some();
            if is_there { &mut self.found } else { &mut self.missing }.insert(known.run);
        }
        Ok(())
    }

    async fn look_for_wishes(&mut self, hub: &Hub, ledger: &Ledger, mail: &Mail) -> Result<(), Error> {
        let schedule = &ledger.declaration.schedule;
        for (_, _, heard) in mail {
            if let Heard::Told(Message::Trigger { id }) = heard {
                let key = Slot::Wish(id.clone()).key(schedule.name());
                if hub.store.by_key(Arc::from(schedule.workflow()), key).await?.is_some() {
                    self.triggered.insert(id.clone());
                }
            }
        }
        Ok(())
    }
}

/// Why a run ended is for people: that it cannot be read keeps nobody from going on.
fn ending(hub: &Hub, end: &End) -> Ending {
    let error = match verdict_of(hub, end) {
        Ok(verdict) => verdict.map(|verdict| reason(&verdict)),
        Err(error) => Some(error.to_string()),
    };
    Ending { state: end.state, at: end.at, error }
}
