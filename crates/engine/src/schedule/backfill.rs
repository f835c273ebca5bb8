//! Asking a schedule for past times.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
};

use windlass_core::Time;

use super::{ScheduleHandle, message::Message};
use crate::Error;

/// A wish for the runs of past times. It is told when it is awaited, and answers with the times.
#[derive(Debug)]
#[must_use = "past times are asked for by awaiting this"]
pub struct Backfill {
    schedule: ScheduleHandle,
    from: Time,
    to: Time,
    is_dry: bool,
}

impl Backfill {
    pub(super) fn new(schedule: ScheduleHandle, from: Time, to: Time) -> Self {
        Self { schedule, from, to, is_dry: false }
    }

    /// Only says which times there are. Those that have a run are among them.
    pub fn dry_run(mut self) -> Self {
        self.is_dry = true;
        self
    }

    async fn ask(self) -> Result<Vec<Time>, Error> {
        let Self { schedule, from, to, is_dry } = self;
        let view = schedule.view().await?;
        let definition = &view.ledger.declaration.schedule;
        let times = definition
            .backfill(&view.ledger.state, from, to, view.now)
            .map_err(|why| Error::Invalid(why.to_string()))?;
        if !is_dry && !times.is_empty() {
            schedule.tell(Message::Backfill { from, to }).await?;
        }
        Ok(times)
    }
}

impl IntoFuture for Backfill {
    type Output = Result<Vec<Time>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.ask())
    }
}
