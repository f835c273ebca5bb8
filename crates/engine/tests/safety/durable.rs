//! The durable functions that the tests run.

use std::{sync::Arc, time::Duration};

use windlass::{Time, prelude::*};

use crate::ledger::Ledger;

/// What a function is told from outside.
pub const GO: Event<u64> = Event::new("go");

/// A moment of work, so that a kill has something to interrupt.
const WORK: Duration = Duration::from_millis(1);

/// What a journey is to be.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Plan {
    /// How many steps there are in a row, beside all the rest.
    pub links: u64,
    /// Whether it fails at its end, and is undone.
    pub fails: bool,
}

/// What a journey gives that does not fail.
pub const fn sum(plan: &Plan) -> u64 {
    // The links, three joined steps, the event, three items, the child, the end.
    plan.links + 3 + 7 + 3 + 2 + 1
}

/// A step that notes its execution, and whose undo does too.
pub async fn noted(cx: &Flow, ledger: &Arc<Ledger>, name: &str, failures: u32) -> Result<u64> {
    let (run, undoing) = (cx.run_id(), Arc::clone(ledger));
    let step = cx.step(name, move |s: Cx| async move {
        ledger.note_as(s.run_id(), &format!("/{}", s.task()), s.attempt());
        tokio::time::sleep(WORK).await;
        if s.attempt() <= failures { Err(Failure::new("not yet")) } else { Ok(s.task().to_owned()) }
    });
    let step = step.retry(Retry::attempts(3).delay(WORK).fixed()).undo(move |id: String| async move {
        undoing.note_as(run, &format!("/{id}/undo"), 1);
        tokio::time::sleep(WORK).await;
        Ok::<_, Failure>(())
    });
    step.await.map(|_| 1)
}

/// Something of everything that a function may call.
#[flow]
pub async fn journey(cx: &Flow, plan: &Plan, ledger: Res<Arc<Ledger>>) -> Result<u64> {
    let ledger: &Arc<Ledger> = &ledger;
    let mut sum = 0;
    for _ in 0..plan.links {
        sum += noted(cx, ledger, "link", 0).await?;
    }
    let (left, right, flaky) = tokio::try_join!(
        noted(cx, ledger, "left", 0),
        noted(cx, ledger, "right", 0),
        noted(cx, ledger, "flaky", 1),
    )?;
    cx.sleep(Duration::from_millis(2)).await?;
    sum += left + right + flaky + cx.event(GO).await?;
    let items = [(); 3].map(|()| Box::pin(noted(cx, ledger, "item", 0)));
    sum += cx.map(items, 2, |item| item).await?.into_iter().sum::<u64>();
    sum += cx.run(errand::workflow(), ()).await?;
    let in_time = windlass::select! {
        slept = cx.sleep(Duration::from_millis(3)) => slept.map(|()| true)?,
        // Nobody sends it twice.
        again = cx.event(GO) => again.map(|_| false)?,
    };
    if plan.fails || !in_time {
        return Err(Failure::permanent("no seats"));
    }
    Ok(sum + noted(cx, ledger, "end", 0).await?)
}

/// What a journey has somebody else do.
#[flow]
pub async fn errand(cx: &Flow, ledger: Res<Arc<Ledger>>) -> Result<u64> {
    let first = noted(cx, &ledger, "fetch", 0).await?;
    cx.sleep(Duration::from_millis(2)).await?;
    Ok(first + noted(cx, &ledger, "carry", 0).await?)
}

/// Two sleeps.
#[flow]
pub async fn naps(cx: &Flow) -> Result<()> {
    cx.sleep(Duration::from_secs(2)).await?;
    cx.sleep(Duration::from_secs(3)).await
}

/// Waits for a time, and then does one thing.
#[flow]
pub async fn alarm(cx: &Flow, at: Time, ledger: Res<Arc<Ledger>>) -> Result<u64> {
    cx.sleep_until(at).await?;
    noted(cx, &ledger, "ring", 0).await
}

/// Waits for word, so many times.
#[flow]
pub async fn listen(cx: &Flow, times: u64) -> Result<u64> {
    let mut sum = 0;
    for _ in 0..times {
        sum += cx.event(GO).await?;
    }
    Ok(sum)
}
