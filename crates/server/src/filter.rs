//! Which runs are meant.

use serde::Deserialize;
use utoipa::ToSchema;
use windlass::{Client, RunId, RunState, Runs, Time};

use crate::{
    Problem,
    arrival::{instant, run_id, word},
    view::State,
};

/// The most runs on a page.
pub(crate) const MOST: usize = 500;

/// Which runs are meant: all conditions must hold, and none means every run.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Filter {
    /// Only runs of this workflow.
    workflow: Option<String>,
    /// Only runs in one of these states.
    state: Vec<State>,
    /// Only runs of this queue.
    queue: Option<String>,
    /// Only runs with this tag.
    tag: Option<String>,
    /// Only runs that were started under this key.
    key: Option<String>,
    /// Only runs created at this time or after it.
    #[schema(format = DateTime)]
    since: Option<String>,
    /// Only runs created before this time.
    #[schema(format = DateTime)]
    until: Option<String>,
}

/// A filter, and a place in the list of what it finds.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    filter: Filter,
    after: Option<RunId>,
    limit: Option<usize>,
}

impl Listing {
    /// Reads the query of a request. What it does not know is refused: a condition that is misspelt finds everything.
    pub(crate) fn read(query: Vec<(String, String)>) -> Result<Self, Problem> {
        let mut listing = Self::default();
        for (name, value) in query {
            let Self { filter, after, limit } = &mut listing;
            match &*name {
                "workflow" => once(&name, &mut filter.workflow, value)?,
                "state" => filter.state.push(state(&value)?),
                "queue" => once(&name, &mut filter.queue, value)?,
                "tag" => once(&name, &mut filter.tag, value)?,
                "key" => once(&name, &mut filter.key, value)?,
                "since" => once(&name, &mut filter.since, value)?,
                "until" => once(&name, &mut filter.until, value)?,
                "after" => once(&name, after, run_id(&value)?)?,
                "limit" => once(&name, limit, page(&value)?)?,
                _ => return Err(unknown(&name)),
            }
        }
        Ok(listing)
    }

    /// The filter alone, where a place in the list makes no sense.
    pub(crate) fn filter(self) -> Result<Filter, Problem> {
        match (self.after, self.limit) {
            (None, None) => Ok(self.filter),
            _ => {
                let detail =
                    "`after` and `limit` are for the list: all that fits the other conditions is counted";
                Err(Problem::malformed("malformed_query", detail))
            }
        }
    }

    pub(crate) fn runs(&self, client: &Client) -> Result<Runs, Problem> {
        let runs = self.filter.runs(client)?.limit(self.limit.unwrap_or(100));
        Ok(self.after.into_iter().fold(runs, Runs::after))
    }
}

impl Filter {
    /// The runs that are meant.
    pub(crate) fn runs(&self, client: &Client) -> Result<Runs, Problem> {
        self.states(client, self.state.iter().map(|state| RunState::from(*state)))
    }

    /// The runs that are meant and in a state that fits. `None` when there is no such state.
    pub(crate) fn narrowed(
        &self,
        client: &Client,
        fits: impl Fn(RunState) -> bool,
    ) -> Result<Option<Runs>, Problem> {
        let meant = |state: &RunState| self.state.is_empty() || self.state.contains(&State::from(*state));
        let states: Vec<RunState> =
            RunState::ALL.into_iter().filter(|state| fits(*state) && meant(state)).collect();
        // A search for runs in none of the states is one for runs in any.
        let is_any = states.is_empty();
        let runs = self.states(client, states.into_iter())?;
        Ok((!is_any).then_some(runs))
    }

    /// The conditions, as they are written in a query.
    pub(crate) fn words(&self) -> String {
        let Self { workflow, state, queue, tag, key, since, until } = self;
        let one = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name}={value}"));
        let states = state.iter().map(|state| format!("state={}", state.name()));
        let rest =
            [one("queue", queue), one("tag", tag), one("key", key), one("since", since), one("until", until)];
        let all: Vec<String> =
            one("workflow", workflow).into_iter().chain(states).chain(rest.into_iter().flatten()).collect();
        if all.is_empty() { "all runs".to_owned() } else { all.join("&") }
    }

    fn states(&self, client: &Client, states: impl Iterator<Item = RunState>) -> Result<Runs, Problem> {
        let words = [
            ("the workflow", &self.workflow),
            ("the queue", &self.queue),
            ("the tag", &self.tag),
            ("the key", &self.key),
        ];
        words.iter().try_for_each(|(what, text)| text.iter().try_for_each(|text| word(what, text)))?;
        let (since, until) = self.span()?;
        let mut runs = states.fold(client.runs(), Runs::state);
        runs = self.workflow.iter().fold(runs, |runs, name| runs.workflow(name.as_str()));
        runs = self.queue.iter().fold(runs, |runs, name| runs.queue(name.as_str()));
        runs = self.tag.iter().fold(runs, Runs::tag);
        runs = self.key.iter().fold(runs, Runs::key);
        runs = since.into_iter().fold(runs, Runs::since);
        Ok(until.into_iter().fold(runs, Runs::until))
    }

    fn span(&self) -> Result<(Option<Time>, Option<Time>), Problem> {
        let read =
            |what: &str, text: &Option<String>| text.as_ref().map(|text| instant(what, text)).transpose();
        let (since, until) = (read("`since`", &self.since)?, read("`until`", &self.until)?);
        match since.zip(until) {
            Some((since, until)) if since >= until => {
                Err(Problem::malformed("malformed_range", "`since` is not before `until`"))
            }
            _ => Ok((since, until)),
        }
    }
}

/// Sets what may be said once.
pub(crate) fn once<T>(name: &str, place: &mut Option<T>, value: T) -> Result<(), Problem> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Problem::malformed("malformed_query", format!("`{name}` is given twice"))),
    }
}

fn state(text: &str) -> Result<State, Problem> {
    State::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| {
        let names = State::ALL.map(State::name).join(", ");
        let detail = format!("`{}` is not a state: there are {names}", text.escape_debug());
        Problem::malformed("malformed_query", detail)
    })
}

pub(crate) fn page(text: &str) -> Result<usize, Problem> {
    let limit = text.parse().ok().filter(|limit| (1..=MOST).contains(limit));
    limit.ok_or_else(|| {
        Problem::malformed("malformed_range", format!("`limit` must be a number from 1 to {MOST}"))
    })
}

fn unknown(name: &str) -> Problem {
    let detail = format!(
        "`{}` is not a condition: there are workflow, state, queue, tag, key, since, until, after and limit",
        name.escape_debug()
    );
    Problem::malformed("malformed_query", detail)
}
