//! Rate limits and circuit breakers that tasks use, alone and shared with other processes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass::{CircuitBreaker, RateLimit, prelude::*, testing::Lab};

const SECOND: Duration = Duration::from_secs(1);

/// When the turns were had.
type Turns = Arc<Mutex<Vec<Instant>>>;

static SHARED: RateLimit = RateLimit::named("shared", 5, SECOND);

#[workflow]
mod shared {
    use super::*;

    #[task]
    pub async fn take(cx: &Cx, turns: Res<Turns>) -> Result<()> {
        SHARED.turn(cx).await?;
        turns.lock().push(Instant::now());
        Ok(())
    }
}

#[workflow]
mod own {
    use super::*;

    #[task]
    pub async fn take(cx: &Cx, limit: Res<RateLimit>, turns: Res<Turns>) -> Result<()> {
        limit.turn(cx).await?;
        turns.lock().push(Instant::now());
        Ok(())
    }
}

/// Whether no more than so many lie in any span of a second, and how long all of them took.
fn check(turns: &Turns, times: usize) -> Duration {
    let mut turns = turns.lock().clone();
    turns.sort_unstable();
    for window in turns.windows(times + 1) {
        assert!(window[times] - window[0] >= SECOND, "{window:?}");
    }
    turns[turns.len() - 1] - turns[0]
}

#[windlass::test]
async fn a_named_rate_limit_holds_for_all_processes_together(lab: Lab) -> Result<()> {
    let turns = Turns::default();
    let engine = || lab.engine().resource(Arc::clone(&turns)).workflow(shared::workflow());
    let (first, second) = (engine().launch().await?, engine().launch().await?);
    let mut runs = Vec::new();
    for _ in 0..30 {
        runs.push(first.start(shared::workflow(), ()).await?);
        runs.push(second.start(shared::workflow(), ()).await?);
    }
    for run in runs {
        run.await?;
    }
    assert_eq!(check(&turns, 5), 11 * SECOND, "and nobody waits longer than that");
    Ok(())
}

#[windlass::test]
async fn whoever_waits_for_a_turn_while_the_store_is_away_has_it_when_that_is_back(lab: Lab) -> Result<()> {
    let turns = Turns::default();
    let engine = lab.engine().resource(Arc::clone(&turns)).workflow(shared::workflow()).launch().await?;
    let runs = engine.start_many(shared::workflow(), std::iter::repeat_n((), 20)).await?;
    lab.cut_off(&engine);
    lab.advance(10 * SECOND).await;
    lab.reconnect(&engine);
    lab.advance(60 * SECOND).await;
    assert_eq!(turns.lock().len(), runs.len());
    check(&turns, 5);
    Ok(())
}

#[windlass::test]
async fn a_rate_limit_without_a_name_is_the_values_own(lab: Lab) -> Result<()> {
    let turns = Turns::default();
    let engine = lab
        .engine()
        .resource(Arc::clone(&turns))
        .resource(RateLimit::new(2, SECOND))
        .workflow(own::workflow())
        .launch()
        .await?;
    engine.start_many(own::workflow(), std::iter::repeat_n((), 10)).await?;
    lab.advance(60 * SECOND).await;
    assert_eq!(check(&turns, 2), 4 * SECOND);
    Ok(())
}

#[windlass::test]
async fn whoever_waits_for_a_turn_can_be_cancelled(lab: Lab) -> Result<()> {
    let engine = lab
        .engine()
        .resource(Turns::default())
        .resource(RateLimit::new(1, 3600 * SECOND))
        .workflow(own::workflow())
        .launch()
        .await?;
    engine.start(own::workflow(), ()).await?.await?;
    let waits = engine.start(own::workflow(), ()).await?;
    lab.advance(SECOND).await;
    waits.cancel("it takes too long").await?;
    let began = Instant::now();
    assert_eq!(waits.await.unwrap_err().code(), "run_cancelled");
    assert!(began.elapsed() < SECOND);
    Ok(())
}

static BANK: CircuitBreaker = CircuitBreaker::named("bank").failures(3).open(Duration::from_secs(30));

/// A bank that may be down.
#[derive(Default)]
struct Bank {
    is_down: AtomicBool,
    hangs: AtomicBool,
    asked: AtomicUsize,
}

impl Bank {
    async fn charge(&self) -> Result<()> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.is_down.load(Ordering::SeqCst) { Err(Failure::new("the bank is down")) } else { Ok(()) }
    }

    fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::SeqCst)
    }
}

#[workflow]
mod pay {
    use super::*;

    #[task(retry(attempts = 1))]
    pub async fn charge(cx: &Cx, bank: Res<Arc<Bank>>) -> Result<()> {
        let bank = &bank;
        BANK.call(cx, || async move { bank.charge().await }).await
    }
}

async fn pay_once(engine: &Engine) -> Result<(), String> {
    let run = engine.start(pay::workflow(), ()).await.unwrap();
    run.await.map_err(|error| error.to_string())
}

#[windlass::test]
async fn a_named_circuit_breaker_opens_for_all_processes_and_a_probe_closes_it(lab: Lab) -> Result<()> {
    let bank = Arc::new(Bank::default());
    let engine = || lab.engine().resource(Arc::clone(&bank)).workflow(pay::workflow());
    let (first, second) = (engine().launch().await?, engine().launch().await?);
    bank.is_down.store(true, Ordering::SeqCst);
    for engine in [&first, &second, &first] {
        assert!(pay_once(engine).await.unwrap_err().contains("the bank is down"));
        lab.advance(SECOND).await;
    }
    assert_eq!(bank.asked(), 3);
    for engine in [&first, &second] {
        let error = pay_once(engine).await.unwrap_err();
        assert!(error.contains("the circuit breaker `bank` is open after 3 failures"), "{error}");
    }
    assert_eq!(bank.asked(), 0);

    lab.advance(30 * SECOND).await;
    assert!(pay_once(&second).await.unwrap_err().contains("the bank is down"), "it is asked once more");
    lab.advance(SECOND).await;
    assert!(pay_once(&first).await.unwrap_err().contains("is open"));
    bank.is_down.store(false, Ordering::SeqCst);
    lab.advance(30 * SECOND).await;
    assert_eq!(pay_once(&first).await, Ok(()));
    lab.advance(SECOND).await;
    assert_eq!(pay_once(&second).await, Ok(()));
    assert_eq!(bank.asked(), 3);
    Ok(())
}

#[windlass::test]
async fn a_probe_whose_process_dies_does_not_keep_a_circuit_breaker_open(lab: Lab) -> Result<()> {
    let bank = Arc::new(Bank::default());
    let engine = || lab.engine().resource(Arc::clone(&bank)).workflow(pay::workflow());
    let (first, second) = (engine().launch().await?, engine().launch().await?);
    bank.is_down.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        pay_once(&first).await.unwrap_err();
        lab.advance(SECOND).await;
    }
    lab.advance(30 * SECOND).await;
    bank.hangs.store(true, Ordering::SeqCst);
    first.start(pay::workflow(), ()).await?;
    lab.advance(SECOND).await;
    lab.crash(&first);
    bank.hangs.store(false, Ordering::SeqCst);
    bank.is_down.store(false, Ordering::SeqCst);
    assert!(pay_once(&second).await.unwrap_err().contains("is open"), "its probe may be under way");
    lab.advance(31 * SECOND).await;
    assert_eq!(pay_once(&second).await, Ok(()));
    Ok(())
}
