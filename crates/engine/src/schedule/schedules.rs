//! Finding schedules.

use std::sync::Arc;

use windlass_core::{RunId, RunState, Time, nearest};
use windlass_store::{Place, Query, RunImage};

use super::{
    ScheduleHandle, ScheduleStatus,
    findings::{Findings, readable},
    held::trouble,
    keeper::WORKFLOW,
    ledger::Ledger,
    turn::Turn,
};
use crate::{Client, Error};

/// How many schedules a page of a listing has.
const PORTION: usize = 200;

/// The schedules of a database.
#[derive(Clone, Debug)]
pub struct Schedules {
    client: Client,
}

/// A schedule as it stands, with everything taken in that it was told.
pub(super) struct View {
    pub(super) run: RunId,
    /// The generation that ended, if the run has.
    pub(super) ended: Option<u32>,
    pub(super) ledger: Ledger,
    pub(super) now: Time,
    /// Why its last turn failed, if it did.
    pub(super) trouble: Option<String>,
}

impl Schedules {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The schedule of this name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownSchedule`] when there is none, or the store cannot be asked.
    pub async fn get(&self, name: &str) -> Result<ScheduleHandle, Error> {
        match live(&self.client, name).await? {
            Some(_) => Ok(ScheduleHandle::new(self.client.clone(), name)),
            None => {
                let names: Vec<String> = self.names().await?;
                let nearest = nearest(name, names.iter().map(String::as_str)).map(str::to_owned);
                Err(Error::UnknownSchedule { name: name.to_owned(), nearest })
            }
        }
    }

    /// How all schedules stand, by name. One that cannot be read is left out.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn list(&self) -> Result<Vec<ScheduleStatus>, Error> {
        let mut found = Vec::new();
        for (run, _) in self.runs().await? {
            let image = self.client.hub().store.load(run).await?;
            match view(&self.client, image).await {
                Ok(Some(view)) if view.is_live() => found.push(ScheduleStatus::of(&view)),
                Ok(_) => {}
                // Whoever asks for this one hears why.
                Err(error @ (Error::Decode { .. } | Error::Newer { .. })) => {
                    tracing::warn!(%run, %error, "a schedule cannot be read, and is left out of the list");
                }
                Err(error) => return Err(error),
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        Ok(self.runs().await?.into_iter().map(|(_, name)| name).collect())
    }

    /// The runs of all schedules, with their names. Some may have been removed.
    async fn runs(&self) -> Result<Vec<(RunId, String)>, Error> {
        let states = RunState::ALL.into_iter().filter(|state| !state.is_terminal()).collect();
        let workflow = Some(Arc::from(WORKFLOW));
        let mut query = Query { workflow, states, limit: PORTION, ..Query::default() };
        let mut runs = Vec::new();
        loop {
            let page = self.client.hub().store.find(query.clone()).await?;
            query.after = page.runs.last().map(|last| last.id);
            runs.extend(page.runs.into_iter().map(|run| (run.id, run.key.unwrap_or_default())));
            if !page.more {
                return Ok(runs);
            }
        }
    }
}

impl View {
    /// Whether it was not removed.
    pub(super) fn is_live(&self) -> bool {
        self.ended.is_none() && self.ledger.removed_at.is_none()
    }
}

/// The schedule of a name, unless it was removed.
pub(super) async fn live(client: &Client, name: &str) -> Result<Option<View>, Error> {
    Ok(look_at(client, name).await?.filter(View::is_live))
}

/// The schedule of a name, removed or not.
pub(super) async fn look_at(client: &Client, name: &str) -> Result<Option<View>, Error> {
    let store = &client.hub().store;
    let Some(run) = store.by_key(Arc::from(WORKFLOW), name.to_owned()).await? else { return Ok(None) };
    view(client, store.load(run).await?).await
}

/// What a schedule comes to with all that it was told and did not take in yet: whoever tells it something sees that at
/// once, in whatever process it is kept.
pub(super) async fn view(client: &Client, image: Option<RunImage>) -> Result<Option<View>, Error> {
    let (hub, Some(image)) = (client.hub(), image) else { return Ok(None) };
    let ended = match image.standing.place {
        Place::Ended(_) => Some(image.standing.generation),
        _ => None,
    };
    let (run, now) = (image.run.id, hub.clock.now());
    let ledger = Ledger::read(hub, &image)?;
    let mail = readable(hub, &image.inbox);
    let findings = Findings::gather(hub, &ledger, &mail).await?;
    let mut turn = Turn::new(ledger, run, &findings, now);
    for (_, at, heard) in mail {
        turn.hear(heard, at);
    }
    turn.heal();
    Ok(Some(View { run, ended, ledger: turn.ledger, now, trouble: trouble(&image) }))
}
