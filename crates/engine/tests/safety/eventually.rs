//! Waiting for something to become true.

use std::time::{Duration, Instant};

/// How long anything may take on a busy machine before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Looking is work too: with pauses like this it takes nothing from what is looked at.
const PAUSE: Duration = Duration::from_millis(25);

/// Looks until `holds` answers yes; fails the test when that takes too long. Answers how long it took.
#[track_caller]
pub fn eventually(what: &str, within: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < within, "{what}: not within {within:?}");
        std::thread::sleep(PAUSE);
    }
    began.elapsed()
}

/// The same for a question that has to be awaited.
pub async fn eventually_async<F>(what: &str, within: Duration, mut holds: impl FnMut() -> F) -> Duration
where
    F: Future<Output = bool>,
{
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < within, "{what}: not within {within:?}");
        tokio::time::sleep(PAUSE).await;
    }
    began.elapsed()
}
