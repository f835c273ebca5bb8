//! How does a Rust program that uses sqlx start runs in a transaction of its own?
//!
//! It calls the SQL function `windlass.start` there, as a program in any language would. An order that is committed runs
//! once, and one that is rolled back never runs.

use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, PgTransaction};
use windlass::prelude::*;
use windlass_cluster::Cluster;

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: i32,
    total: i32,
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

/// Takes an order, and starts what is to be done about it: both are there when the transaction commits, or neither.
async fn take(transaction: &mut PgTransaction<'_>, order: &Order) -> Result<()> {
    sqlx::query("INSERT INTO orders (id, total) VALUES ($1, $2)")
        .bind(order.id)
        .bind(order.total)
        .execute(&mut **transaction)
        .await?;
    // The same key gives the same run, so an order that is taken twice is charged once.
    sqlx::query("SELECT windlass.start('order', $1, key => $2)")
        .bind(serde_json::to_string(order)?)
        .bind(format!("order-{}", order.id))
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    // A database of our own on a server that is there, or on one that is gone with this program.
    let cluster = Cluster::find()?;
    let name = format!("sqlx_shop_{}", std::process::id());
    let mut server = PgConnection::connect(cluster.url()).await?;
    sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut server).await?;

    let shown = shop(&cluster.url().replace("/postgres", &format!("/{name}"))).await;
    sqlx::raw_sql(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).execute(&mut server).await?;
    shown
}

async fn shop(url: &str) -> Result<()> {
    // The first engine on a database makes the functions.
    let engine = Engine::open(url).resource(Till::default()).workflow(order::workflow()).launch().await?;
    let pool = PgPool::connect(url).await?;
    sqlx::query("CREATE TABLE orders (id integer PRIMARY KEY, total integer NOT NULL)")
        .execute(&pool)
        .await?;

    let mut transaction = pool.begin().await?;
    take(&mut transaction, &Order { id: 17, total: 420 }).await?;
    transaction.commit().await?;

    // The customer changed their mind: neither the order nor its run was ever there.
    let mut transaction = pool.begin().await?;
    take(&mut transaction, &Order { id: 18, total: 99 }).await?;
    transaction.rollback().await?;

    let paid = engine.run_by_key(&order::workflow(), "order-17").await?.ok_or("order 17 has no run")?;
    println!("order 17 is paid with receipt {}", paid.await?);
    if engine.run_by_key(&order::workflow(), "order-18").await?.is_none() {
        println!("order 18 was rolled back, and has no run");
    }
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&pool).await?;
    println!("orders: {orders}; runs: {}", engine.runs().list().await?.len());
    pool.close().await;
    engine.stop().await?;
    Ok(())
}
