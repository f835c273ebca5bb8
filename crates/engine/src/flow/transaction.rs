//! Steps whose record is written in a transaction of their own, together with what they wrote.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use windlass_core::{CallKind, Failure, StepKind, Time};
use windlass_store::StepRow;

use super::scene::{Outcome, Scene, Then};
use crate::{
    Cx,
    committer::{Lost, Thread},
    run_loop::Mail,
};

/// One attempt of such a step.
#[derive(Clone)]
struct Booking {
    scene: Arc<Scene>,
    call: u64,
    cx: Cx,
    started_at: Time,
}

/// What was written: the result as JSON, and when.
type Booked = (Bytes, Time);

impl Booking {
    fn new(scene: &Arc<Scene>, call: u64, cx: Cx) -> Self {
        Self { scene: Arc::clone(scene), call, cx, started_at: scene.now() }
    }

    /// Refuses a store that such a transaction is not of.
    fn on<S: 'static>(&self, kind: &str) -> Result<(), Failure> {
        let store = &self.scene.cell().node.hub.store;
        match store.itself().is_some_and(|store| store.is::<S>()) {
            true => Ok(()),
            false => Err(Failure::permanent(format!(
                "the step `{}` takes a transaction on {kind}, and the engine's store is {}",
                self.cx.step(),
                store.describe()
            ))),
        }
    }

    /// The record of a result.
    fn record(&self, json: Bytes) -> Result<(StepRow, Booked), Failure> {
        let (id, at, scene) = (self.cx.step(), self.scene.now(), &self.scene);
        let kept = scene.cell().node.hub.keep(format_args!("the result of `{id}`"), json.clone());
        let kept = kept.map_err(|error| Failure::permanent(Failure::from(error)))?;
        let number = self.cx.attempt();
        let row = scene.row(&id, number, StepKind::Completed, self.started_at, at, Some(kept), None);
        Ok((row, (json, at)))
    }

    /// What follows from a record.
    fn then(&self, (json, at): Booked) -> Then {
        Then::Ended(self.cx.step(), CallKind::Step, at, Outcome::Value(json))
    }

    /// The run is somebody else's business.
    fn lose(&self, why: Lost) {
        let cell = self.scene.cell();
        if matches!(why, Lost::Fenced) {
            cell.node.hub.identity.lose(Some(cell.subject.holder));
        }
        cell.hand(Mail::Committed(0, Err(Box::new(why))), Thread::Ours);
    }
}

/// Waits for bad news. Of good news the function hears in its turn, with everything else that is recorded.
async fn bad_news<T>(news: oneshot::Receiver<T>) -> T {
    match news.await {
        Ok(news) => news,
        Err(_) => std::future::pending().await,
    }
}
