//! Schedules on real databases, in real time.

use std::time::Duration;

use windlass::{Client, RunState, Time, prelude::*, schedule::Declared, trigger::Trigger};

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
                    let schema = format!("schedules_{}_{}", std::process::id(), stringify!($name));
                    super::$name(format!("{}?schema={}", cluster.url(), &schema[..schema.len().min(60)])).await
                }
            )*
        }
    };
}

on_both!(
    each_time_has_one_run_and_none_is_late,
    a_client_steers_what_an_engine_keeps,
    many_that_are_due_together_all_fire,
    a_trigger_starts_one_run_for_one_thing,
);

/// The times of the runs of a schedule, and when each was started.
async fn fired(client: &Client, schedule: &str) -> Result<Vec<(Time, Time)>> {
    let mut fired = Vec::new();
    for run in client.runs().workflow("job").limit(5_000).list().await? {
        let key = run.key.unwrap_or_default();
        if let Some(time) = key.strip_prefix(&format!("{schedule}@")) {
            let time: windlass::jiff::Timestamp = time.parse()?;
            fired.push((time.into(), run.created_at));
        }
    }
    fired.sort_unstable();
    Ok(fired)
}

/// Waits until a schedule has started so many runs.
async fn until_started(client: &Client, schedule: &str, runs: u64) -> Result<()> {
    let schedule = client.schedules().get(schedule).await?;
    let enough = async {
        while schedule.status().await?.runs < runs {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok::<_, Failure>(())
    };
    tokio::time::timeout(secs(60), enough).await?
}

async fn each_time_has_one_run_and_none_is_late(url: String) -> Result<()> {
    let diary = Diary::default();
    let (one, two) = tokio::try_join!(
        with_job(Engine::open(&url), &diary).launch(),
        with_job(Engine::open(&url), &diary).launch(),
    )?;
    let period = Duration::from_millis(50);
    let tick = one.schedule("tick").every(period).overlap(Overlap::Allow).catch_up(CatchUp::All { max: 100 });
    tick.workflow(job::workflow(), takes(0)).await?;
    // More than one book is filled.
    until_started(&one, "tick", 80).await?;
    two.schedules().get("tick").await?.remove().await?;
    let fired = fired(&one, "tick").await?;
    for pair in fired.windows(2) {
        assert_eq!(pair[0].0 + period, pair[1].0, "each time is there, and once");
    }
    let latest = fired.iter().map(|(time, started)| started.since(*time)).max();
    assert!(latest < Some(secs(2)), "{latest:?}");
    assert!(one.schedules().list().await?.is_empty());
    assert!(one.runs().live().queue("windlass").list().await?.is_empty());
    one.stop().await?;
    two.stop().await?;
    Ok(())
}

async fn a_client_steers_what_an_engine_keeps(url: String) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(Engine::open(&url), &diary).launch().await?;
    let client = Client::connect(&url).await?;
    let declare = |period| client.schedule("poll").every(period).workflow(job::workflow(), takes(0));
    assert_eq!(declare(hours(1)).await?, Declared::Created);
    assert_eq!(
        engine.schedule("poll").every(hours(1)).workflow(job::workflow(), takes(0)).await?,
        Declared::Unchanged
    );
    let poll = client.schedules().get("poll").await?;
    let key = poll.trigger().await?;
    until_started(&client, "poll", 1).await?;
    let run = tokio::time::timeout(secs(60), async {
        loop {
            if let Some(run) = client.run_by_key(&job::workflow(), &key).await? {
                return Ok::<_, Failure>(run);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert_eq!(run.await??.await?, "done");
    poll.pause("a moment").await?;
    assert_eq!(engine.schedules().get("poll").await?.status().await?.paused.as_deref(), Some("a moment"));
    assert!(matches!(declare(mins(1)).await?, Declared::Updated { .. }));
    poll.resume().await?;
    let past = poll.backfill(Time(0)..Time(1_000_000_000)).dry_run().await?;
    assert_eq!(past.len(), 17, "one in each minute");
    assert_eq!(poll.backfill(Time(0)..Time(1_000_000_000)).await?.len(), 17);
    until_started(&client, "poll", 18).await?;
    poll.remove().await?;
    assert_eq!(declare(hours(1)).await?, Declared::Created);
    let status = client.schedules().get("poll").await?.status().await?;
    assert_eq!((status.runs, status.words.as_str()), (0, "every 1h"));
    engine.stop().await?;
    Ok(())
}

async fn many_that_are_due_together_all_fire(url: String) -> Result<()> {
    let diary = Diary::default();
    let engine = with_job(Engine::open(&url), &diary).launch().await?;
    let nodes = engine.nodes().await?;
    let at = Time(nodes[0].started_at.0) + secs(8);
    for number in 0..100 {
        engine.schedule(&format!("s{number}")).at(at).workflow(job::workflow(), takes(0)).await?;
    }
    let all = async {
        while engine.runs().workflow("job").state(RunState::Completed).limit(200).list().await?.len() < 100 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok::<_, Failure>(())
    };
    tokio::time::timeout(secs(60), all).await??;
    let latest = engine
        .runs()
        .workflow("job")
        .limit(200)
        .list()
        .await?
        .iter()
        .map(|run| run.created_at.since(at))
        .max();
    assert!(latest < Some(secs(3)), "{latest:?}");
    engine.stop().await?;
    Ok(())
}

async fn a_trigger_starts_one_run_for_one_thing(url: String) -> Result<()> {
    let trigger = |name: &str, seconds| {
        let ask = move |_| async move { Ok(Fire::run(takes(seconds)).key("thing")) };
        Trigger::new(name, job::workflow(), ask).every(Duration::from_millis(20))
    };
    let diary = Diary::default();
    let launch = || {
        let engine = with_job(Engine::open(&url), &diary);
        let engine = engine.trigger(trigger("often", 0)).trigger(trigger("long", 3_600));
        engine.trigger(trigger("once", 0).once()).launch()
    };
    let (one, two) = tokio::try_join!(launch(), launch())?;
    let often = two.triggers().get("often").await?;
    let enough = async {
        while often.status().await?.fired < 10 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, Failure>(())
    };
    tokio::time::timeout(secs(60), enough).await??;
    assert!(one.runs().key("often#thing").list().await?.len() >= 10);
    assert_eq!(one.runs().key("long#thing").list().await?.len(), 1);
    assert_eq!(one.runs().key("once#thing").list().await?.len(), 1);
    one.stop_now().await?;
    two.stop_now().await?;
    Ok(())
}
