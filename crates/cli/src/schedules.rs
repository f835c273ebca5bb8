//! Looking at schedules, and steering them.

use clap::Subcommand;
use serde_json::json;

use crate::{
    api::{Api, escape},
    command::Said,
    show,
    trouble::Trouble,
};

#[derive(Subcommand)]
pub(crate) enum Schedules {
    /// List all schedules
    List,
    /// Show a schedule: what is next, and what was
    Show { name: String },
    /// Have a run started now
    Trigger {
        name: String,
        /// Makes a repeat harmless: the same id is one wish
        #[arg(long)]
        id: Option<String>,
    },
    /// Start nothing more by itself
    Pause {
        name: String,
        /// Why
        #[arg(long, default_value = "")]
        note: String,
    },
    /// Go on
    Resume { name: String },
    /// Forget its failures, and go on at once
    Reset { name: String },
    /// Start runs for times that have passed
    Backfill {
        name: String,
        /// The first of them may be then, as 2026-03-01T12:30:00Z
        #[arg(long)]
        from: String,
        /// They are before this time
        #[arg(long)]
        to: String,
        /// Say which times these are, and start nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Remove a schedule; its runs stay
    Remove { name: String },
}

impl Schedules {
    pub(crate) async fn ask(self, api: &Api) -> Result<Said, Trouble> {
        let path = |name: &str, what: &str| format!("/schedules/{}{what}", escape(name));
        Ok(match self {
            Self::List => Said::new(api.get("/schedules").await?, show::schedules),
            Self::Show { name } => Said::new(api.get(&path(&name, "")).await?, show::schedule),
            Self::Trigger { name, id } => {
                let wish = id.map_or_else(|| json!({}), |id| json!({"id": id}));
                let answer = api.post(&path(&name, "/trigger"), wish).await?;
                Said::new(answer, |answer, _| {
                    vec![format!("a run is started under the key {}", show::text(&answer["key"]))]
                })
            }
            Self::Pause { name, note } => {
                let answer = api.post(&path(&name, "/pause"), json!({"note": note})).await?;
                Said::words(answer, "it starts nothing more by itself")
            }
            Self::Resume { name } => {
                Said::words(api.post(&path(&name, "/resume"), json!({})).await?, "it goes on")
            }
            Self::Reset { name } => {
                Said::words(api.post(&path(&name, "/reset"), json!({})).await?, "its failures are forgotten")
            }
            Self::Backfill { name, from, to, dry_run } => {
                let wish = json!({"from": from, "to": to, "dry_run": dry_run});
                let answer = api.post(&path(&name, "/backfill"), wish).await?;
                Said::new(answer, |answer, _| {
                    let times: Vec<String> = show::each(answer, "times").map(show::text).collect();
                    let is_dry = answer["dry_run"] == true;
                    let what = if is_dry { "would be started for" } else { "are started for" };
                    let head = format!("runs {what} {} times", times.len());
                    [head].into_iter().chain(times.into_iter().map(|time| format!("  {time}"))).collect()
                })
            }
            Self::Remove { name } => {
                Said::words(api.delete(&path(&name, "")).await?, "it is gone; its runs stay")
            }
        })
    }
}
