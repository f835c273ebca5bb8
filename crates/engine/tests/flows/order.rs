//! The order in which a function hears of things, on several threads.

use std::sync::Arc;

use parking_lot::Mutex;
use windlass::{Engine, Failure, Flow, Res, Result};

use crate::common::{Fut, Tally, function};

fn race<'a>(cx: &'a Flow, (): (), _: Res<Tally>) -> Fut<'a, Vec<String>> {
    Box::pin(async move {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let branch = |name: &'static str| {
            let heard = Arc::clone(&heard);
            async move {
                cx.step(name, || async { Ok::<_, Failure>(()) }).await?;
                heard.lock().push(name.to_owned());
                Ok::<_, Failure>(())
            }
        };
        tokio::try_join!(branch("a"), branch("b"), branch("c"), branch("d"), branch("e"), branch("f"))?;
        let heard = heard.lock().clone();
        Ok(heard)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_function_hears_of_its_steps_in_the_order_in_which_they_were_recorded() -> Result<()> {
    let flow = || function("race", race);
    let engine = Engine::open("sqlite::memory:").resource(Tally::default()).workflow(flow()).launch().await?;
    let mut runs = Vec::new();
    for _ in 0..300 {
        runs.push(engine.start(flow(), ()).await?);
    }
    for run in runs {
        let id = run.id();
        let heard = run.await?;
        let calls = engine.run(&flow(), id).status().await?.calls;
        let recorded: Vec<String> = calls.iter().map(|call| call.name.to_string()).collect();
        assert_eq!(heard, recorded);
    }
    engine.stop().await?;
    Ok(())
}
