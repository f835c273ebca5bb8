//! Looking at queues, and steering them.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    api::{Api, escape},
    command::Said,
    show,
    trouble::Trouble,
};

#[derive(Subcommand)]
pub(crate) enum Queues {
    /// List the queues that were declared
    List,
    /// Declare a queue, with these limits and no others
    Set {
        name: String,
        #[command(flatten)]
        limits: Limits,
    },
    /// Take back all that was said of a queue
    Remove { name: String },
    /// Let nothing of a queue begin
    Pause { name: String },
    /// Let the runs of a paused queue begin again
    Resume { name: String },
}

/// How much may be under way, over all processes.
#[derive(Args)]
pub(crate) struct Limits {
    /// How many runs at once
    #[arg(long)]
    concurrency: Option<u32>,
    /// How many of them in one process
    #[arg(long)]
    per_node: Option<u32>,
    /// How many of them with the same queue key
    #[arg(long)]
    per_key: Option<u32>,
    /// How many may begin in so many seconds, as 100/1
    #[arg(long, value_parser = rate, value_name = "COUNT/SECONDS")]
    rate: Option<Value>,
    /// How many with the same queue key may begin in so many seconds
    #[arg(long, value_parser = rate, value_name = "COUNT/SECONDS")]
    key_rate: Option<Value>,
    /// After how many seconds of waiting a run is more urgent by one
    #[arg(long, value_name = "SECONDS")]
    ageing: Option<f64>,
    /// A run that began counts until it ends, also while it is parked
    #[arg(long)]
    hold: bool,
}

fn rate(text: &str) -> Result<Value, String> {
    let (count, per) = text.split_once('/').unwrap_or((text, "1"));
    match (count.trim().parse::<u32>(), per.trim().trim_end_matches('s').parse::<f64>()) {
        (Ok(count), Ok(per)) => Ok(json!({"count": count, "per": per})),
        _ => Err("say how many in how many seconds: 100/1".to_owned()),
    }
}

impl Queues {
    pub(crate) async fn ask(self, api: &Api) -> Result<Said, Trouble> {
        let path = |name: &str, what: &str| format!("/queues/{}{what}", escape(name));
        Ok(match self {
            Self::List => Said::new(api.get("/queues").await?, show::queues),
            Self::Set { name, limits } => {
                let Limits { concurrency, per_node, per_key, rate, key_rate, ageing, hold } = limits;
                let limits = json!({
                    "concurrency": concurrency, "per_node": per_node, "per_key": per_key,
                    "rate": rate, "key_rate": key_rate, "ageing": ageing, "hold": hold,
                });
                Said::new(api.put(&path(&name, ""), limits).await?, |answer, _| {
                    vec![format!("the queue is {}", show::text(&answer["outcome"]))]
                })
            }
            Self::Remove { name } => Said::words(
                api.delete(&path(&name, "")).await?,
                "it has no limits any more, and is not paused",
            ),
            Self::Pause { name } => Said::words(
                api.post(&path(&name, "/pause"), json!({})).await?,
                "nothing of it begins until it is resumed",
            ),
            Self::Resume { name } => {
                Said::words(api.post(&path(&name, "/resume"), json!({})).await?, "its runs may begin")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_so_many_in_so_many_seconds() {
        assert_eq!(rate("100/1"), Ok(json!({"count": 100, "per": 1.0})));
        assert_eq!(rate("5/60s"), Ok(json!({"count": 5, "per": 60.0})));
        assert_eq!(rate("7"), Ok(json!({"count": 7, "per": 1.0})));
        assert!(rate("many").is_err() && rate("1/x").is_err());
    }
}
