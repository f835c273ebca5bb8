//! Durable functions whose waits begin in one process and end in another.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use windlass::{RunId, RunState, prelude::*};

use crate::{
    durable::GO,
    eventually::{PATIENCE, eventually_async},
    room::Room,
};

/// What was done, in order, and whether the last thing is refused.
#[derive(Debug, Default)]
struct Diary {
    pages: Mutex<Vec<String>>,
    refuses: AtomicBool,
}

impl Diary {
    fn note(&self, what: impl Into<String>) {
        self.pages.lock().push(what.into());
    }

    fn pages(&self) -> Vec<String> {
        self.pages.lock().clone()
    }

    fn decide(&self) -> Result<()> {
        match self.refuses.load(Ordering::Relaxed) {
            true => Err(Failure::permanent("refused")),
            false => Ok(()),
        }
    }
}

/// Waits for word for a second.
#[flow]
async fn impatient(cx: &Flow) -> Result<Option<u64>> {
    cx.event(GO).timeout(Duration::from_secs(1)).await
}

/// Hears four times.
#[flow]
async fn four_words(cx: &Flow) -> Result<Vec<u64>> {
    let mut heard = Vec::new();
    for _ in 0..4 {
        heard.push(cx.event(GO).await?);
    }
    Ok(heard)
}

/// Sleeps, and then waits for word.
#[flow]
async fn sleep_and_hear(cx: &Flow) -> Result<u64> {
    cx.sleep(Duration::from_secs(3)).await?;
    cx.step("awake", || async { Ok::<_, Failure>(()) }).await?;
    cx.event(GO).await
}

/// Two steps that can be undone; then it waits for word, and for a decision.
#[flow]
async fn two_deeds(cx: &Flow, diary: Res<Arc<Diary>>) -> Result<()> {
    for deed in ["charge", "ship"] {
        let (doing, undoing) = (Arc::clone(&diary), Arc::clone(&diary));
        let step = cx.step(deed, move |s: Cx| async move {
            doing.note(format!("{deed} {}", s.key().ends_with(":2")));
            Ok::<_, Failure>(())
        });
        step.undo(move |()| async move {
            undoing.note(format!("undo {deed}"));
            Ok::<_, Failure>(())
        })
        .await?;
    }
    cx.event(GO).await?;
    cx.step("decide", || async { diary.decide() }).await
}

/// One more process, as far as the database can tell.
async fn launch(room: &Room, diary: &Arc<Diary>) -> Engine {
    let engine = Engine::over(room.store().await)
        .resource(Arc::clone(diary))
        .workflow(impatient::workflow())
        .workflow(four_words::workflow())
        .workflow(sleep_and_hear::workflow())
        .workflow(two_deeds::workflow())
        .park_after(Duration::from_millis(50));
    engine.launch().await.expect("it launches")
}

/// Waits until a run stands so.
pub async fn until(room: &Room, run: RunId, state: RunState) {
    let store = room.store().await;
    eventually_async("the run stands so", PATIENCE, || async {
        let image = store.load(run).await.expect("a run can be loaded").expect("the run is there");
        image.standing.state() == state
    })
    .await;
}

/// Waits for something that must not take for ever.
pub async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("the run goes on")
}

async fn an_event_that_never_comes_times_out_in_the_next_process(room: Room) {
    let diary = Arc::default();
    let first = launch(&room, &diary).await;
    let began = Instant::now();
    let id = first.start(impatient::workflow(), ()).await.expect("it starts").id();
    until(&room, id, RunState::Suspended).await;
    first.stop().await.expect("it stops");
    let second = launch(&room, &diary).await;
    let heard = in_time(second.run(&impatient::workflow(), id)).await.expect("the run completes");
    assert_eq!(heard, None);
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    second.stop().await.expect("it stops");
}

async fn waits_of_one_name_hear_in_order_whichever_process_they_are_in(room: Room) {
    let diary = Arc::default();
    let first = launch(&room, &diary).await;
    let run = first.start(four_words::workflow(), ()).await.expect("it starts");
    let id = run.id();
    run.send(GO, &1).await.expect("it is sent");
    run.send(GO, &2).await.expect("it is sent");
    until(&room, id, RunState::Suspended).await;
    first.stop().await.expect("it stops");
    let client = room.client().await;
    client.run(&four_words::workflow(), id).send(GO, &3).await.expect("it is sent");
    let second = launch(&room, &diary).await;
    second.run(&four_words::workflow(), id).send(GO, &4).await.expect("it is sent");
    let heard = in_time(second.run(&four_words::workflow(), id)).await.expect("the run completes");
    assert_eq!(heard, [1, 2, 3, 4]);
    second.stop().await.expect("it stops");
}

