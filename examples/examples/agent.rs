//! How do I write an agent that calls a model in a loop, and asks a person before it acts?
//!
//! ```sh
//! cargo run --example agent
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::prelude::*;

/// What the model wants next.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Wish {
    /// To know something.
    LookUp(String),
    /// To do something, which a person has to allow.
    Act(String),
    /// To answer.
    Say(String),
}

const ALLOWED: Event<bool> = Event::new("allowed");

/// Stands for a model that is asked over the network: it goes by what has been said so far.
async fn model(said: &[String]) -> Result<Wish> {
    Ok(match said.len() {
        1 => Wish::LookUp("the weather in Genoa".to_owned()),
        2 => Wish::Act("book the boat".to_owned()),
        _ => Wish::Say(format!("Done, after {} turns.", said.len())),
    })
}

/// Every call of the model, and everything that it has done, is a step: after a crash none is paid for again.
#[flow]
async fn agent(cx: &Flow, question: String) -> Result<String> {
    let mut said = vec![question];
    for turn in 1..=10 {
        cx.progress(f64::from(turn) / 10.0, said.last().map_or("", String::as_str))?;
        match cx.step("think", || model(&said)).timeout(Duration::from_secs(60)).await? {
            Wish::LookUp(what) => {
                let found =
                    cx.step("look up", || async { Ok::<_, Failure>(format!("{what}: sunny")) }).await?;
                said.push(found);
            }
            Wish::Act(what) => {
                let allowed = cx.event(ALLOWED).timeout(Duration::from_secs(3600)).await?;
                said.push(match allowed {
                    Some(true) => {
                        cx.step("act", || async { Ok::<_, Failure>(format!("done: {what}")) }).await?
                    }
                    _ => format!("not allowed: {what}"),
                });
            }
            Wish::Say(answer) => return Ok(format!("{} -> {answer}", said.join("; "))),
        }
    }
    Err(Failure::permanent("the model talks in circles"))
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(agent::workflow()).launch().await?;
    let run = engine.start(agent::workflow(), "Shall we sail?".to_owned()).await?;
    run.send(ALLOWED, &true).await?;
    println!("{}", run.await?);
    engine.stop().await?;
    Ok(())
}
