//! The connection breaks while a commit is on its way: what became of it is found out before anything is done again.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use windlass::{postgres::Transaction, prelude::*};

use crate::{
    database::{App, Database},
    proxy::{Cut, Proxy},
};

/// How many times bodies were executed.
#[derive(Default)]
struct Executed(AtomicU32);

#[workflow(output = last)]
mod pay {
    use super::*;

    #[task]
    pub async fn charge(cx: &Cx, tx: &Transaction, app: Res<App>, count: Res<Executed>) -> Result<u32> {
        tx.execute(&app.add(), &[&cx.run_id().to_string(), &"charge"]).await?;
        Ok(count.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    #[task]
    pub async fn last(charge: u32) -> Result<u32> {
        Ok(charge)
    }
}

pub async fn behind_a_proxy() -> (Database, Proxy) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut database = Database::through(|server| {
        sender.send(server.clone()).unwrap();
        server
    })
    .await;
    let server = receiver.recv().unwrap();
    let place = server.split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
    let proxy = Proxy::start(place.clone()).await;
    database.url = database.url.replace(&place, &format!("127.0.0.1:{}", proxy.port()));
    // The proxy has to read what is said.
    database.url += "&sslmode=disable";
    (database, proxy)
}

/// Loses the commits of some runs so, and sees them to their ends. Answers how many bodies were executed.
async fn lose(cut: Cut, runs: i64) -> Result<u32> {
    let (database, proxy) = behind_a_proxy().await;
    let engine = database.engine().workflow(pay::workflow()).resource(Executed::default()).launch().await?;
    let mut executed = 0;
    for number in 1..=runs {
        proxy.cut(cut);
        let run = engine.start(pay::workflow(), ()).await?;
        let id = run.id();
        executed = run.await?;
        assert!(proxy.has_cut());
        assert_eq!((database.entries(id).await, database.records(id, "charge").await), (1, 1));
        assert_eq!(database.all_entries().await, number);
    }
    engine.stop().await?;
    Ok(executed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_lost_counts_and_is_not_done_again() -> Result<()> {
    assert_eq!(lose(Cut::After, 20).await?, 20);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_never_arrived_is_done_again_and_counts_once() -> Result<()> {
    assert_eq!(lose(Cut::Before, 20).await?, 40);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_arrives_late_is_waited_for_before_anything_is_done_again() -> Result<()> {
    let (database, proxy) = behind_a_proxy().await;
    let engine = database.engine().workflow(pay::workflow()).resource(Executed::default()).launch().await?;
    proxy.cut(Cut::Late);
    let run = engine.start(pay::workflow(), ()).await?;
    let (id, ended) = (run.id(), tokio::spawn(run));
    // Whoever asks for the record now waits for the lock of the transaction whose commit is on its way.
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%tx_{}%FOR UPDATE%'",
        database.schema
    );
    let asked = async {
        while database.client.query_one(&waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(4), asked).await.expect("the fate is asked for");
    assert_eq!(database.entries(id).await, 0, "the commit has not arrived");
    proxy.deliver();
    assert_eq!(ended.await.unwrap()?, 1, "the body was executed once");
    assert_eq!((database.entries(id).await, database.records(id, "charge").await), (1, 1));
    engine.stop().await?;
    Ok(())
}
