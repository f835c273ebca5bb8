//! How does a task write to my own tables exactly once?

use rusqlite::Connection;
use windlass::{prelude::*, sqlite::Transaction};

#[workflow]
mod transfer {
    use super::*;

    /// Takes from one account and gives to the other. Windlass commits both together with the record of this step:
    /// a crash at any instant leaves all of it or nothing, and the step never runs again once it is there.
    #[task(retry(attempts = 2, delay = "10ms"))]
    pub fn book(input: (i64, bool), cx: &Cx, tx: &Transaction) -> Result<()> {
        let (amount, stumbles) = input;
        let take = "UPDATE account SET balance = balance - ?1 WHERE owner = 'alice'";
        let give = "UPDATE account SET balance = balance + ?1 WHERE owner = 'bob'";
        tx.execute(take, [amount])?;
        if stumbles && cx.attempt() == 1 {
            // What was taken is undone with the attempt.
            return Err("the light went out".into());
        }
        tx.execute(give, [amount])?;
        tx.execute("INSERT INTO transfer (run) VALUES (?1)", [cx.run_id().to_string()])?;
        let left: i64 =
            tx.query_row("SELECT balance FROM account WHERE owner = 'alice'", [], |row| row.get(0))?;
        if left < 0 {
            return Err(Failure::permanent("not enough money"));
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("bank.db");
    let engine = Engine::open(path.display().to_string()).workflow(transfer::workflow()).launch().await?;

    // The application's own tables, in the same file.
    let bank = Connection::open(&path)?;
    bank.execute_batch(
        "CREATE TABLE account (owner TEXT PRIMARY KEY, balance INTEGER);
         CREATE TABLE transfer (run TEXT PRIMARY KEY);
         INSERT INTO account VALUES ('alice', 100), ('bob', 100);",
    )?;

    engine.start(transfer::workflow(), (30, false)).await?.await?;
    println!("{}", report(&bank)?);

    if engine.start(transfer::workflow(), (500, false)).await?.await.is_err() {
        println!("not enough money: {}", report(&bank)?);
    }

    engine.start(transfer::workflow(), (50, true)).await?.await?;
    println!("the second attempt counts alone: {}", report(&bank)?);
    engine.stop().await?;
    Ok(())
}

fn report(bank: &Connection) -> rusqlite::Result<String> {
    let balance = |owner: &str| {
        let sql = "SELECT balance FROM account WHERE owner = ?1";
        bank.query_row(sql, [owner], |row| row.get::<_, i64>(0))
    };
    let transfers: i64 = bank.query_row("SELECT count(*) FROM transfer", [], |row| row.get(0))?;
    let plural = if transfers == 1 { "" } else { "s" };
    Ok(format!("alice {}, bob {} after {transfers} transfer{plural}", balance("alice")?, balance("bob")?))
}
