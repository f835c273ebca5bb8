//! How do several processes share one SQLite file?
//!
//! This program starts itself twice as a worker, and then starts runs without running any itself. Nobody is told
//! who does what: each worker claims what it has room for.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    time::Duration,
};

use windlass::prelude::*;

#[workflow]
mod shared {
    use super::*;

    #[task]
    pub async fn work(input: u32) -> Result<(u32, u32)> {
        tokio::time::sleep(Duration::from_millis(40)).await;
        Ok((input, std::process::id()))
    }
}

/// Works until its standard input is closed.
async fn worker(url: &str) -> Result<()> {
    let engine = Engine::open(url).max_runs(2).workflow(shared::workflow()).launch().await?;
    println!("ready");
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    engine.stop().await?;
    Ok(())
}

fn start_worker(url: &str) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command.arg(url).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    Ok(child)
}

#[tokio::main]
async fn main() -> Result<()> {
    if let Some(url) = std::env::args().nth(1) {
        return worker(&url).await;
    }
    let dir = tempfile::tempdir()?;
    let url = format!("sqlite://{}", dir.path().join("shared.db").display());
    let mut workers = [start_worker(&url)?, start_worker(&url)?];

    // A client starts, awaits and steers runs. It needs no engine in its process.
    let client = Client::connect(&url).await?;
    println!("{} processes run an engine on the file", client.nodes().await?.len());
    let mut runs = Vec::new();
    for number in 0..40 {
        runs.push(client.start(shared::workflow(), number).await?);
    }
    let mut shares: BTreeMap<u32, usize> = BTreeMap::new();
    for run in runs {
        let (_, process) = run.await?;
        *shares.entry(process).or_default() += 1;
    }
    println!("{} runs, done by {} processes", shares.values().sum::<usize>(), shares.len());

    for worker in &mut workers {
        drop(worker.stdin.take());
        println!("a worker stopped: {}", worker.wait()?);
    }
    Ok(())
}
