//! Looking at triggers, and steering them.

use clap::Subcommand;
use serde_json::json;

use crate::{
    api::{Api, escape},
    command::Said,
    show,
    trouble::Trouble,
};

#[derive(Subcommand)]
pub(crate) enum Triggers {
    /// List all triggers
    List,
    /// Show a trigger
    Show { name: String },
    /// Have it asked now
    Ask { name: String },
    /// Ask it no more
    Pause {
        name: String,
        /// Why
        #[arg(long, default_value = "")]
        note: String,
    },
    /// Ask it again
    Resume { name: String },
    /// Forget its failures, and ask it at once
    Reset { name: String },
}

impl Triggers {
    pub(crate) async fn ask(self, api: &Api) -> Result<Said, Trouble> {
        let path = |name: &str, what: &str| format!("/triggers/{}{what}", escape(name));
        let (name, what, body, words) = match self {
            Self::List => return Ok(Said::new(api.get("/triggers").await?, show::triggers)),
            Self::Show { name } => return Ok(Said::new(api.get(&path(&name, "")).await?, show::trigger)),
            Self::Ask { name } => (name, "/ask", json!({}), "it is asked now"),
            Self::Pause { name, note } => (name, "/pause", json!({"note": note}), "it is asked no more"),
            Self::Resume { name } => (name, "/resume", json!({}), "it is asked again"),
            Self::Reset { name } => (name, "/reset", json!({}), "its failures are forgotten"),
        };
        Ok(Said::words(api.post(&path(&name, what), body).await?, words))
    }
}
