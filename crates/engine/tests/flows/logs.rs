//! What a durable function logs, it logs once.

use std::{
    fmt::{Debug, Write},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use windlass::{Failure, Flow, Res, Result, testing::Lab};

use crate::common::{Fut, Tally, function};

/// Keeps what is logged.
#[derive(Clone, Default)]
pub struct Ear(Arc<Mutex<Vec<String>>>);

impl Ear {
    /// How often something was logged with these words in it.
    pub fn times(&self, what: &str) -> usize {
        self.0.lock().iter().filter(|line| line.contains(what)).count()
    }
}

impl Subscriber for Ear {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
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

fn talks<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async move {
        tracing::info!("alpha");
        for _ in 0..3 {
            cx.sleep(Duration::from_secs(3600)).await?;
        }
        tracing::info!("beta");
        cx.step("work", || async {
            tracing::info!("gamma");
            Ok::<_, Failure>(())
        })
        .await?;
        tracing::info!("delta");
        cx.sleep(Duration::from_secs(3600)).await
    })
}

fn silent<'a>(_: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, ()> {
    Box::pin(async { Ok(()) })
}

#[windlass::test]
async fn what_is_logged_before_the_last_record_is_not_logged_again(lab: Lab) -> Result<()> {
    let ear = Ear::default();
    let _ear = tracing::subscriber::set_default(ear.clone());
    let flow = || function("talks", talks);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    let run = engine.start(flow(), ()).await?;
    lab.advance(Duration::from_secs(3 * 3600 + 600)).await;
    // It was parked behind the first one before anything was recorded.
    let alpha = ear.times("alpha");
    assert_eq!(alpha, 2);
    assert_eq!(["beta", "gamma", "delta"].map(|what| ear.times(what)), [1, 1, 1]);
    engine.check(flow()).await?;
    lab.crash(&engine);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    engine.run(&flow(), run.id()).await?;
    assert_eq!((ear.times("alpha"), ear.times("beta"), ear.times("gamma")), (alpha, 1, 1));
    Ok(())
}

#[windlass::test]
async fn what_the_engine_has_to_say_of_a_replay_is_heard(lab: Lab) -> Result<()> {
    let ear = Ear::default();
    let _ear = tracing::subscriber::set_default(ear.clone());
    let flow = || function("talks", talks);
    let engine = lab.engine().resource(Tally::default()).workflow(flow()).launch().await?;
    engine.start(flow(), ()).await?;
    lab.advance(Duration::from_secs(4000)).await;
    engine.stop().await?;
    lab.engine().resource(Tally::default()).workflow(function("talks", silent)).launch().await?;
    lab.advance(Duration::from_secs(4000)).await;
    assert_eq!(ear.times("the run is blocked"), 1);
    Ok(())
}
