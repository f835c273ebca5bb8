//! Finding batches.

use std::sync::Arc;

use serde::Serialize;
use windlass_core::{RunId, RunState, Time, batch::Decision, nearest};
use windlass_store::{Place, Query, RunImage};

use super::{
    Batch, BatchStatus, handle::Address, keeper::WORKFLOW, ledger::Ledger, message::ITEM, turn::Mail,
};
use crate::{Client, Error, schedule::trouble};

/// How many batches a page of a listing has.
const PORTION: usize = 200;

/// The batches of a database.
#[derive(Clone, Debug)]
pub struct Batches {
    client: Client,
}

/// A batch as it stands, with everything taken in that it was told.
pub(super) struct View {
    pub(super) run: RunId,
    /// The generation that ended, if the run has.
    pub(super) ended: Option<u32>,
    pub(super) ledger: Ledger,
    pub(super) decision: Decision,
    /// When the oldest item came that waits.
    pub(super) oldest: Option<Time>,
    pub(super) now: Time,
    /// Why its last turn failed, if it did.
    pub(super) trouble: Option<String>,
}

impl View {
    /// Whether it was not removed.
    pub(super) fn is_live(&self) -> bool {
        self.ended.is_none() && !self.decision.basket.is_removed
    }
}

impl Batches {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The batch of this name, for items of a type: the workflow that it was declared with takes a `Vec` of it.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownBatch`] when there is none, or the store cannot be asked.
    pub async fn get<T: Serialize + Send + Sync + 'static>(&self, name: &str) -> Result<Batch<T>, Error> {
        match live(&self.client, name).await? {
            Some(view) => Ok(Batch::new(self.client.clone(), name, Address::of(&view))),
            None => {
                let runs = self.runs().await?;
                let nearest = nearest(name, runs.iter().map(|(_, name)| name.as_str())).map(str::to_owned);
                Err(Error::UnknownBatch { name: name.to_owned(), nearest })
            }
        }
    }

    /// How all batches stand, by name. One that cannot be read is left out.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn list(&self) -> Result<Vec<BatchStatus>, Error> {
        let mut found = Vec::new();
        for (run, _) in self.runs().await? {
            let image = self.client.hub().store.load(run).await?;
            match view(&self.client, image) {
                Ok(Some(view)) if view.is_live() => found.push(BatchStatus::of(view)),
                Ok(_) => {}
                // Whoever asks for this one hears why.
                Err(error) => {
                    tracing::warn!(%run, %error, "a batch cannot be read, and is left out of the list");
                }
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// The runs of all batches, with their names. Some may have been removed.
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

/// The batch of a name, unless it was removed.
pub(super) async fn live(client: &Client, name: &str) -> Result<Option<View>, Error> {
    Ok(look_at(client, name).await?.filter(View::is_live))
}

/// The batch of a name, removed or not.
pub(super) async fn look_at(client: &Client, name: &str) -> Result<Option<View>, Error> {
    let store = &client.hub().store;
    let Some(run) = store.by_key(Arc::from(WORKFLOW), name.to_owned()).await? else { return Ok(None) };
    view(client, store.load(run).await?)
}

/// What a batch comes to with all that it was told and did not take in yet: whoever tells it something sees that at once,
/// in whatever process it is kept.
fn view(client: &Client, image: Option<RunImage>) -> Result<Option<View>, Error> {
    let (hub, Some(image)) = (client.hub(), image) else { return Ok(None) };
    let ended = match image.standing.place {
        Place::Ended(_) => Some(image.standing.generation),
        _ => None,
    };
    let now = hub.clock.now();
    let mut ledger = Ledger::read(hub, &image)?;
    let mut mail = Mail::read(hub, &image.inbox, &ledger, false)?;
    mail.declare(&mut ledger);
    let decision = mail.decide(hub, &ledger, now);
    let discarded = decision.discarded.len();
    let oldest = image.inbox.iter().filter(|row| row.topic == ITEM).nth(discarded).map(|row| row.at);
    Ok(Some(View { run: image.run.id, ended, ledger, decision, oldest, now, trouble: trouble(&image) }))
}
