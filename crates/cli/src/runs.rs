//! Finding and steering runs.

use std::{collections::HashMap, time::Duration};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    Output,
    api::{Api, escape},
    bulk::{Action, Target},
    command::Said,
    show,
    table::Table,
    trouble::Trouble,
    watch::{Form, watch},
};

/// How long a list is searched for. What is found later is on the next page.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Subcommand)]
pub(crate) enum Runs {
    /// List runs, newest first
    List(Box<Listing>),
    /// Say where a run stands
    Show { run: String },
    /// Follow a run until its end
    Watch { run: String },
    /// Start a run of a workflow that an engine has brought
    Start(Box<Start>),
    /// Send a run an event
    Send {
        run: String,
        /// The event's name
        event: String,
        /// What it carries, as JSON
        #[arg(default_value = "null", value_parser = payload)]
        payload: Value,
        /// Makes a repeat harmless: the same key is one event
        #[arg(long)]
        key: Option<String>,
    },
    /// Cancel runs: they may tidy up, and what they have done is undone if they say how
    Cancel {
        #[command(flatten)]
        target: Box<Target>,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// End a run at once, and undo nothing
    Terminate {
        run: String,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Open failed, cancelled or abandoned runs again
    Retry {
        #[command(flatten)]
        target: Box<Target>,
    },
    /// Hold runs at their next boundary
    Pause {
        #[command(flatten)]
        target: Box<Target>,
    },
    /// Let paused runs go on
    Resume {
        #[command(flatten)]
        target: Box<Target>,
    },
    /// Remove the records of runs that have ended
    Discard {
        #[command(flatten)]
        target: Box<Target>,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Start a new run with a copy of what a task depends on
    Fork { run: String, task: String },
    /// Say what is known, without their code, of how runs in flight fit the newest version of their workflow
    Check {
        /// Only runs of this workflow
        #[arg(long)]
        workflow: Option<String>,
    },
}

#[derive(Args)]
pub(crate) struct Listing {
    #[command(flatten)]
    conditions: Conditions,
    /// The page after the one that ended with this run
    #[arg(long)]
    after: Option<String>,
    /// How many, at most 500
    #[arg(long, default_value = "50")]
    limit: String,
}

/// Which runs are meant: all conditions must hold.
#[derive(Args)]
pub(crate) struct Conditions {
    /// Only runs of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// Only runs in this state; may be given several times
    #[arg(long)]
    state: Vec<String>,
    /// Only runs of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only runs with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only runs that were started under this key
    #[arg(long)]
    key: Option<String>,
    /// Only runs created at this time or after it, as 2026-03-01T12:30:00Z
    #[arg(long)]
    since: Option<String>,
    /// Only runs created before this time
    #[arg(long)]
    until: Option<String>,
}

#[derive(Args)]
pub(crate) struct Start {
    /// The workflow
    workflow: String,
    /// Its input, as JSON
    #[arg(default_value = "null", value_parser = payload)]
    input: Value,
    /// The same key gives the same run
    #[arg(long)]
    key: Option<String>,
    /// The queue it waits in
    #[arg(long)]
    queue: Option<String>,
    /// What it is counted by within its queue
    #[arg(long)]
    queue_key: Option<String>,
    /// 0 is the most urgent, 9 the least
    #[arg(long)]
    priority: Option<u8>,
    /// In how many seconds it may begin
    #[arg(long, value_name = "SECONDS")]
    delay: Option<f64>,
    /// How many seconds it may take
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// What its context starts with, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = payload)]
    context: Option<Value>,
    /// A tag to find it by; may be given several times
    #[arg(long)]
    tag: Vec<String>,
}

/// JSON, or why it is none.
fn payload(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|why| format!("not JSON ({why}): a text has quotes, as in '\"text\"'"))
}

impl Runs {
    pub(crate) async fn ask(self, api: &Api, form: Form, output: &mut Output) -> Result<(), Trouble> {
        let path = |run: &str, what: &str| format!("/runs/{}{what}", escape(run));
        let said = match self {
            Self::List(listing) => Said::new(listing.list(api).await?, show::runs),
            Self::Show { run } => Said::new(api.get(&path(&run, "")).await?, show::run),
            Self::Watch { run } => return watch(api, &run, form, output).await,
            Self::Start(start) => {
                let answer = api.post("/runs", start.body()).await?;
                Said::new(answer, |answer, _| vec![show::text(&answer["id"])])
            }
            Self::Send { run, event, payload, key } => {
                let body = json!({"name": event, "payload": payload, "key": key});
                Said::words(api.post(&path(&run, "/events"), body).await?, "it is sent")
            }
            Self::Cancel { target, reason } => target.act(api, Action::Cancel, &reason, form, output).await?,
            Self::Terminate { run, reason } => Said::new(
                api.post(&path(&run, "/terminate"), json!({"reason": reason})).await?,
                |answer, _| vec![ended_before(answer).unwrap_or_else(|| "it ends at once".to_owned())],
            ),
            Self::Retry { target } => target.act(api, Action::Retry, "", form, output).await?,
            Self::Pause { target } => target.act(api, Action::Pause, "", form, output).await?,
            Self::Resume { target } => target.act(api, Action::Resume, "", form, output).await?,
            Self::Discard { target, reason } => {
                target.act(api, Action::Discard, &reason, form, output).await?
            }
            Self::Fork { run, task } => {
                let answer = api.post(&path(&run, "/fork"), json!({"task": task})).await?;
                Said::new(answer, |answer, _| vec![show::text(&answer["id"])])
            }
            Self::Check { workflow } => return check(api, workflow.as_deref(), form, output).await,
        };
        said.print(form, output)
    }
}

/// That a run had ended before it could be ended.
pub(crate) fn ended_before(answer: &Value) -> Option<String> {
    answer["state"].as_str().map(|state| format!("it had ended already, as {state}"))
}

impl Listing {
    /// As many runs as are asked for. Where few of many fit, the server answers bit by bit: after some time, what has been
    /// found by then.
    async fn list(mut self: Box<Self>, api: &Api) -> Result<Value, Trouble> {
        let begun = Instant::now();
        let mut answer = api.get(&self.path(&self.limit)).await?;
        let wanted: usize = self.limit.parse().unwrap_or_default();
        loop {
            let found = show::each(&answer, "runs").count();
            self.after = answer["next"].as_str().map(str::to_owned);
            if found >= wanted || self.after.is_none() || begun.elapsed() >= PATIENCE {
                return Ok(answer);
            }
            let mut more = api.get(&self.path(&(wanted - found).to_string())).await?;
            let runs = more["runs"].as_array_mut().map(std::mem::take).unwrap_or_default();
            answer["runs"].as_array_mut().into_iter().for_each(|all| all.extend_from_slice(&runs));
            answer["next"] = more["next"].take();
        }
    }

    fn path(&self, limit: &str) -> String {
        let mut query = vec![format!("limit={}", escape(limit))];
        query.extend(self.conditions.state.iter().map(|state| format!("state={}", escape(state))));
        let words = self.conditions.words().into_iter().chain([("after", &self.after)]);
        let words = words.filter_map(|(name, value)| Some(format!("{name}={}", escape(value.as_deref()?))));
        query.extend(words);
        format!("/runs?{}", query.join("&"))
    }
}

impl Conditions {
    fn words(&self) -> [(&'static str, &Option<String>); 6] {
        [
            ("workflow", &self.workflow),
            ("queue", &self.queue),
            ("tag", &self.tag),
            ("key", &self.key),
            ("since", &self.since),
            ("until", &self.until),
        ]
    }

    /// The same for many runs at once; nothing where nothing is said.
    pub(crate) fn filter(&self) -> Value {
        let words = self.words().into_iter();
        let mut filter: serde_json::Map<String, Value> =
            words.filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into()))).collect();
        if !self.state.is_empty() {
            filter.insert("state".to_owned(), self.state.clone().into());
        }
        filter.into()
    }
}

