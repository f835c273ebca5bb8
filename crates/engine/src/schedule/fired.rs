//! What a run knows of the schedule that started it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_core::{
    Time,
    schedule::{Firing, Origin, Schedule},
};
use windlass_store::RunRow;

use crate::{Error, hub::Hub};

/// Where a run's context says what started it.
pub(crate) const CONTEXT: &str = "schedule";

/// What a run knows of the schedule that started it: see [`Cx::fired`](crate::Cx::fired).
///
/// It is also in the run's context, under `schedule`, for rules: `context("schedule.origin") == "CatchUp"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fired {
    /// The schedule's name.
    pub name: String,
    /// The zone whose clocks it goes by.
    pub zone: String,
    /// The time that the run is for. For a run that somebody asked for, when they did.
    pub scheduled_at: Time,
    /// When it was started.
    pub fired_at: Time,
    /// Why: its time had come, it was made up for, or somebody asked for it.
    pub origin: Origin,
}

impl Fired {
    pub(super) fn of(schedule: &Schedule, firing: &Firing) -> Self {
        Self {
            name: schedule.name().to_owned(),
            zone: schedule.zone().to_owned(),
            scheduled_at: firing.scheduled_at,
            fired_at: firing.fired_at,
            origin: firing.origin,
        }
    }

    /// Whether its time was missed, and is made up for.
    #[must_use]
    pub fn is_catch_up(&self) -> bool {
        self.origin == Origin::CatchUp
    }

    pub(super) fn to_json(&self) -> Result<Value, Error> {
        let encode = |why: serde_json::Error| Error::Encode {
            what: "what started the run".into(),
            why: why.to_string(),
        };
        serde_json::to_value(self).map_err(encode)
    }
}

/// What a run's context says about what started it. A context of the user's that looks otherwise says nothing.
pub(crate) fn fired(hub: &Hub, run: &RunRow) -> Option<Fired> {
    #[derive(Deserialize)]
    struct Found {
        schedule: Fired,
    }
    // Only runs that a schedule started have a parent who is told so, or are forked from one.
    if run.parent.is_none() && run.forked_from.is_none() {
        return None;
    }
    let json = hub.read("the run's context", run.context.clone()?).ok()?;
    serde_json::from_slice::<Found>(&json).ok().map(|found| found.schedule)
}
