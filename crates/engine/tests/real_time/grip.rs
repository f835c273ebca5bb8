//! Code that keeps its thread and has no limit: it is named.

use std::{
    fmt::{Debug, Write},
    sync::{Arc, atomic::Ordering},
};

use parking_lot::Mutex;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use windlass::prelude::*;

use crate::hog::{Hog, LetGo, eventually};

#[workflow]
mod knots {
    use super::*;

    /// Waits first: from then on it has a task of its own.
    #[task]
    pub async fn untie(input: bool, hog: Res<Hog>) -> Result<()> {
        if input {
            tokio::task::yield_now().await;
        }
        hog.hold();
        Ok(())
    }
}

/// Keeps the errors that this process logs.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<String>>>);

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        write!(self.0, "{value:?} ").expect("text takes everything");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_attempt_without_a_limit_that_keeps_its_thread_is_named_in_the_log() -> Result<()> {
    let (ear, hog) = (Ear::default(), Arc::new(Hog::default()));
    tracing::subscriber::set_global_default(ear.clone()).expect("no other test of this program listens");
    let _let_go = LetGo(Arc::clone(&hog));
    let engine =
        Engine::open("sqlite::memory:").shared(Arc::clone(&hog)).workflow(knots::workflow()).launch().await?;
    let (at_once, later) =
        (engine.start(knots::workflow(), false).await?, engine.start(knots::workflow(), true).await?);
    let ids = [at_once.id(), later.id()].map(|id| id.to_string());
    let named = |id: &str| {
        let lines = ear.0.lock();
        let about = lines.iter().filter(|line| line.contains(id) && line.contains("does not yield"));
        about.cloned().collect::<Vec<_>>()
    };
    eventually("both are named", || ids.iter().all(|id| !named(id).is_empty())).await;
    for id in &ids {
        let lines = named(id);
        assert!(lines.len() == 1 && lines[0].contains("knots") && lines[0].contains("untie"), "{lines:?}");
    }
    assert!(engine.overdue().is_empty(), "none of them has a limit to be past");
    hog.let_go.store(true, Ordering::SeqCst);
    engine.stop().await?;
    Ok(())
}