impl Start {
    fn body(self) -> Value {
        let Self { workflow, input, key, queue, queue_key, priority, delay, timeout, context, tag } = self;
        json!({
            "workflow": workflow, "input": input, "key": key, "queue": queue, "queue_key": queue_key,
            "priority": priority, "delay": delay, "timeout": timeout, "context": context, "tags": tag,
        })
    }
}

/// How runs in flight fit, as far as that can be told without the code.
async fn check(api: &Api, workflow: Option<&str>, form: Form, output: &mut Output) -> Result<(), Trouble> {
    let known = api.get("/workflows").await?;
    let newest: HashMap<String, String> = show::each(&known, "workflows")
        .map(|one| (show::text(&one["name"]), show::text(&one["version"])))
        .collect();
    let live = ["pending", "running", "suspended", "paused", "blocked", "undoing"]
        .map(|state| format!("&state={state}"));
    let only = workflow.map(|name| format!("&workflow={}", escape(name))).unwrap_or_default();
    let (mut runs, mut after) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("/runs?limit=500{only}{}{after}", live.concat())).await?;
        for line in show::each(&page, "runs") {
            let run = api.get(&format!("/runs/{}", show::text(&line["id"]))).await;
            match run {
                Ok(run) => runs.push(judged(&run, &newest)),
                // It has gone meanwhile.
                Err(Trouble::Unknown { .. }) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", escape(next)),
            None => break,
        }
    }
    let blocked = runs.iter().filter(|run| run["fit"] == "blocked").count();
    Said::new(json!({"runs": runs}), |answer, _| checked(answer)).print(form, output)?;
    match blocked {
        0 => Ok(()),
        _ => Err(Trouble::Unwell(format!("{blocked} blocked: deploy code that fits, or cancel them"))),
    }
}