async fn a_sleep_before_a_wait_is_not_slept_again_in_the_next_process(room: Room) {
    let diary = Arc::default();
    let first = launch(&room, &diary).await;
    let id = first.start(sleep_and_hear::workflow(), ()).await.expect("it starts").id();
    let store = room.store().await;
    eventually_async("it is awake", PATIENCE, || async {
        let image = store.load(id).await.expect("a run can be loaded").expect("the run is there");
        image.steps.iter().any(|step| &*step.name == "/awake")
    })
    .await;
    until(&room, id, RunState::Suspended).await;
    first.stop().await.expect("it stops");
    let second = launch(&room, &diary).await;
    let sent = Instant::now();
    second.run(&sleep_and_hear::workflow(), id).send(GO, &7).await.expect("it is sent");
    let heard = in_time(second.run(&sleep_and_hear::workflow(), id)).await.expect("the run completes");
    assert_eq!(heard, 7);
    assert!(sent.elapsed() < Duration::from_secs(2), "it slept again: {:?}", sent.elapsed());
    second.stop().await.expect("it stops");
}

const UNDONE: [&str; 4] = ["charge false", "ship false", "undo ship", "undo charge"];

async fn a_run_that_is_cancelled_while_no_process_has_it_is_undone_by_the_next(room: Room) {
    let diary = Arc::default();
    let first = launch(&room, &diary).await;
    let id = first.start(two_deeds::workflow(), ()).await.expect("it starts").id();
    until(&room, id, RunState::Suspended).await;
    first.stop().await.expect("it stops");
    let client = room.client().await;
    client.run(&two_deeds::workflow(), id).cancel("enough").await.expect("it is cancelled");
    let second = launch(&room, &diary).await;
    in_time(second.run(&two_deeds::workflow(), id)).await.expect_err("it was cancelled");
    assert_eq!(diary.pages(), UNDONE);
    second.stop().await.expect("it stops");
}

async fn a_run_whose_time_is_over_while_no_process_has_it_is_undone_by_the_next(room: Room) {
    let diary = Arc::default();
    let first = launch(&room, &diary).await;
    let start = first.start(two_deeds::workflow(), ()).timeout(Duration::from_secs(2));
    let id = start.await.expect("it starts").id();
    until(&room, id, RunState::Suspended).await;
    first.stop().await.expect("it stops");
    let second = launch(&room, &diary).await;
    in_time(second.run(&two_deeds::workflow(), id)).await.expect_err("its time is over");
    until(&room, id, RunState::Failed).await;
    assert_eq!(diary.pages(), UNDONE);
    second.stop().await.expect("it stops");
}

async fn what_was_undone_is_done_again_under_another_key_when_an_operator_retries(room: Room) {
    let diary = Arc::<Diary>::default();
    diary.refuses.store(true, Ordering::Relaxed);
    let engine = launch(&room, &diary).await;
    let run = engine.start(two_deeds::workflow(), ()).await.expect("it starts");
    let id = run.id();
    run.send(GO, &1).await.expect("it is sent");
    in_time(run).await.expect_err("it is refused");
    assert_eq!(diary.pages(), UNDONE);
    diary.refuses.store(false, Ordering::Relaxed);
    // Somebody else, in another process. What was heard is not heard again.
    let client = room.client().await;
    let mut run = client.run(&two_deeds::workflow(), id);
    run.retry().await.expect("it is opened again");
    in_time(run).await.expect("the run completes");
    assert_eq!(diary.pages()[4..], ["charge true", "ship true"]);
    engine.stop().await.expect("it stops");
}

on_both! {
    an_event_that_never_comes_times_out_in_the_next_process,
    waits_of_one_name_hear_in_order_whichever_process_they_are_in,
    a_sleep_before_a_wait_is_not_slept_again_in_the_next_process,
    a_run_that_is_cancelled_while_no_process_has_it_is_undone_by_the_next,
    a_run_whose_time_is_over_while_no_process_has_it_is_undone_by_the_next,
    what_was_undone_is_done_again_under_another_key_when_an_operator_retries,
}
