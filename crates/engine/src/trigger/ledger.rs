//! Where a trigger stands, as the records of its run have it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_core::{
    RunId, StepKind, Time,
    schedule::{Command, Decision, Event, Firing, Outcome, Schedule, State},
};
use windlass_store::{RunImage, StepRow};

use crate::{
    Error,
    hub::Hub,
    keeping::{FORMAT, check_format, first_format, read_page},
    schedule::{Heard, Message},
};

pub(super) use crate::schedule::ENDED;

/// What the names of a trigger's records begin with. The number of the turn follows.
const PAGE: &str = "page.";

/// Where a trigger stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ledger {
    /// What a program has to know to read it.
    #[serde(default = "first_format")]
    format: u32,
    /// When it is asked, as the program said that had it last.
    pub(super) schedule: Schedule,
    pub(super) state: State,
    /// Its runs that are under way, and must not be started again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) live: Vec<Live>,
    /// How many runs it has started.
    #[serde(default)]
    pub(super) fired: u64,
    /// When it last started one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_fired: Option<Time>,
    /// How many times it was written down.
    #[serde(default)]
    pub(super) turn: u64,
}

/// A run that is under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Live {
    pub(super) key: String,
    pub(super) run: RunId,
    /// Whether it is known that it was started, and that no other run had its key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_sure: bool,
}

impl Ledger {
    /// A trigger that was never asked.
    pub(super) fn begin(schedule: Schedule, at: Time) -> Self {
        let state = schedule.begin(at).state;
        Self { format: FORMAT, schedule, state, live: Vec::new(), fired: 0, last_fired: None, turn: 0 }
    }

    pub(super) fn read(hub: &Hub, image: &RunImage) -> Result<Self, Error> {
        let what = "where a trigger stands";
        let decode = |why: serde_json::Error| Error::Decode { what: what.to_owned(), why: why.to_string() };
        let page = image.steps.iter().rev().find(|row| row.name.starts_with(PAGE));
        match page.and_then(|row| row.output.clone()) {
            Some(kept) => {
                let ledger: Self = read_page(what, &hub.read(what, kept)?)?;
                check_format(what, ledger.format)?;
                Ok(ledger)
            }
            None => {
                let schedule = serde_json::from_slice(&hub.read(what, image.run.input.clone())?);
                Ok(Self::begin(schedule.map_err(decode)?, image.standing.opened_at))
            }
        }
    }

    /// The record of a turn.
    pub(super) fn write(&mut self, hub: &Hub, image: &RunImage, now: Time) -> Result<StepRow, Error> {
        self.turn += 1;
        self.format = FORMAT;
        let what = format_args!("where a trigger stands");
        let json = serde_json::to_vec(self)
            .map_err(|why| Error::Encode { what: what.to_string(), why: why.to_string() })?;
        Ok(StepRow {
            generation: image.standing.generation,
            name: Arc::from(format!("{PAGE}{}", self.turn)),
            attempt: 1,
            epoch: image.standing.recoveries,
            kind: StepKind::Completed,
            started_at: now,
            ended_at: now,
            output: Some(hub.keep(what, json.into())?),
            detail: None,
        })
    }

    /// Decides on an event. Answers with the question that is to be asked, if there is one.
    pub(super) fn feed(&mut self, event: Event, now: Time) -> Option<Firing> {
        let Decision { state, commands } = self.schedule.decide(self.state.clone(), event, now);
        self.state = state;
        commands.into_iter().find_map(|command| match command {
            Command::Start(firing) => Some(firing),
            _ => None,
        })
    }

    /// Takes a start back that came to nothing. It is known by the id of the run that it would have been.
    pub(super) fn take_back(&mut self, run: &str) {
        self.live.retain(|live| live.run.to_string() != run);
        self.fired = self.fired.saturating_sub(1);
    }

    /// An answer that cannot be acted on is a question that failed.
    fn fail(&mut self, id: String, error: String, now: Time) {
        let Some(firing) = self.feed(Event::Trigger { id, exists: false }, now) else { return };
        let failed = Event::Ended { key: firing.key, outcome: Outcome::Failed { error }, at: now };
        if let Some(again) = self.feed(failed, now) {
            self.feed(Event::Existed { key: again.key }, now);
        }
    }

    /// Takes in what somebody has said. Answers with the question that is to be asked, if there is one.
    pub(super) fn hear(&mut self, heard: Heard, now: Time) -> Option<Firing> {
        let event = match heard {
            Heard::Ended(run) => {
                self.live.retain(|live| live.run != run);
                return None;
            }
            Heard::Told(Message::Pause { note }) => Event::Pause { note },
            Heard::Told(Message::Resume) => Event::Resume,
            Heard::Told(Message::Reset) => Event::Reset,
            Heard::Told(Message::Trigger { id }) => Event::Trigger { id, exists: false },
            Heard::Told(Message::Existed { key }) => {
                self.take_back(&key);
                return None;
            }
            Heard::Told(Message::Refused { key, why }) => {
                self.take_back(&key);
                self.fail(key, why, now);
                return None;
            }
            Heard::Told(_) | Heard::Noise => return None,
        };
        self.feed(event, now)
    }
}
