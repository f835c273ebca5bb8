//! Rate limits for any task.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep_until;
use windlass_core::{Pace, Turns};

use crate::{Cx, Failure};

/// Lets no more than so many begin in any span of a length, wherever in a task or a step that is asked for.
///
/// Without a name it counts in this value alone. [Named](Self::named), it counts in all processes on the database together:
/// they find each other by the name, so give it the same numbers everywhere. A turn that was had and not used is lost, so
/// that the limit is never exceeded, whoever dies when.
///
/// ```
/// use std::time::Duration;
/// use windlass::{RateLimit, prelude::*};
///
/// /// What the bank lets us ask, all processes together.
/// static BANK: RateLimit = RateLimit::named("bank", 100, Duration::from_secs(1));
///
/// #[workflow]
/// mod pay {
///     use super::*;
///
///     #[task]
///     pub async fn charge(input: u64, cx: &Cx) -> Result<String> {
///         BANK.turn(cx).await?;
///         Ok(format!("{input} cents"))
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// # let engine = Engine::open("sqlite::memory:").workflow(pay::workflow()).launch().await?;
/// # assert_eq!(engine.start(pay::workflow(), 42).await?.await?, "42 cents");
/// # engine.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RateLimit {
    name: Option<&'static str>,
    pace: Pace,
    here: Mutex<Turns>,
}

impl RateLimit {
    /// A limit that is shared by whoever uses this very value. Zero times are taken as once.
    #[must_use]
    pub const fn new(times: u32, per: Duration) -> Self {
        Self { name: None, pace: Pace::new(times, per), here: Mutex::new(Turns::new()) }
    }

    /// A limit that is shared by all processes on the database, under this name.
    #[must_use]
    pub const fn named(name: &'static str, times: u32, per: Duration) -> Self {
        let mut limit = Self::new(times, per);
        limit.name = Some(name);
        limit
    }

    /// Waits for a turn. Meanwhile the attempt keeps its slot; a wait that may be long is better left to a
    /// [queue](crate::EngineBuilder::queue).
    ///
    /// # Errors
    ///
    /// When the attempt is asked to stop meanwhile, or its node has lost the database.
    pub async fn turn(&self, cx: &Cx) -> Result<(), Failure> {
        let Some(node) = cx.node() else {
            // A body that a test calls by itself has no engine, and no clock but this.
            return Ok(());
        };
        let turn = match self.name {
            None => self.here.lock().take(&self.pace, node.hub.clock.now()),
            Some(name) => node.shared.turn(node, name, self.pace).await?,
        };
        tokio::select! {
            biased;
            () = sleep_until(node.hub.clock.instant(turn)) => Ok(()),
            () = cx.cancelled() => Err(Failure::new("it was asked to stop while it waited for its turn")),
        }
    }
}
