//! Runs whose tasks wait, and that are cancelled, paused, timed out or handed over meanwhile.

use windlass::{RunState, TaskState, prelude::*, testing::Lab};

use crate::{Tally, hours, secs};

const GO: Event<()> = Event::new("go");

#[workflow]
mod waiter {
    use super::*;

    #[task]
    pub async fn wait(input: bool, cx: &Cx, tally: Res<Tally>) -> Result<()> {
        let go = cx.event(GO).await;
        if go.is_err() {
            tally.add("tidied up");
        }
        go?;
        if input {
            cx.sleep(hours(1)).await?;
        }
        tally.add("gone on");
        Ok(())
    }

    // Keeps the run in memory.
    #[task]
    pub async fn work(input: bool) -> Result<()> {
        if input {
            tokio::time::sleep(hours(3)).await;
        }
        Ok(())
    }

    #[task(after = [wait, work])]
    pub async fn end() -> Result<()> {
        Ok(())
    }
}

#[windlass::test]
async fn a_task_that_waits_hears_of_a_cancel_at_once(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(waiter::workflow());
    let engine = engine.cancel_grace(secs(2)).launch().await?;
    let mut run = engine.start(waiter::workflow(), true).await?;
    lab.advance(secs(60)).await;
    let begun = lab.now();
    run.cancel("no").await?;
    assert!((&mut run).await.is_err());
    assert!(lab.now().since(begun) <= secs(2));
    assert_eq!(tally.of("tidied up"), 1);
    assert_eq!(run.status().await?.task("wait").expect("it is there").state, TaskState::Cancelled);
    Ok(())
}

#[windlass::test]
async fn a_task_whose_run_is_parked_is_not_executed_to_be_cancelled(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(waiter::workflow()).launch().await?;
    let mut run = engine.start(waiter::workflow(), false).timeout(hours(5)).await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    let error = (&mut run).await.unwrap_err().to_string();
    assert!(error.contains("5h"), "{error}");
    assert_eq!(lab.attempts("wait"), 1);
    assert_eq!(tally.of("tidied up"), 0);
    Ok(())
}

#[windlass::test]
async fn events_and_times_wait_while_the_run_is_paused(lab: Lab) -> Result<()> {
    for stays in [false, true] {
        let tally = Tally::default();
        let engine = lab.engine().resource(tally.clone()).workflow(waiter::workflow()).launch().await?;
        let run = engine.start(waiter::workflow(), stays).await?;
        lab.advance(secs(1)).await;
        run.pause().await?;
        lab.advance(secs(1)).await;
        run.send(GO, &()).await?;
        lab.advance(hours(2)).await;
        assert_eq!(tally.of("gone on"), 0);
        assert!(run.status().await?.call("wait/go").is_none_or(|call| call.state == TaskState::Ready));
        run.resume().await?;
        run.await?;
        assert_eq!(tally.of("gone on"), 1);
        engine.stop().await?;
    }
    Ok(())
}

#[windlass::test]
async fn a_stop_hands_a_waiting_task_over_at_once(lab: Lab) -> Result<()> {
    let engine = lab.engine().resource(Tally::default()).workflow(waiter::workflow()).launch().await?;
    let run = engine.start(waiter::workflow(), false).await?;
    lab.advance(secs(1)).await;
    let begun = lab.now();
    engine.stop().await?;
    assert!(lab.now().since(begun) < secs(1));
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(waiter::workflow()).launch().await?;
    let run = engine.run(&waiter::workflow(), run.id());
    run.send(GO, &()).await?;
    run.await?;
    assert_eq!(tally.of("gone on"), 1);
    Ok(())
}
