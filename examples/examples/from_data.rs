//! How do I build a workflow at run time, from a configuration?

use serde::Deserialize;
use serde_json::{Value, json};
use windlass::prelude::*;

#[derive(Deserialize)]
struct Config {
    name: String,
    tasks: Vec<TaskConfig>,
}

#[derive(Deserialize)]
struct TaskConfig {
    name: String,
    #[serde(default)]
    after: Vec<String>,
    /// When to run: the JSON form of a rule.
    rule: Option<Value>,
    add: i64,
}

fn build(config: Config) -> Result<Workflow> {
    let mut builder = Workflow::builder(config.name);
    for TaskConfig { name, after, rule, add } in config.tasks {
        let dependencies = after.clone();
        let mut task = Task::new(name, move |cx| {
            let dependencies = dependencies.clone();
            async move {
                let mut sum = add;
                if dependencies.is_empty() {
                    sum += cx.input::<i64>()?;
                }
                for dependency in &dependencies {
                    // A dependency that was skipped adds nothing.
                    sum += cx.outcome::<i64>(dependency)?.completed().unwrap_or(0);
                }
                cx.context().set("sum", sum)?;
                Ok(sum)
            }
        })
        .after(after);
        if let Some(rule) = rule {
            task = task.rule(Rule::from_json(&rule)?);
        }
        builder = builder.task(task);
    }
    Ok(builder.output("total").build()?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let config = json!({
        "name": "from-config",
        "tasks": [
            { "name": "base", "add": 1 },
            { "name": "bonus", "after": ["base"], "add": 100,
              "rule": { "type": "ContextValue", "key": "sum", "operator": "GreaterThan", "value": 10 } },
            { "name": "total", "after": ["base", "bonus"], "add": 0, "rule": { "type": "Always" } },
        ],
    });
    let workflow = build(serde_json::from_value(config)?)?;
    println!("{}", workflow.to_mermaid());

    let engine = Engine::open("sqlite::memory:").workflow(&workflow).launch().await?;
    for input in [5, 50] {
        let run = engine.start(workflow.clone(), json!(input)).await?;
        println!("{input} gives {}", run.await?);
    }
    engine.stop().await?;

    // Everything that is wrong with a graph is told at once.
    let broken = json!({
        "name": "broken",
        "tasks": [
            { "name": "base", "after": ["totl"], "add": 1 },
            { "name": "total", "after": ["base", "total"], "add": 1 },
        ],
    });
    if let Err(problems) = build(serde_json::from_value(broken)?) {
        println!("{problems}");
    }
    Ok(())
}
