//! Code that does its worst, on real threads and in real time: it harms nobody but its own run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use windlass::{Client, prelude::*};

use crate::hog::{Hog, LetGo, eventually};

async fn soon<T>(what: &str, future: impl std::future::IntoFuture<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(5), future.into_future()).await;
    waited.unwrap_or_else(|_| panic!("{what} did not happen within five seconds"))
}

#[workflow(output = after)]
mod gated {
    use super::*;

    #[task]
    pub async fn before(input: u8, hog: Res<Hog>) -> Result<u8> {
        hog.barrier().await;
        Ok(input)
    }

    /// 0: quick. 1: never yields. 2: blocks, and tells tokio so.
    #[task]
    pub async fn after(before: u8, hog: Res<Hog>) -> Result<u32> {
        match before {
            1 => hog.hold(),
            2 => tokio::task::block_in_place(|| hog.hold()),
            _ => {}
        }
        Ok(1)
    }
}

#[workflow]
mod plain {
    use super::*;

    #[task]
    pub async fn only(input: u8, hog: Res<Hog>) -> Result<u32> {
        if input == 1 {
            hog.hold();
        }
        Ok(1)
    }
}

/// Runs that end their first task together; those that `kind` makes hogs never yield in the second.
async fn batch_with_hogs(runs: u8, kind: impl Fn(u8) -> u8) -> Result<()> {
    let hog = Arc::new(Hog::default());
    let _let_go = LetGo(Arc::clone(&hog));
    let engine =
        Engine::open("sqlite::memory:").shared(Arc::clone(&hog)).workflow(gated::workflow()).launch().await?;
    let (mut quick, mut hogs) = (Vec::new(), Vec::new());
    for at in 0..runs {
        let run = engine.start(gated::workflow(), kind(at)).await?;
        if kind(at) == 0 { quick.push(run) } else { hogs.push(run) }
    }
    eventually("the barrier", || hog.waiting.load(Ordering::SeqCst) == usize::from(runs)).await;
    hog.gate.notify_waiters();
    for run in quick {
        assert_eq!(soon("the end of a run that has nothing to do with the hog", run).await?, 1);
    }
    hog.let_go.store(true, Ordering::SeqCst);
    for run in hogs {
        assert_eq!(soon("the end of a hog", run).await?, 1);
    }
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hog_in_a_batch_keeps_no_answer_but_its_own() -> Result<()> {
    batch_with_hogs(40, |at| u8::from(at == 5 || at == 20)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hogs_that_tell_tokio_so_keep_no_answer_but_their_own() -> Result<()> {
    batch_with_hogs(40, |at| if at % 8 == 3 { 2 } else { 0 }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hog_among_claimed_runs_holds_up_no_other() -> Result<()> {
    let hog = Arc::new(Hog::default());
    let _let_go = LetGo(Arc::clone(&hog));
    let engine =
        Engine::open("sqlite::memory:").shared(Arc::clone(&hog)).workflow(plain::workflow()).launch().await?;
    let ids = engine.start_many(plain::workflow(), (0..40).map(|at| u8::from(at == 3))).await?;
    for (at, id) in ids.iter().enumerate().filter(|(at, _)| *at != 3) {
        let run = engine.run(&plain::workflow(), *id);
        assert_eq!(soon(&format!("the end of run {at}"), run).await?, 1);
    }
    hog.let_go.store(true, Ordering::SeqCst);
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_hear_of_their_starts_although_one_of_them_started_a_hog() -> Result<()> {
    let hog = Arc::new(Hog::default());
    let _let_go = LetGo(Arc::clone(&hog));
    let engine =
        Engine::open("sqlite::memory:").shared(Arc::clone(&hog)).workflow(plain::workflow()).launch().await?;
    let callers: Vec<_> = (0..40)
        .map(|at| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.start(plain::workflow(), u8::from(at == 8 || at == 20)).await })
        })
        .collect();
    for caller in callers {
        soon("the answer to a start", caller).await.expect("it does not panic")?;
    }
    hog.let_go.store(true, Ordering::SeqCst);
    engine.stop().await?;
    Ok(())
}

#[workflow]
mod busy {
    use super::*;

    #[task]
    pub async fn work(cx: &Cx, hog: Res<Hog>) -> Result<()> {
        hog.entered.fetch_add(1, Ordering::SeqCst);
        let begun = Instant::now();
        while !cx.is_cancelled() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Err("asked to stop".into())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_works_until_it_is_cancelled_hears_of_it() -> Result<()> {
    let hog = Arc::new(Hog::default());
    let engine =
        Engine::open("sqlite::memory:").shared(Arc::clone(&hog)).workflow(busy::workflow()).launch().await?;
    let run = engine.start(busy::workflow(), ()).await?;
    eventually("the start", || hog.entered.load(Ordering::SeqCst) == 1).await;
    run.cancel("enough").await?;
    assert_eq!(soon("the end of a cancelled run", run).await.unwrap_err().code(), "run_cancelled");
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_works_until_the_engine_stops_hears_of_it() -> Result<()> {
    let hog = Arc::new(Hog::default());
    let engine =
        Engine::open("sqlite::memory:").shared(Arc::clone(&hog)).workflow(busy::workflow()).launch().await?;
    let _run = engine.start(busy::workflow(), ()).await?;
    eventually("the start", || hog.entered.load(Ordering::SeqCst) == 1).await;
    engine.stop_now().await?;
    Ok(())
}

fn unsure(_: &windlass::Failure) -> bool {
    panic!("the predicate panics")
}

#[workflow]
mod judged {
    use super::*;

    #[task(retry(attempts = 3, on = predicate(unsure)))]
    pub async fn fail(input: bool) -> Result<()> {
        if input {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Err("no".into())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_predicate_that_panics_leaves_no_run_hanging() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(judged::workflow()).launch().await?;
    for waits in [false, true] {
        let run = engine.start(judged::workflow(), waits).await?;
        let error = soon("the end of the run", run).await.unwrap_err();
        assert_eq!(error.code(), "run_failed");
    }
    engine.stop().await?;
    Ok(())
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a destructor panics");
        }
    }
}

#[workflow]
mod fragile {
    use super::*;

    #[task(timeout = "50ms", retry(on = never))]
    pub async fn wait() -> Result<()> {
        let _bomb = Bomb;
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destructor_that_panics_when_its_attempt_times_out_leaves_no_run_hanging() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(fragile::workflow()).launch().await?;
    let run = engine.start(fragile::workflow(), ()).await?;
    assert_eq!(soon("the end of the run", run).await.unwrap_err().code(), "run_failed");
    engine.stop().await?;
    Ok(())
}

static ARMED: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Mine(u8);

impl Drop for Mine {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.0 == 7 && ARMED.swap(false, Ordering::SeqCst) {
            panic!("an input's destructor panics");
        }
    }
}

#[workflow]
mod mined {
    use super::*;

    #[task]
    pub async fn step(input: &Mine, hog: Res<Hog>) -> Result<u8> {
        let number = input.0;
        hog.entered.fetch_add(1, Ordering::SeqCst);
        ARMED.store(number == 7, Ordering::SeqCst);
        Ok(number)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_whose_destructor_panics_does_not_stop_the_committer() -> Result<()> {
    let hog = Arc::new(Hog::default());
    let engine =
        Engine::open("sqlite::memory:").shared(Arc::clone(&hog)).workflow(mined::workflow()).launch().await?;
    for _ in 0..20 {
        ARMED.store(false, Ordering::SeqCst);
        let run = soon("a start", engine.start(mined::workflow(), Mine(7))).await?;
        soon("the end", run).await?;
        eventually("the panic", || !ARMED.load(Ordering::SeqCst)).await;
    }
    let run = soon("another start", engine.start(mined::workflow(), Mine(1))).await?;
    assert_eq!(soon("its end", run).await?, 1);
    engine.stop().await?;
    Ok(())
}

#[workflow]
mod double {
    use super::*;

    #[task]
    pub async fn wait(cx: &Cx) -> Result<u32> {
        let begun = Instant::now();
        let late = || async move { begun.elapsed() > Duration::from_millis(50) };
        let every = Duration::from_millis(20);
        let (one, two) = tokio::join!(cx.defer_until(every, late), cx.defer_until(every, late));
        one?;
        two?;
        Ok(1)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_waits_in_one_attempt_leak_no_slot() -> Result<()> {
    for slots in [2, 1] {
        let engine =
            Engine::open("sqlite::memory:").slots(slots).workflow(double::workflow()).launch().await?;
        for at in 0..4 {
            let run = engine.start(double::workflow(), ()).await?;
            assert_eq!(soon(&format!("the end of run {at} with {slots} slots"), run).await?, 1);
        }
        engine.stop().await?;
    }
    Ok(())
}

#[workflow]
mod wide {
    use super::*;

    #[task]
    pub async fn numbers() -> Result<Vec<u32>> {
        Ok((0..1000).collect())
    }

    #[task(for_each = numbers)]
    pub async fn each(item: u32, hog: Res<Hog>) -> Result<()> {
        if hog.entered.fetch_add(1, Ordering::SeqCst) == 0 && item < 5000 {
            hog.gate.notify_one();
        }
        std::future::pending().await
    }
}

#[tokio::test]
async fn nothing_begins_after_a_hard_stop() -> Result<()> {
    let hog = Arc::new(Hog::default());
    let dir = tempfile::tempdir()?;
    let url = format!("sqlite://{}", dir.path().join("app.db").display());
    let engine = Engine::open(url).shared(Arc::clone(&hog)).workflow(wide::workflow()).launch().await?;
    let _run = engine.start(wide::workflow(), ()).await?;
    hog.gate.notified().await;
    let begun = Instant::now();
    engine.stop_now().await?;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    Ok(())
}

#[workflow]
mod narrow {
    use super::*;

    #[task]
    pub async fn hold(input: bool, hog: Res<Hog>) -> Result<()> {
        hog.entered.fetch_add(1, Ordering::SeqCst);
        if input {
            hog.gate.notified().await;
        }
        Ok(())
    }
}

/// One run that has the only slot, and one whose attempt waits for it.
struct Queued {
    hog: Arc<Hog>,
    engine: Engine,
    first: windlass::Run<()>,
    second: windlass::Run<()>,
}

async fn queued() -> Result<Queued> {
    let hog = Arc::new(Hog::default());
    let engine = Engine::open("sqlite::memory:")
        .slots(1)
        .shared(Arc::clone(&hog))
        .workflow(narrow::workflow())
        .launch()
        .await?;
    let first = engine.start(narrow::workflow(), true).await?;
    eventually("the first", || hog.entered.load(Ordering::SeqCst) == 1).await;
    let second = engine.start(narrow::workflow(), false).await?;
    while second.status().await?.tasks[0].state != windlass::TaskState::Running {
        tokio::task::yield_now().await;
    }
    Ok(Queued { hog, engine, first, second })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_attempt_that_waits_for_its_slot_ends_at_once_and_never_begins() -> Result<()> {
    let Queued { hog, engine, first, second } = queued().await?;
    second.cancel("not needed").await?;
    assert_eq!(soon("the end of the second", second).await.unwrap_err().code(), "run_cancelled");
    hog.gate.notify_one();
    first.await?;
    assert_eq!(hog.entered.load(Ordering::SeqCst), 1);
    engine.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_a_slot_does_not_begin_when_the_engine_stops() -> Result<()> {
    let Queued { hog, engine, first: _first, second } = queued().await?;
    let stopping = tokio::spawn({
        let engine = engine.clone();
        async move { engine.stop().await }
    });
    // It is handed back, and then the slot is free.
    while second.status().await?.state == windlass::RunState::Running {
        tokio::task::yield_now().await;
    }
    hog.gate.notify_one();
    stopping.await??;
    assert_eq!(hog.entered.load(Ordering::SeqCst), 1, "nothing new starts");
    Ok(())
}

#[test]
fn a_client_answers_although_the_runtime_it_was_made_on_stands_still() {
    let still = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", dir.path().join("app.db").display());
    let client = still.block_on(Client::connect(&url)).unwrap();
    let other = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    other.block_on(async {
        for _ in 0..20 {
            let starts: Vec<_> = (0..50)
                .map(|_| {
                    let client = client.clone();
                    tokio::spawn(async move { client.start(plain::workflow(), 0).await.map(|run| run.id()) })
                })
                .collect();
            for start in starts {
                soon("the answer to a start", start).await.unwrap().unwrap();
            }
        }
    });
}

#[tokio::test]
async fn an_order_that_comes_between_the_commit_of_a_start_and_its_answer_is_heard_at_once() -> Result<()> {
    #[workflow]
    mod endless {
        use super::*;

        #[task]
        pub async fn wait() -> Result<()> {
            std::future::pending().await
        }
    }
    let dir = tempfile::tempdir()?;
    let url = format!("sqlite://{}", dir.path().join("app.db").display());
    let rare = Duration::from_secs(60);
    let engine = Engine::open(url.clone())
        .heartbeat(rare)
        .stale_after(rare * 3)
        .cancel_grace(Duration::from_millis(10))
        .poll(rare)
        .workflow(endless::workflow())
        .launch()
        .await?;
    let starts: Vec<_> = (0..30)
        .map(|at| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.start(endless::workflow(), ()).key(format!("{at}")).await })
        })
        .collect();
    // All of them are handed in; from here on this thread, the only one, is busy.
    tokio::task::yield_now().await;
    let other = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::connect(&url).await.unwrap();
            let run = loop {
                if let Some(run) = client.run_by_key(&endless::workflow(), "29").await.unwrap() {
                    break run;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            };
            run.cancel("enough").await.unwrap();
            // The engine hears of it, and finds nobody to tell.
            std::thread::sleep(Duration::from_millis(500));
        });
    });
    other.join().unwrap();
    let mut runs = Vec::new();
    for start in starts {
        runs.push(start.await??);
    }
    let last = runs.pop().expect("there are thirty");
    assert_eq!(soon("the end of the cancelled run", last).await.unwrap_err().code(), "run_cancelled");
    engine.stop_now().await?;
    Ok(())
}

#[windlass::test]
async fn a_laboratory_may_close_while_a_commit_is_tried_again(lab: windlass::testing::Lab) -> Result<()> {
    let hog = Arc::new(Hog::default());
    let engine = lab.engine().shared(hog).workflow(plain::workflow()).launch().await?;
    engine.start(plain::workflow(), 0).await?.await?;
    lab.cut_off(&engine);
    let starting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.start(plain::workflow(), 0).await.map(|run| run.id()) }
    });
    lab.advance(Duration::from_millis(500)).await;
    assert!(!starting.is_finished());
    Ok(())
}

#[test]
fn a_runtime_may_be_dropped_with_everything_under_way() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let hog = Arc::new(Hog::default());
    let engine = runtime.block_on(async {
        let engine = Engine::open("sqlite::memory:")
            .shared(Arc::clone(&hog))
            .slots(3)
            .workflow(wide::workflow())
            .workflow(gated::workflow())
            .launch()
            .await
            .unwrap();
        for _ in 0..5 {
            engine.start(wide::workflow(), ()).await.unwrap();
            engine.start(gated::workflow(), 0).await.unwrap();
        }
        engine
    });
    let begun = Instant::now();
    drop(runtime);
    assert!(begun.elapsed() < Duration::from_secs(2));
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        // Nothing of it can go on; it says so, and does not hang.
        soon("an answer", engine.start(wide::workflow(), ())).await.ok();
        tokio::time::timeout(Duration::from_secs(10), engine.stop_now()).await.expect("it stops").ok();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_works_until_its_run_has_taken_too_long_hears_of_it() -> Result<()> {
    let hog = Arc::new(Hog::default());
    let engine =
        Engine::open("sqlite::memory:").shared(Arc::clone(&hog)).workflow(busy::workflow()).launch().await?;
    let run = engine.start(busy::workflow(), ()).timeout(Duration::from_millis(200)).await?;
    let error = soon("the end of a run that took too long", run).await.unwrap_err();
    assert_eq!(error.code(), "run_timed_out", "{error}");
    engine.stop().await?;
    Ok(())
}
