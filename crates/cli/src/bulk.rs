//! Doing something to one run, or to all that fit.

use std::io::{self, IsTerminal, Write};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::{
    Output,
    api::{Api, escape},
    command::Said,
    runs::{Conditions, ended_before},
    trouble::Trouble,
    watch::Form,
};

/// One run, or conditions for many.
#[derive(Args)]
pub(crate) struct Target {
    /// One run; or conditions, for all runs that they fit
    run: Option<String>,
    #[command(flatten)]
    conditions: Conditions,
    /// All runs, without a condition
    #[arg(long)]
    all: bool,
    /// Count the runs that conditions fit, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Do it to all that conditions fit, without being asked
    #[arg(long, short)]
    yes: bool,
}

/// What is done to runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Cancel,
    Retry,
    Pause,
    Resume,
    Discard,
}

impl Action {
    const fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Discard => "discard",
        }
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Retry => "opened again",
            Self::Pause => "paused",
            Self::Resume => "resumed",
            Self::Discard => "discarded",
        }
    }

    /// What is said of a single run.
    const fn words(self) -> &'static str {
        match self {
            Self::Cancel => "it will end as cancelled, unless it ends by itself first",
            Self::Retry => "it runs again",
            Self::Pause => "it stops at the next boundary",
            Self::Resume => "it goes on",
            Self::Discard => "its records are gone",
        }
    }

    const fn has_reason(self) -> bool {
        matches!(self, Self::Cancel | Self::Discard)
    }
}

impl Target {
    pub(crate) async fn act(
        self,
        api: &Api,
        action: Action,
        reason: &str,
        form: Form,
        output: &mut Output,
    ) -> Result<Said, Trouble> {
        let filter = self.conditions.filter();
        let has_conditions = filter.as_object().is_some_and(|filter| !filter.is_empty());
        match (&self.run, has_conditions || self.all) {
            (Some(run), false) if !self.dry_run => one(api, action, run, reason).await,
            (Some(_), _) => {
                Err(Trouble::Url("name one run, or conditions for many, but not both".to_owned()))
            }
            (None, false) => Err(Trouble::Url(
                "which runs? Name one, or say conditions such as --workflow, or --all".to_owned(),
            )),
            (None, true) => self.many(api, action, filter, reason, form, output).await,
        }
    }

    async fn many(
        &self,
        api: &Api,
        action: Action,
        filter: Value,
        reason: &str,
        form: Form,
        output: &mut Output,
    ) -> Result<Said, Trouble> {
        let mut wish = json!({"filter": filter, "action": action.name(), "reason": reason, "dry_run": true});
        let counted = api.post("/runs/bulk", wish.clone()).await?;
        let how_many = how_many(&counted);
        if self.dry_run {
            return Ok(Said::words(counted, format!("{how_many} would be {}", action.done())));
        }
        if !self.yes && counted["count"] != 0 {
            confirm(&format!("{how_many} will be {}. Is that what you want?", action.done()))?;
        }
        if form == Form::ForPeople && counted["count"] != 0 {
            output.line(&format!("{how_many} fit"))?;
        }
        wish["dry_run"] = false.into();
        let bar = spinner(action.name());
        let done = api.post("/runs/bulk", wish).await;
        bar.finish_and_clear();
        Ok(Said::new(done?, move |answer, _| {
            let passed = match &answer["passed_over"] {
                none if none == 0 => String::new(),
                some => format!("; {some} had moved on meanwhile"),
            };
            vec![format!("{} {}{passed}", answer["done"], action.done())]
        }))
    }
}

async fn one(api: &Api, action: Action, run: &str, reason: &str) -> Result<Said, Trouble> {
    let body = if action.has_reason() { json!({"reason": reason}) } else { json!({}) };
    let answer = api.post(&format!("/runs/{}/{}", escape(run), action.name()), body).await?;
    Ok(Said::new(answer, move |answer, _| {
        vec![ended_before(answer).unwrap_or_else(|| action.words().to_owned())]
    }))
}

fn how_many(counted: &Value) -> String {
    let more = if counted["more"] == true { "more than " } else { "" };
    let runs = if counted["count"] == 1 { "run" } else { "runs" };
    format!("{more}{} {runs}", counted["count"])
}

/// Asks whoever sits there; nobody is asked who cannot see the question.
fn confirm(question: &str) -> Result<(), Trouble> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Trouble::Unconfirmed);
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Trouble::Unconfirmed),
    }
}

/// What turns while a server is at work, on a terminal alone.
fn spinner(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(what);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} … {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(120));
    bar
}
