//! Graphs as pictures: Mermaid, DOT and JSON.

mod chart;

use std::{collections::HashSet, fmt::Write as _};

use serde_json::{Value, json};

use crate::{Definition, Graph, Task, TaskIx, format_duration};

/// The workflow as a Mermaid flowchart, top to bottom.
///
/// A rule is written on the edges from the dependencies that it names, which are dashed; a rule that names
/// none is written in the task. A task that runs once per element has a double border, and the output is
/// rounded. A state machine is drawn as a state diagram.
#[must_use]
pub fn to_mermaid(definition: &Definition) -> String {
    if let Some(chart) = &definition.chart {
        return chart::to_mermaid(chart);
    }
    let mut text = String::from("flowchart TD\n");
    for (at, task) in definition.tasks.iter().enumerate() {
        let label = label(definition, task, "<br/>", mermaid);
        let line = match shape(definition, at, task) {
            Shape::Plain => format!("    t{at}[\"{label}\"]"),
            Shape::Each => format!("    t{at}[[\"{label}\"]]"),
            Shape::Output => format!("    t{at}([\"{label}\"])"),
        };
        text += &line;
        text.push('\n');
    }
    for (from, to, rule) in edges(definition) {
        let arrow = match rule {
            Some(rule) => format!("-. \"{}\" .->", mermaid(&rule)),
            None => "-->".to_owned(),
        };
        writeln!(text, "    t{} {arrow} t{}", from.0, to.0).expect("writing to a string succeeds");
    }
    text
}

/// The workflow as a DOT graph for Graphviz, top to bottom.
///
/// A rule is written on the edges from the dependencies that it names, which are dashed; a rule that names
/// none is written in the task. A task that runs once per element has a double border, and the output is
/// bold. A state machine is drawn as its states, with those that a run ends in doubled.
#[must_use]
pub fn to_dot(definition: &Definition) -> String {
    if let Some(chart) = &definition.chart {
        return chart::to_dot(&definition.name, chart);
    }
    let mut text =
        format!("digraph \"{}\" {{\n    rankdir=TB;\n    node [shape=box];\n", dot(&definition.name));
    for (at, task) in definition.tasks.iter().enumerate() {
        let label = label(definition, task, "\\n", dot);
        let style = match shape(definition, at, task) {
            Shape::Plain => "",
            Shape::Each => ", peripheries=2",
            Shape::Output => ", style=bold",
        };
        writeln!(text, "    t{at} [label=\"{label}\"{style}];").expect("writing to a string succeeds");
    }
    for (from, to, rule) in edges(definition) {
        let label = rule.map(|rule| format!(" [label=\"{}\", style=dashed]", dot(&rule))).unwrap_or_default();
        writeln!(text, "    t{} -> t{}{label};", from.0, to.0).expect("writing to a string succeeds");
    }
    text + "}\n"
}

/// The workflow as JSON, for other programs to draw: its tasks with their levels, and its edges.
#[must_use]
pub fn to_json(definition: &Definition) -> Value {
    let graph = Graph::of(definition);
    let name = |at: TaskIx| &*definition.task(at).name;
    let tasks: Vec<Value> = definition
        .indices()
        .map(|at| {
            let task = definition.task(at);
            json!({
                "name": &*task.name,
                "level": graph.level(at),
                "dependencies": task.dependencies.iter().map(|dependency| name(*dependency)).collect::<Vec<_>>(),
                "rule": task.rule.as_ref().map(ToString::to_string),
                "for_each": task.for_each.map(|each| json!({"over": name(each.over), "limit": each.limit})),
                "attempts": task.retry.attempts,
                "timeout": task.timeout.map(format_duration),
                "allow_failure": task.allow_failure,
            })
        })
        .collect();
    let edges: Vec<Value> = edges(definition)
        .map(|(from, to, rule)| json!({"from": name(from), "to": name(to), "rule": rule}))
        .collect();
    json!({
        "workflow": &*definition.name,
        "version": &*definition.version,
        "description": definition.description,
        "output": definition.output.map(name),
        "tasks": tasks,
        "edges": edges,
        "chart": definition.chart,
    })
}

/// How a task is drawn.
enum Shape {
    Plain,
    Each,
    Output,
}

fn shape(definition: &Definition, at: usize, task: &Task) -> Shape {
    if task.for_each.is_some() {
        Shape::Each
    } else if definition.output == Some(at.into()) {
        Shape::Output
    } else {
        Shape::Plain
    }
}

