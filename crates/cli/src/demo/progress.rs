//! What happens in the shop, line by line.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};

use crate::{Output, api::Api, show::text, trouble::Trouble, watch::Form};

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(700);

/// Says what became of runs, until that cannot be found out.
pub(super) async fn tell(api: &Api, form: Form, output: &mut Output) -> Result<(), Trouble> {
    let mut seen = Seen::default();
    seen.news(&api.get("/runs?limit=500").await?);
    loop {
        tokio::time::sleep(EVERY).await;
        for run in seen.news(&api.get("/runs?limit=200").await?) {
            output.line(&match form {
                Form::Json => json!({"run": run}).to_string(),
                Form::ForPeople => line(&run, output),
            })?;
        }
    }
}

/// How the newest runs stood when it was last looked.
#[derive(Default)]
struct Seen(HashMap<String, String>);

impl Seen {
    /// The runs that stand otherwise than before, oldest first, if that is worth a line.
    fn news(&mut self, answer: &Value) -> Vec<Value> {
        let runs: Vec<&Value> = answer["runs"].as_array().into_iter().flatten().collect();
        let stands = |run: &Value| format!("{} {}", text(&run["state"]), text(&run["waits_for"]));
        let is_news = |run: &&&Value| self.0.get(&text(&run["id"])) != Some(&stands(run)) && is_told(run);
        let news = runs.iter().rev().filter(is_news).map(|run| (*run).clone()).collect();
        self.0 = runs.iter().map(|run| (text(&run["id"]), stands(run))).collect();
        news
    }
}

/// Whether people want to know: how runs ended, and what waits for somebody.
fn is_told(run: &Value) -> bool {
    let waits = run["waits_for"].as_str().is_some_and(|what| what.starts_with("the event"));
    waits || !run["ended_at"].is_null() || run["state"] == "undoing"
}

fn line(run: &Value, output: &Output) -> String {
    let name = run["key"].as_str().map_or_else(|| text(&run["id"]), str::to_owned);
    let state = match run["ended_at"].is_null() {
        true => format!("{}: it waits for {}", output.paint.state("waiting"), text(&run["waits_for"])),
        false => output.paint.state(&text(&run["state"])),
    };
    format!("  {:<14} {name:<20} {state}", text(&run["workflow"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_been_told_is_not_told_again() {
        let run = |state: &str, waits: Value, ended: Value| json!({"id": "1", "state": state, "waits_for": waits, "ended_at": ended});
        let mut seen = Seen::default();
        let mut told = |run: Value| seen.news(&json!({"runs": [run]})).len();
        assert_eq!(told(run("running", Value::Null, Value::Null)), 0);
        assert_eq!(told(run("suspended", "the event `approved`".into(), Value::Null)), 1);
        assert_eq!(told(run("suspended", "the event `approved`".into(), Value::Null)), 0);
        assert_eq!(told(run("completed", Value::Null, "now".into())), 1);
        assert_eq!(told(run("completed", Value::Null, "now".into())), 0);
    }
}
