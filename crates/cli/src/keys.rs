//! Keys for the HTTP API.

use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::{
    api::{Api, escape},
    command::Said,
    show::text,
    table::Table,
    trouble::Trouble,
};

#[derive(Subcommand)]
pub(crate) enum Keys {
    /// Make a key, and print it: it is not shown again
    Create {
        /// What it is called, so that it is known later whose it is
        name: String,
        /// What whoever has it may do
        #[arg(long, value_enum)]
        role: Role,
        /// After how many days it expires; never by default
        #[arg(long)]
        days: Option<f64>,
    },
    /// List all keys
    List,
    /// Revoke a key: after two seconds it opens nothing
    Revoke { name: String },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Role {
    /// See everything
    Viewer,
    /// Steer runs, schedules, triggers and queues too
    Operator,
    /// Everything
    Admin,
}

impl Keys {
    pub(crate) async fn ask(self, api: &Api) -> Result<Said, Trouble> {
        Ok(match self {
            Self::Create { name, role, days } => {
                let role = role.to_possible_value().map(|role| role.get_name().to_owned());
                let expires_in = days.map(|days| days * 86_400.0);
                let new = json!({"name": name, "role": role, "expires_in": expires_in});
                Said::new(api.post("/keys", new).await?, |answer, _| vec![text(&answer["key"])])
            }
            Self::List => Said::new(api.get("/keys").await?, |answer, _| list(answer)),
            Self::Revoke { name } => {
                let answer = api.delete(&format!("/keys/{}", escape(&name))).await?;
                Said::words(answer, "after two seconds it opens nothing")
            }
        })
    }
}

fn list(answer: &Value) -> Vec<String> {
    let mut table = Table::new(&["key", "role", "created", "expires", "last used"]);
    for key in answer["keys"].as_array().into_iter().flatten() {
        let fields = ["name", "role", "created_at", "expires_at", "last_used"];
        table.row(fields.iter().map(|field| text(&key[*field])).collect());
    }
    match table.lines() {
        lines if lines.len() == 1 => {
            vec!["there is no key: `windlass keys create NAME --role viewer`".to_owned()]
        }
        lines => lines,
    }
}
