//! What the shop did before anybody looked, so that there is something to see at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use windlass::{
    Engine, RunId, Time,
    sqlite::{SqliteOptions, Synchronous},
};

use super::{
    engine,
    letters::{Letter, email},
    report::sales_report,
    shop::Shop,
    suppliers::{Bill, payout},
};
use crate::trouble::Trouble;

/// How far back it goes.
const MINUTES: u64 = 60;
/// How many minutes pass at a time.
const STEP: u64 = 3;
/// The longest that is waited for what began in a step; the rest ends in the next one.
const PATIENCE: Duration = Duration::from_millis(150);

/// Has an hour pass in a database that is new, in a few seconds: step by step, each with a clock that is less late.
pub(super) async fn make(url: &str) -> Result<(), Trouble> {
    let shop = Arc::new(Shop::new(0.02));
    let late = Arc::new(AtomicU64::new(0));
    let clock = {
        let late = Arc::clone(&late);
        move || now(Duration::from_secs(60 * late.load(Relaxed)))
    };
    late.store(MINUTES, Relaxed);
    let store = SqliteOptions::new().synchronous(Synchronous::Normal).clock(clock).open(url).await;
    let store = Arc::new(store.map_err(|why| Trouble::Database(why.to_string()))?);
    for minutes in (1..=MINUTES / STEP).rev().map(|step| step * STEP) {
        late.store(minutes, Relaxed);
        // An engine follows the clock that it finds when it is launched.
        let engine = engine(Engine::over(Arc::clone(&store) as _), &shop).name("yesterday").launch().await?;
        let begun = begin(&engine).await?;
        let ended = async {
            for run in begun {
                // Those that fail are part of the story.
                drop(engine.find_run(run).await?.await);
            }
            Ok::<_, Trouble>(())
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap_or(Ok(()))?;
        engine.stop().await?;
    }
    Ok(())
}

/// Starts some runs that need nobody.
async fn begin(engine: &Engine) -> Result<Vec<RunId>, Trouble> {
    let mut begun = vec![engine.start(sales_report::workflow(), ()).await?.id()];
    for _ in 0..fastrand::usize(3..9) {
        let letter = Letter { to: "ada@mail.example".to_owned(), subject: "Thank you".to_owned() };
        begun.push(engine.start(email::workflow(), letter).tag("thanks").await?.id());
    }
    let bill = Bill { supplier: "Kona Estate".to_owned(), cents: fastrand::u64(20_000..90_000) };
    begun.push(engine.start(payout::workflow(), bill).tag("suppliers").await?.id());
    Ok(begun)
}

#[allow(clippy::disallowed_methods, reason = "what is late has to be late by the machine's clock")]
fn now(late: Duration) -> Time {
    Time::from(SystemTime::now() - late)
}
