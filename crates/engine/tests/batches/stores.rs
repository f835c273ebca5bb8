//! Batches on real databases, in real time.

use windlass::{Client, batch::Declared, prelude::*};

use crate::world::*;

/// Makes two tests of each of these, which take a URL.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        #[cfg(feature = "sqlite")]
        mod in_a_file {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() -> windlass::Result<()> {
                    let dir = tempfile::tempdir()?;
                    super::$name(format!("sqlite://{}", dir.path().join("app.db").display())).await
                }
            )*
        }

        #[cfg(feature = "postgres")]
        mod on_postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() -> windlass::Result<()> {
                    let cluster = windlass_cluster::Cluster::find().expect("a cluster is there");
                    let schema = format!("batches_{}_{}", std::process::id(), stringify!($name));
                    super::$name(format!("{}?schema={}", cluster.url(), &schema[..schema.len().min(60)])).await
                }
            )*
        }
    };
}

on_both!(each_item_is_in_one_run_whoever_adds_it, a_client_steers_what_an_engine_keeps);

async fn each_item_is_in_one_run_whoever_adds_it(url: String) -> Result<()> {
    let diary = Diary::default();
    let (one, two) = tokio::try_join!(
        with_index(Engine::open(&url), &diary).launch(),
        with_index(Engine::open(&url), &diary).launch(),
    )?;
    let client = Client::connect(&url).await?;
    client.batch("index", index::workflow()).size(50).age(millis(200)).await?;
    let mut adding = tokio::task::JoinSet::new();
    for number in 0..8 {
        let batches = [one.batches(), two.batches(), client.batches()][number as usize % 3].clone();
        adding.spawn(async move {
            let index = batches.get("index").await?;
            for item in 0..60_u32 {
                let item = number * 100 + item;
                if item % 3 == 0 {
                    index.add(item).key(item.to_string()).await?
                } else {
                    index.add(item).await?
                };
            }
            index.add_many(number * 100 + 60..number * 100 + 100).await?;
            Ok::<_, Failure>(())
        });
    }
    while let Some(added) = adding.join_next().await {
        added??;
    }
    until_taken(&one, "index", 800).await?;
    let inputs = inputs(&two).await?;
    assert_each_once(&inputs, 800);
    assert!(inputs.iter().all(|input| input.len() <= 50));
    assert!(one.runs().queue("windlass").list().await?.is_empty(), "what keeps it is not listed");
    one.stop().await?;
    two.stop().await?;
    Ok(())
}

async fn a_client_steers_what_an_engine_keeps(url: String) -> Result<()> {
    let diary = Diary::default();
    let engine = with_index(Engine::open(&url), &diary).launch().await?;
    let client = Client::connect(&url).await?;
    let declare = |size| client.batch("index", index::workflow()).size(size).age(secs(3_600));
    assert_eq!(declare(10).await?, Declared::Created);
    assert_eq!(
        engine.batch("index", index::workflow()).size(10).age(secs(3_600)).await?,
        Declared::Unchanged
    );
    let index = client.batches().get("index").await?;
    index.pause("a moment").await?;
    index.add_many(0..15_u32).await?;
    assert_eq!(engine.batches().list().await?[0].waiting, 15);
    index.resume().await?;
    until_taken(&client, "index", 10).await?;
    index.flush().await?;
    until_taken(&client, "index", 15).await?;
    assert!(matches!(declare(2).await?, Declared::Updated { .. }));
    index.add_many(15..17).await?;
    until_taken(&client, "index", 17).await?;
    index.remove(windlass::batch::Leftover::Start).await?;
    assert!(index.status().await.is_err());
    assert_each_once(&inputs(&client).await?, 17);
    engine.stop().await?;
    Ok(())
}
