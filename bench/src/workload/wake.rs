//! How soon somebody who waits goes on, in one process and between two.
//!
//! All times begin with a call or with the end of a body, and so have the commits in them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use windlass::{Client, prelude::*};

use super::Bench;
use crate::{
    Result, clock,
    latencies::Latencies,
    other::{self, Other},
    report::Line,
};

/// The part of the process that runs what another starts.
pub(crate) const RUNNER: &str = "runner";

const READY: &str = "ready";
const BEGUN: &str = "begun";

/// How many milliseconds all but one of a hundred may take.
const HERE_MS: f64 = 5.0;
const ELSEWHERE_MS: f64 = 25.0;

/// How long a function waits for its event in memory: short, so that many are parked while it is measured, and longer than
/// whoever sends at once needs.
const PARK_AFTER: Duration = Duration::from_millis(100);

/// How long to wait before the store is asked again whether a function is parked.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How long a run may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// One task, which says when it ran.
#[workflow]
pub(crate) mod stamp {
    use windlass::prelude::*;

    #[task]
    pub(crate) async fn look() -> Result<u64> {
        Ok(crate::clock::now())
    }
}

/// One task, which says that it has begun and stays until it is told to stop.
#[workflow]
pub(crate) mod patient {
    use std::sync::Arc;

    use windlass::prelude::*;

    use super::Bell;

    #[task]
    pub(crate) async fn stay(cx: &Cx, bell: Res<Arc<Bell>>) -> Result<()> {
        bell.ring();
        cx.cancelled().await;
        Ok(())
    }
}

/// The event that a durable function waits for.
const GO: Event<()> = Event::new("go");

/// A durable function, which says that it waits for an event, and when it went on.
#[flow]
pub(crate) async fn listener(cx: &Flow, bell: Res<Arc<Bell>>) -> Result<u64, Failure> {
    // In no step: one would still be on its way to the store when it says so.
    bell.ring();
    cx.event(GO).await?;
    cx.step("look", || async { Ok::<_, Failure>(clock::now()) }).await
}

/// Rung by a task or a step that has begun.
#[derive(Debug)]
pub(crate) struct Bell(UnboundedSender<()>);

impl Bell {
    pub(crate) fn new() -> (Arc<Self>, UnboundedReceiver<()>) {
        let (bell, rung) = unbounded_channel();
        (Arc::new(Self(bell)), rung)
    }

    pub(crate) fn ring(&self) {
        // Whoever does not listen any more has measured enough.
        let _unheard = self.0.send(());
    }
}

/// Where the tasks run, and where one hears that they have begun.
enum Runner<'a> {
    Here(UnboundedReceiver<()>),
    Elsewhere(&'a mut Other),
}

impl Runner<'_> {
    async fn begun(&mut self) -> Result<()> {
        match self {
            Self::Here(rung) => in_time(rung.recv()).await?.ok_or_else(|| "the engine is gone".into()),
            Self::Elsewhere(other) => other.expect(BEGUN).await,
        }
    }
}

/// What was measured in one place.
#[derive(Default)]
struct Wakes {
    /// The first run, from its start to its result: two processes may have yet to notice each other.
    first: Duration,
    started: Latencies,
    finished: Latencies,
    cancelled: Latencies,
    sent: Latencies,
    /// The same of a function that was parked before.
    sent_parked: Latencies,
}

/// Measures with the engine in this process, and in another one.
pub(crate) async fn measure(bench: &Bench<'_>) -> Result<Line> {
    let mut here = here(bench).await?;
    let mut elsewhere = elsewhere(bench).await?;
    let mut line = bench
        .line("p99 < 5 ms in one process, < 25 ms between two")
        .latencies(here.finished.percentile_ms(0.5), here.finished.percentile_ms(0.99))
        .also("first_elsewhere_ms", elsewhere.first.as_secs_f64() * 1e3);
    for (place, wakes, most) in [("here", &mut here, HERE_MS), ("elsewhere", &mut elsewhere, ELSEWHERE_MS)] {
        for (what, times, most) in [
            ("started", &mut wakes.started, most),
            ("finished", &mut wakes.finished, most),
            ("cancelled", &mut wakes.cancelled, most),
            ("sent", &mut wakes.sent, most),
            // It is taken up again first, wherever its event came from.
            ("sent_parked", &mut wakes.sent_parked, ELSEWHERE_MS),
        ] {
            let [p50, p99] = [0.5, 0.99].map(|part| times.percentile_ms(part).unwrap_or(f64::NAN));
            line = line
                .also(&format!("{what}_{place}_p50_ms"), p50)
                .also(&format!("{what}_{place}_p99_ms"), p99)
                .holds(p99 < most);
        }
    }
    Ok(line)
}