fn judged(run: &Value, newest: &HashMap<String, String>) -> Value {
    let newest = newest.get(&show::text(&run["workflow"]));
    let (fit, words) = match (run["state"] == "blocked", run["version"].as_str(), newest) {
        (true, ..) => ("blocked", show::text(&run["waits_for"])),
        (_, None, _) => ("fits", "it has not begun".to_owned()),
        (_, Some(version), Some(newest)) if version == newest => {
            ("fits", "it is of the newest version".to_owned())
        }
        _ => (
            "unclear",
            "it is of another version: only `client.check` in your program can say if it fits".to_owned(),
        ),
    };
    json!({"id": run["id"], "workflow": run["workflow"], "state": run["state"], "version": run["version"], "fit": fit, "words": words})
}

fn checked(answer: &Value) -> Vec<String> {
    let mut table = Table::new(&["run", "workflow", "state", "fit", "why"]);
    for run in show::each(answer, "runs") {
        table.row(["id", "workflow", "state", "fit", "words"].map(|field| show::text(&run[field])).into());
    }
    match table.lines() {
        lines if lines.len() == 1 => vec!["no run is in flight".to_owned()],
        lines => lines,
    }
}

#[cfg(test)]
mod tests {
    use axum::{Json, Router, extract::RawQuery, routing::get};

    use super::*;
    use crate::paint::Paint;

    /// A server of a hundred portions, each of which takes a second, with a run in the third.
    fn slow() -> Api {
        let answer = async |RawQuery(query): RawQuery| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let after =
                query.unwrap_or_default().split_once("after=").map(|(_, after)| after.parse().unwrap());
            let portion: u32 = after.unwrap_or_default();
            let runs: Vec<Value> = (portion == 2).then(|| json!({"id": "found"})).into_iter().collect();
            let next = (portion < 99).then(|| (portion + 1).to_string());
            Json(json!({"runs": runs, "next": next}))
        };
        Api::Here(Router::new().route("/api/v1/runs", get(answer)))
    }

    async fn listed(limit: &str, after: Option<&str>) -> Value {
        let conditions = Conditions {
            workflow: None,
            state: Vec::new(),
            queue: None,
            tag: None,
            key: None,
            since: None,
            until: None,
        };
        let listing = Listing { conditions, after: after.map(str::to_owned), limit: limit.to_owned() };
        Box::new(listing).list(&slow()).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_goes_on_where_a_portion_has_nothing_that_fits() {
        let answer = listed("1", None).await;
        assert_eq!(answer, json!({"runs": [{"id": "found"}], "next": "3"}));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_search_says_where_it_goes_on_and_not_that_nothing_fits() {
        let answer = listed("50", Some("10")).await;
        assert_eq!(answer, json!({"runs": [], "next": "15"}));
        let lines = show::runs(&answer, Paint::Plain);
        assert_eq!(lines, ["no run fits among those that were looked at so far", "more: --after 15"]);
        let last = listed("50", Some("97")).await;
        assert_eq!(show::runs(&last, Paint::Plain), ["no run fits"]);
    }
}
