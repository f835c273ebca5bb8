//! Finding runs, and acting on many at once.

use std::{future::Future, sync::Arc};

use windlass_core::{RunId, RunState, Time};
use windlass_store::{Page, Place, Query, RunSummary};

use crate::{
    Cancelled, Client, Error, Run,
    discard::{Outcome, discard_by_hand},
    reserved::RESERVED,
    status,
};

/// How many runs a bulk action takes at a time.
const PORTION: usize = 200;
/// How many runs are looked at in one go.
const LOOK: usize = 5_000;
/// How many of them have their records read in one go.
const READ: usize = 500;

/// A search for runs: conditions that must all hold, and what to do with those found.
#[derive(Clone, Debug)]
#[must_use = "a search does nothing until it is listed or acted on"]
pub struct Runs {
    pub(crate) client: Client,
    pub(crate) query: Query,
}

/// What a bulk action did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bulk {
    /// Runs that the action was done to.
    pub done: usize,
    /// Runs that had moved on meanwhile, so that it was not.
    pub passed_over: usize,
}

impl Runs {
    pub(crate) fn new(client: Client) -> Self {
        let query = Query { without: Some(RESERVED.into()), ..Query::default() };
        Self { client, query }
    }

    /// Only runs of this workflow.
    pub fn workflow(mut self, name: impl Into<Arc<str>>) -> Self {
        self.query.workflow = Some(name.into());
        self
    }

    /// Only runs in this state. May be given several times: any of them.
    pub fn state(mut self, state: RunState) -> Self {
        self.query.states.push(state);
        self
    }

    /// Only failed runs.
    pub fn failed(self) -> Self {
        self.state(RunState::Failed)
    }

    /// Only failed and abandoned runs: those that somebody has to look at.
    pub fn dead(self) -> Self {
        self.failed().state(RunState::Abandoned)
    }

    /// Only completed runs.
    pub fn completed(self) -> Self {
        self.state(RunState::Completed)
    }

    /// Only pending runs.
    pub fn pending(self) -> Self {
        self.state(RunState::Pending)
    }

    /// Only runs that are held by a node.
    pub fn running(self) -> Self {
        self.state(RunState::Running)
    }

    /// Only runs that have not ended.
    pub fn live(self) -> Self {
        let live = RunState::ALL.into_iter().filter(|state| !state.is_terminal());
        live.fold(self, Self::state)
    }

    /// Only runs of this queue.
    pub fn queue(mut self, name: impl Into<Arc<str>>) -> Self {
        self.query.queue = Some(name.into());
        self
    }

