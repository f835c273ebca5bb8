//! How does a program in any language start runs in a transaction of its own?
//!
//! It calls the SQL function `windlass.start` on the database that the engine uses. Here `psql` does that with
//! `data/orders.sql`: an order that is committed runs once, and one that is rolled back never runs.

use std::{
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use serde::{Deserialize, Serialize};
use windlass::prelude::*;
use windlass_cluster::Cluster;

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: u32,
    total: u32,
}

/// Numbers receipts, so that a second charge would be seen.
#[derive(Default)]
struct Till(AtomicU32);

#[workflow]
mod order {
    use super::*;

    #[task]
    pub async fn charge(input: &Order, till: Res<Till>) -> Result<u32> {
        println!("charged {} for order {}", input.total, input.id);
        Ok(till.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Has `psql` do something on a database.
fn psql(url: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(windlass_cluster::program("psql")?);
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", url]);
    let output = command.args(arguments).output()?;
    if !output.status.success() {
        return Err(Failure::permanent(String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().replace('\n', ", "))
}

#[tokio::main]
async fn main() -> Result<()> {
    // A database of our own on a server that is there, or on one that is gone with this program.
    let cluster = Cluster::find()?;
    let name = format!("shop_{}", std::process::id());
    psql(cluster.url(), &["--command", &format!("CREATE DATABASE {name}")])?;
    let url = cluster.url().replace("/postgres", &format!("/{name}"));

    let shown = shop(&url).await;
    psql(cluster.url(), &["--command", &format!("DROP DATABASE {name} WITH (FORCE)")])?;
    shown
}

async fn shop(url: &str) -> Result<()> {
    // The first engine on a database makes the functions.
    let engine = Engine::open(url).resource(Till::default()).workflow(order::workflow()).launch().await?;
    psql(url, &["--file", concat!(env!("CARGO_MANIFEST_DIR"), "/data/orders.sql")])?;

    let paid = engine.run_by_key(&order::workflow(), "order-17").await?.ok_or("order 17 has no run")?;
    println!("order 17 is paid with receipt {}", paid.await?);
    if engine.run_by_key(&order::workflow(), "order-18").await?.is_none() {
        println!("order 18 was rolled back, and has no run");
    }
    let runs = psql(url, &["--command", "SELECT convert_from(input, 'UTF8')::json->'id' FROM windlass.run"])?;
    println!("orders: {}; runs: {runs}", psql(url, &["--command", "SELECT id FROM orders"])?);
    engine.stop().await?;
    Ok(())
}
