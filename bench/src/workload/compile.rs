//! A clean release build of a first program with default features.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use tokio::process::Command;

use super::Bench;
use crate::{Result, report::Line};

const SECONDS: f64 = 90.0;

const PROGRAM: &str = r#"use windlass::prelude::*;

#[workflow]
mod hello {
    use super::*;

    #[task]
    pub async fn greet(input: String) -> Result<String> {
        Ok(format!("Hello, {input}!"))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(hello::workflow()).launch().await?;
    println!("{}", engine.start(hello::workflow(), "world".to_string()).await?.await?);
    engine.stop().await?;
    Ok(())
}
"#;

/// Builds it, runs it, and counts the crates in its tree.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let directory = bench.ground.directory()?;
    let root = project();
    write(&root, directory.path())?;
    // The crates are downloaded first: a network is not what is measured.
    cargo(directory.path(), &["fetch"]).await?;
    let begin = Instant::now();
    cargo(directory.path(), &["build", "--release", "--offline"]).await?;
    let took = begin.elapsed().as_secs_f64();
    let printed = cargo(directory.path(), &["run", "--release", "--offline", "--quiet"]).await?;
    if printed.trim() != "Hello, world!" {
        return Err(format!("the program printed `{}`", printed.trim()).into());
    }
    let arguments = ["tree", "--offline", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"];
    let tree = cargo(directory.path(), &arguments).await?;
    let crates: BTreeSet<&str> =
        tree.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty()).collect();
    // Its own crate does not count.
    let crates = crates.len().saturating_sub(1);
    Ok(bench
        .line("seconds < 90 on two cores")
        .also("seconds", took)
        .also("crates", crates as f64)
        .holds(took < SECONDS))
}

/// The checked-out project that this program was built from.
fn project() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

fn write(root: &Path, directory: &Path) -> Result<()> {
    let windlass = root.join("crates/engine");
    let manifest = format!(
        "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\nwindlass = {{ path = {windlass:?} }}\n"
    );
    fs::write(directory.join("Cargo.toml"), manifest)?;
    // The versions that we test with, not the newest of the day.
    fs::copy(root.join("Cargo.lock"), directory.join("Cargo.lock"))?;
    fs::create_dir(directory.join("src"))?;
    fs::write(directory.join("src/main.rs"), PROGRAM)?;
    Ok(())
}

async fn cargo(directory: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(directory).env("CARGO_TARGET_DIR", directory.join("target"));
    let output = command.output().await?;
    if output.status.success() {
        Ok(String::from_utf8(output.stdout)?)
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("cargo {} failed ({}):\n{said}", arguments.join(" "), output.status).into())
    }
}