    /// Only runs with this tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.query.tag = Some(tag.into());
        self
    }

    /// Only runs that were started under this key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.query.key = Some(key.into());
        self
    }

    /// Only runs created at this time or after it.
    pub fn since(mut self, at: impl Into<Time>) -> Self {
        self.query.since = Some(at.into());
        self
    }

    /// Only runs created before this time.
    pub fn until(mut self, at: impl Into<Time>) -> Self {
        self.query.until = Some(at.into());
        self
    }

    /// How many runs a page has. Default: 100.
    pub fn limit(mut self, limit: usize) -> Self {
        self.query.limit = limit;
        self
    }

    /// The page after the one that ended with this run. Runs that are started meanwhile do not shift it.
    pub fn after(mut self, last: RunId) -> Self {
        self.query.after = Some(last);
        self
    }

    /// The newest runs that fit, newest first.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn list(&self) -> Result<Vec<RunSummary>, Error> {
        Ok(self.page().await?.runs)
    }

    /// The same, with word of whether more follow.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn page(&self) -> Result<Page, Error> {
        let (mut search, mut page) = (self.clone(), self.portion().await?);
        while let Some(next) = page.next.filter(|_| page.runs.len() < self.query.limit) {
            (search.query.after, search.query.limit) = (Some(next), self.query.limit - page.runs.len());
            let more = search.portion().await?;
            page.runs.extend(more.runs);
            (page.more, page.next) = (more.more, more.next);
        }
        Ok(page)
    }

    /// Those of them that are found at once. The page may have fewer than were asked for, or none, although more
    /// follow: where few of many runs fit, the search goes on [after](Self::after) the place in [`Page::next`]. So it
    /// takes no longer when there are millions.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub async fn portion(&self) -> Result<Page, Error> {
        let (store, states) = (&self.client.hub().store, &self.query.states);
        let mut query = Query { look: LOOK, ..self.query.clone() };
        let hidden = [RunState::Running, RunState::Suspended];
        if !states.contains(&RunState::Undoing) || hidden.iter().all(|state| states.contains(state)) {
            return Ok(store.find(query).await?);
        }
        // To the store, a run that is being undone is held by a node or on its way to one. Its records tell. Among those that
        // the store finds, any number may not fit: what is asked for is counted after they are left out.
        query.states.extend(hidden);
        query.limit = query.limit.max(PORTION);
        let mut page = Page { runs: Vec::new(), more: false, next: None };
        let (mut looked, mut read) = (0, 0);
        loop {
            let found = store.find(query.clone()).await?;
            looked += if found.runs.len() < query.limit { LOOK } else { found.runs.len() };
            let (mut left, mut last) = (found.runs.len(), query.after);
            for run in found.runs {
                let fits = if states.contains(&run.standing.state()) {
                    true
                } else if matches!(run.standing.place, Place::Waiting(_)) {
                    false
                } else if read == READ {
                    break;
                } else {
                    read += 1;
                    self.is_undoing(&run).await?
                };
                if fits && page.runs.len() == self.query.limit {
                    break;
                }
                (left, last) = (left - 1, Some(run.id));
                page.runs.extend(fits.then_some(run));
            }
            (page.more, page.next) = if left == 0 { (found.more, found.next) } else { (true, last) };
            let is_full = page.runs.len() == self.query.limit;
            if is_full || left > 0 || looked >= LOOK || page.next.is_none() {
                return Ok(page);
            }
            query.after = page.next;
        }
    }

    async fn is_undoing(&self, run: &RunSummary) -> Result<bool, Error> {
        match self.client.hub().store.load(run.id).await? {
            Some(image) => status::is_undoing(&self.client, &image),
            None => Ok(false),
        }
    }

    /// Cancels every run that fits and has not ended.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked. What was done until then stays done.
    pub async fn cancel_all(self, reason: impl AsRef<str>) -> Result<Bulk, Error> {
        let reason = reason.as_ref();
        let open = self.only(|state| !state.is_terminal());
        open.each(|run| async move { Ok(!matches!(run.cancel(reason).await?, Cancelled::AlreadyEnded(_))) })
            .await
    }

    /// Pauses every run that fits and has not ended.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked. What was done until then stays done.
    pub async fn pause_all(self) -> Result<Bulk, Error> {
        self.only(|state| !state.is_terminal()).each(|run| async move { done(run.pause().await) }).await
    }

    /// Resumes every paused run that fits.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked. What was done until then stays done.
    pub async fn resume_all(self) -> Result<Bulk, Error> {
        self.only(|state| !state.is_terminal()).each(|run| async move { done(run.resume().await) }).await
    }

    /// Retries every run that fits and failed, was cancelled or was abandoned.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked. What was done until then stays done.
    pub async fn retry_all(self) -> Result<Bulk, Error> {
        let ended = self.only(|state| state.is_terminal() && state != RunState::Completed);
        ended.each(|mut run| async move { done(run.retry().await) }).await
    }

    /// Discards every run that fits and has ended, for ever, with its records and its key. The reason goes to the log.
    ///
    /// A run is passed over while its parent has not heard of its end, or when it could not be handed to the engine's
    /// [`archive`](crate::EngineBuilder::archive).
    ///
    /// # Errors
    ///
    /// When the store cannot be asked. What was done until then stays done.
    pub async fn discard_all(self, reason: impl AsRef<str>) -> Result<Bulk, Error> {
        let reason = reason.as_ref();
        let mut ended = self.only(RunState::is_terminal);
        let mut bulk = Bulk::default();
        if ended.query.states.is_empty() {
            return Ok(bulk);
        }
        ended.query.limit = PORTION;
        loop {
            let page = ended.page().await?;
            let runs = page.runs.iter().map(|run| (run.id, run.standing.generation)).collect();
            let outcomes = discard_by_hand(ended.client.hub(), ended.client.node(), runs).await?;
            let went = |run: &&RunSummary| outcomes.contains(&(run.id, Outcome::Gone));
            let hub = ended.client.hub();
            for run in page.runs.iter().filter(went) {
                hub.scribe.count(&run.workflow, run.standing.state(), hub.clock.now(), -1);
            }
            let gone = outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Gone).count();
            bulk.done += gone;
            bulk.passed_over += outcomes.len() - gone;
            tracing::info!(runs = gone, reason, "runs were discarded by hand");
            match page.next {
                Some(next) => ended.query.after = Some(next),
                None => return Ok(bulk),
            }
        }
    }

    /// Narrows the search to the states that an action makes sense for.
    fn only(mut self, fits: impl Fn(RunState) -> bool) -> Self {
        let wanted = std::mem::take(&mut self.query.states);
        let any = wanted.is_empty();
        let states =
            RunState::ALL.into_iter().filter(|state| fits(*state) && (any || wanted.contains(state)));
        self.query.states = states.collect();
        self
    }

    /// Does something to every run that fits, a portion at a time, newest first.
    async fn each<F, A>(mut self, act: F) -> Result<Bulk, Error>
    where
        F: Fn(Run<serde_json::Value>) -> A,
        A: Future<Output = Result<bool, Error>>,
    {
        let mut bulk = Bulk::default();
        if self.query.states.is_empty() {
            // No state is left that both the search and the action allow.
            return Ok(bulk);
        }
        self.query.limit = PORTION;
        loop {
            let page = self.page().await?;
            for found in &page.runs {
                let run = Run::new(self.client.clone(), found.id, Arc::clone(&found.workflow));
                if act(run).await? {
                    bulk.done += 1;
                } else {
                    bulk.passed_over += 1;
                }
            }
            match page.next {
                Some(next) => self.query.after = Some(next),
                None => return Ok(bulk),
            }
        }
    }
}

/// Whether an action was done; a run that has moved on is no error.
fn done(answer: Result<(), Error>) -> Result<bool, Error> {
    match answer {
        Ok(()) => Ok(true),
        Err(Error::AlreadyEnded { .. } | Error::NotRetryable { .. } | Error::UnknownRun(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
