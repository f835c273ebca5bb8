//! What the API answers, for people.

use serde_json::Value;

use crate::{paint::Paint, table::Table};

/// A text of an answer; a dash where there is none.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => one_line(text),
        other => other.to_string(),
    }
}

/// What somebody else has written, on one line and without anything that a terminal would obey.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

pub(crate) fn each<'a>(answer: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    answer[list].as_array().into_iter().flatten()
}

pub(crate) fn runs(answer: &Value, paint: Paint) -> Vec<String> {
    let mut table = Table::new(&["run", "workflow", "state", "created", "key", "waits for"]);
    for run in each(answer, "runs") {
        let state = paint.state(&text(&run["state"]));
        let rest = ["created_at", "key", "waits_for"].map(|field| text(&run[field]));
        table.row([text(&run["id"]), text(&run["workflow"]), state].into_iter().chain(rest).collect());
    }
    let more = answer["next"].as_str().map(|next| format!("more: --after {next}"));
    let lines = match (table.lines(), &more) {
        (lines, _) if lines.len() > 1 => lines,
        (_, Some(_)) => vec!["no run fits among those that were looked at so far".to_owned()],
        (_, None) => vec!["no run fits".to_owned()],
    };
    lines.into_iter().chain(more).collect()
}

pub(crate) fn run(answer: &Value, paint: Paint) -> Vec<String> {
    let mut lines = vec![format!(
        "{} {} {}",
        text(&answer["workflow"]),
        text(&answer["id"]),
        paint.state(&text(&answer["state"]))
    )];
    let facts = [
        "key",
        "queue",
        "priority",
        "version",
        "created_at",
        "ended_at",
        "waits_for",
        "parent",
        "forked_from",
    ];
    for fact in facts.iter().filter(|fact| !answer[**fact].is_null()) {
        lines.push(format!("  {}: {}", fact.replace('_', " "), text(&answer[*fact])));
    }
    if let Some(words) = answer["verdict"]["words"].as_str() {
        lines.push(format!("  {}", one_line(words)));
    }
    for (list, title) in [("tasks", "task"), ("calls", "call")] {
        let mut table = Table::new(&[title, "state", "attempts", "error"]);
        for part in each(answer, list) {
            let attempts = part["attempts"]
                .as_array()
                .map_or_else(|| text(&part["attempts"]), |all| all.len().to_string());
            let state = paint.state(&text(&part["state"]));
            table.row(vec![text(&part["name"]), state, attempts, text(&part["failure"]["message"])]);
        }
        let rows = table.lines();
        if rows.len() > 1 {
            lines.push(String::new());
            lines.extend(rows);
        }
    }
    lines
}

pub(crate) fn schedules(answer: &Value, paint: Paint) -> Vec<String> {
    let mut table = Table::new(&["schedule", "workflow", "when", "state", "next run"]);
    for schedule in each(answer, "schedules") {
        let [name, workflow, words, next] =
            ["name", "workflow", "words", "next_run"].map(|field| text(&schedule[field]));
        table.row(vec![name, workflow, words, schedule_state(schedule, paint), next]);
    }
    match table.lines() {
        lines if lines.len() == 1 => vec!["no schedule was declared".to_owned()],
        lines => lines,
    }
}

fn schedule_state(schedule: &Value, paint: Paint) -> String {
    match schedule["paused"].is_null() {
        true => paint.state(&text(&schedule["state"]["kind"])),
        false => paint.state("paused"),
    }
}

pub(crate) fn schedule(answer: &Value, paint: Paint) -> Vec<String> {
    let (name, state) = (text(&answer["name"]), schedule_state(answer, paint));
    let mut lines = vec![format!("{name} {state}: {} {}", text(&answer["workflow"]), text(&answer["words"]))];
    for fact in
        ["paused", "trouble"].iter().filter(|fact| answer[**fact].as_str().is_some_and(|why| !why.is_empty()))
    {
        lines.push(format!("  {fact}: {}", text(&answer[*fact])));
    }
    lines.extend(each(answer, "next_times").map(|time| format!("  next: {}", text(time))));
    lines.extend(
        each(answer, "history").map(|past| format!("  {} {}", text(&past["at"]), text(&past["words"]))),
    );
    lines
}

pub(crate) fn triggers(answer: &Value, paint: Paint) -> Vec<String> {
    let mut table = Table::new(&["trigger", "workflow", "when", "state", "fired", "next"]);
    for trigger in each(answer, "triggers") {
        let [name, workflow, words, fired, next] =
            ["name", "workflow", "words", "fired", "next"].map(|field| text(&trigger[field]));
        table.row(vec![name, workflow, words, schedule_state(trigger, paint), fired, next]);
    }
    match table.lines() {
        lines if lines.len() == 1 => vec!["no engine was given a trigger".to_owned()],
        lines => lines,
    }
}

pub(crate) fn trigger(answer: &Value, paint: Paint) -> Vec<String> {
    let (name, state) = (text(&answer["name"]), schedule_state(answer, paint));
    let mut lines = vec![format!("{name} {state}: {} {}", text(&answer["workflow"]), text(&answer["words"]))];
    for fact in ["fired", "last_fired", "next", "paused", "trouble"] {
        if !answer[fact].is_null() && answer[fact] != "" {
            lines.push(format!("  {}: {}", fact.replace('_', " "), text(&answer[fact])));
        }
    }
    lines
}

pub(crate) fn queues(answer: &Value, paint: Paint) -> Vec<String> {
    let mut table = Table::new(&["queue", "state", "waiting", "running", "limits"]);
    for queue in each(answer, "queues") {
        let state = if queue["paused"] == true { "paused" } else { "open" };
        let limits = queue["limits"].as_object().into_iter().flatten();
        let limits: Vec<String> = limits
            .filter(|(_, value)| !value.is_null() && **value != false)
            .map(|(name, value)| match value["count"].as_u64() {
                Some(count) => format!("{name} {count} in {} s", value["per"].as_f64().unwrap_or_default()),
                None => format!("{name} {value}"),
            })
            .collect();
        let [name, depth, running] = ["name", "depth", "running"].map(|field| text(&queue[field]));
        table.row(vec![name, paint.state(state), depth, running, limits.join(", ")]);
    }
    match table.lines() {
        lines if lines.len() == 1 => vec!["no queue was declared: none has limits".to_owned()],
        lines => lines,
    }
}

pub(crate) fn nodes(answer: &Value, paint: Paint) -> Vec<String> {
    let mut table = Table::new(&["process", "host", "pid", "state", "running", "queues", "heard of"]);
    for node in each(answer, "nodes") {
        let name = if node["name"].is_null() { text(&node["id"]) } else { text(&node["name"]) };
        let queues: Vec<String> = each(node, "queues").map(text).collect();
        table.row(vec![
            name,
            text(&node["host"]),
            text(&node["pid"]),
            paint.state(&text(&node["health"])),
            text(&node["running"]),
            queues.join(", "),
            text(&node["heartbeat_at"]),
        ]);
    }
    match table.lines() {
        lines if lines.len() == 1 => vec!["no process runs an engine on this database".to_owned()],
        lines => lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_give_orders_to_the_terminal() {
        assert_eq!(text(&Value::from("a\x1b[2Jb\nc")), "a [2Jb c");
    }
}