async fn here(bench: &Bench<'_>) -> Result<Wakes> {
    let database = bench.database().await?;
    let (bell, rung) = Bell::new();
    let engine = engine(&database.url(), bell).await?;
    let wakes = wakes(&engine.client(), Runner::Here(rung), bench.half()).await?;
    database.until_ended(wakes.runs()).await?;
    engine.stop().await?;
    Ok(wakes)
}

async fn elsewhere(bench: &Bench<'_>) -> Result<Wakes> {
    let database = bench.database().await?;
    let mut other = Other::start(&format!("{RUNNER} {}", database.url()))?;
    other.expect(READY).await?;
    let client = Client::connect(&database.url()).await?;
    let wakes = wakes(&client, Runner::Elsewhere(&mut other), bench.half()).await?;
    database.until_ended(wakes.runs()).await?;
    drop(client);
    other.leave().await?;
    Ok(wakes)
}

impl Wakes {
    fn runs(&self) -> u64 {
        let sent = self.sent.len() + self.sent_parked.len();
        (1 + self.finished.len() + self.cancelled.len() + sent) as u64
    }
}

/// One run at a time: first some that end by themselves, then some that are cancelled, then some that get an event at once,
/// and some that get it when they are parked.
async fn wakes(client: &Client, mut runner: Runner<'_>, span: Duration) -> Result<Wakes> {
    let mut wakes = Wakes::default();
    let begin = Instant::now();
    in_time(client.start(stamp::workflow(), ()).await?).await??;
    wakes.first = begin.elapsed();
    while wakes.finished.len() == 0 || begin.elapsed() < span / 4 {
        let called = clock::now();
        let run = client.start(stamp::workflow(), ()).await?;
        let looked = in_time(run).await??;
        let woken = clock::now();
        wakes.started.push(clock::between(called, looked)?);
        wakes.finished.push(clock::between(looked, woken)?);
    }
    while wakes.cancelled.len() == 0 || begin.elapsed() < span / 2 {
        let run = client.start(patient::workflow(), ()).await?;
        runner.begun().await?;
        let called = Instant::now();
        run.cancel("it was only measured").await?;
        match in_time(run).await? {
            Err(windlass::Error::Run(_)) => wakes.cancelled.push(called.elapsed()),
            Err(error) => return Err(error.into()),
            Ok(()) => return Err("a run that was cancelled has completed".into()),
        }
    }
    while wakes.sent.len() == 0 || begin.elapsed() < span * 3 / 4 {
        let run = client.start(listener::workflow(), ()).await?;
        runner.begun().await?;
        wakes.sent.push(sent(run).await?);
    }
    while wakes.sent_parked.len() == 0 || begin.elapsed() < span {
        let run = client.start(listener::workflow(), ()).await?;
        runner.begun().await?;
        in_time(parked(&run)).await??;
        wakes.sent_parked.push(sent(run).await?);
        // It is run again from its top, and says once more that it waits.
        runner.begun().await?;
    }
    Ok(wakes)
}

/// From the call of `send` until the function goes on.
async fn sent(run: Run<u64>) -> Result<Duration> {
    let called = clock::now();
    run.send(GO, &()).await?;
    clock::between(called, in_time(run).await??)
}

/// Waits until a function is parked.
async fn parked(run: &Run<u64>) -> Result<()> {
    while run.status().await?.state != windlass::RunState::Suspended {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

async fn in_time<F: IntoFuture>(wait: F) -> Result<F::Output> {
    let patience = || format!("a wait had not ended after {} s", PATIENCE.as_secs());
    Ok(tokio::time::timeout(PATIENCE, wait).await.map_err(|_| patience())?)
}

async fn engine(url: &str, bell: Arc<Bell>) -> Result<Engine> {
    let engine = super::engine(url, 1_000).resource(bell).park_after(PARK_AFTER);
    let engine = engine.workflow(stamp::workflow()).workflow(patient::workflow());
    Ok(engine.workflow(listener::workflow()).launch().await?)
}

/// The other side: runs what comes until nobody listens any more.
pub(crate) async fn play(order: &str) -> Result<()> {
    let (bell, mut rung) = Bell::new();
    let engine = engine(order, bell).await?;
    println!("{READY}");
    let telling = tokio::spawn(async move {
        while rung.recv().await.is_some() {
            println!("{BEGUN}");
        }
    });
    while other::word().await?.is_some() {}
    telling.abort();
    Ok(engine.stop().await?)
}