/// The task's name, what it runs for each of, and its rule.
fn label(definition: &Definition, task: &Task, line: &str, escape: fn(&str) -> String) -> String {
    let mut lines = vec![escape(&task.name)];
    if let Some(each) = task.for_each {
        let over = &definition.task(each.over).name;
        let limit = each.limit.map(|limit| format!(", {limit} at once")).unwrap_or_default();
        lines.push(escape(&format!("for each of {over}{limit}")));
    }
    if let Some(rule) = task.rule.as_ref().filter(|rule| rule.tasks().is_empty()) {
        lines.push(escape(&format!("when {rule}")));
    }
    lines.join(line)
}

/// Every edge from a dependency to what waits for it, labelled with the rule where it names the dependency.
fn edges(definition: &Definition) -> impl Iterator<Item = (TaskIx, TaskIx, Option<String>)> {
    definition.indices().flat_map(move |to| {
        let task = definition.task(to);
        let rule = task.rule.as_ref().map(ToString::to_string);
        let named: HashSet<&str> = task.rule.iter().flat_map(|rule| rule.tasks()).collect();
        task.dependencies.iter().map(move |from| {
            (*from, to, rule.clone().filter(|_| named.contains(&*definition.task(*from).name)))
        })
    })
}

/// Text within double quotes in Mermaid, where only entities are safe.
fn mermaid(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '<' | '>' | '&' | '#' | '`' | ';' | '\\' | '\n' | '\r' => {
                write!(safe, "#{};", u32::from(letter)).expect("writing to a string succeeds");
            }
            letter => safe.push(letter),
        }
    }
    safe
}

/// Text within double quotes in DOT.
fn dot(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\\' => safe.extend(['\\', letter]),
            '\n' => safe.push_str("\\n"),
            '\r' => {}
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Draft, Output, Rule, TaskDraft};

    fn etl() -> Definition {
        let nasty = Rule::context("a\"b<c>\\").eq("x\ny#;`&");
        Draft::new("etl")
            .task(TaskDraft::new("extract"))
            .task(TaskDraft { limit: Some(8), ..TaskDraft::new("enrich").for_each("extract") })
            .task(TaskDraft::new("load").after(["enrich"]))
            .task(TaskDraft::new("report").after(["load", "extract"]).rule(Rule::failed("load")))
            .task(TaskDraft::new("end").after(["load"]).rule(nasty))
            .output(Output::Named("load".to_owned()))
            .check()
            .unwrap()
    }

    #[test]
    fn mermaid_shows_tasks_edges_and_rules_and_escapes_everything() {
        let expected = r##"flowchart TD
    t0["extract"]
    t1[["enrich<br/>for each of extract, 8 at once"]]
    t2(["load"])
    t3["report"]
    t4["end<br/>when context(#34;a#92;#34;b#60;c#62;#92;#92;#34;) == #34;x#92;ny#35;#59;#96;#38;#34;"]
    t0 --> t1
    t1 --> t2
    t2 -. "failed(load)" .-> t3
    t0 --> t3
    t2 --> t4
"##;
        assert_eq!(to_mermaid(&etl()), expected);
    }

    #[test]
    fn dot_shows_tasks_edges_and_rules_and_escapes_everything() {
        let expected = r#"digraph "etl" {
    rankdir=TB;
    node [shape=box];
    t0 [label="extract"];
    t1 [label="enrich\nfor each of extract, 8 at once", peripheries=2];
    t2 [label="load", style=bold];
    t3 [label="report"];
    t4 [label="end\nwhen context(\"a\\\"b<c>\\\\\") == \"x\\ny#;`&\""];
    t0 -> t1;
    t1 -> t2;
    t2 -> t3 [label="failed(load)", style=dashed];
    t0 -> t3;
    t2 -> t4;
}
"#;
        assert_eq!(to_dot(&etl()), expected);
    }

    #[test]
    fn json_has_levels_and_edges_by_name() {
        let json = to_json(&etl());
        assert_eq!(json["workflow"], "etl");
        assert_eq!(json["output"], "load");
        let levels: Vec<_> =
            json["tasks"].as_array().unwrap().iter().map(|task| task["level"].clone()).collect();
        assert_eq!(levels, [0, 1, 2, 3, 3]);
        assert_eq!(json["tasks"][1]["for_each"], json!({"over": "extract", "limit": 8}));
        assert_eq!(json["tasks"][3]["dependencies"], json!(["load", "extract"]));
        assert_eq!(json["edges"][2], json!({"from": "load", "to": "report", "rule": "failed(load)"}));
        assert_eq!(json["edges"][3], json!({"from": "extract", "to": "report", "rule": null}));
    }
}
