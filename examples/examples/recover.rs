//! What happens when the process dies in the middle?
//!
//! This program starts itself as a worker. The worker kills itself while `second` is running. Started again, it
//! goes on: `first` is not repeated, `second` is.

use std::{path::Path, process::Command};

use windlass::prelude::*;

#[workflow]
mod three_steps {
    use super::*;

    #[task]
    pub async fn first() -> Result<u32> {
        println!("  first is running");
        Ok(1)
    }

    #[task]
    pub async fn second(first: u32) -> Result<u32> {
        println!("  second is running");
        if std::env::var_os("DIE").is_some() {
            // As hard as kill -9: nothing is tidied up.
            std::process::abort();
        }
        Ok(first + 1)
    }

    #[task]
    pub async fn third(second: u32) -> Result<u32> {
        println!("  third is running");
        Ok(second + 1)
    }
}

#[tokio::main]
async fn worker(file: &str) -> Result<()> {
    let engine = Engine::open(format!("sqlite://{file}")).workflow(three_steps::workflow()).launch().await?;
    // The same key gives the same run, whichever process asks.
    let mut run = engine.start(three_steps::workflow(), ()).key("only-once").await?;
    println!("  the result is {}", (&mut run).await?);
    println!("  taken over from a dead process: {} time(s)", run.status().await?.recoveries);
    engine.stop().await?;
    Ok(())
}

fn start_worker(file: &Path, die: bool) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(file);
    if die {
        command.env("DIE", "yes");
    }
    let status = command.status()?;
    println!("  the worker ended: {}", if status.success() { "in peace" } else { "it was killed" });
    Ok(())
}

fn main() -> Result<()> {
    if let Some(file) = std::env::args().nth(1) {
        return worker(&file);
    }
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("recover.db");
    println!("a worker starts");
    start_worker(&file, true)?;
    println!("another worker starts");
    start_worker(&file, false)
}
