//! Finding and steering runs.

use std::collections::HashMap;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

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
            Self::List(listing) => Said::new(api.get(&listing.path()).await?, show::runs),
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
    fn path(&self) -> String {
        let mut query = vec![format!("limit={}", escape(&self.limit))];
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
        let Self { workflow, input, key, queue, queue_key, priority, delay, timeout, tag } = self;
        json!({
            "workflow": workflow, "input": input, "key": key, "queue": queue, "queue_key": queue_key,
            "priority": priority, "delay": delay, "timeout": timeout, "tags": tag,
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
                Err(Trouble::Unknown(_)) => {}
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
