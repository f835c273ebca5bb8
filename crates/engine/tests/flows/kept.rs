//! Several versions of a function in one program.

use std::time::Duration;

use windlass::{Forecast, RunState, prelude::*, testing::Lab};

use crate::common::Tally;

const GO: Event<()> = Event::new("go");

async fn work(cx: &Flow, tally: &Tally, name: &'static str) -> Result<()> {
    cx.step(name, || async {
        tally.add(name);
        Ok::<_, Failure>(())
    })
    .await
}

mod v1 {
    use super::*;

    #[flow]
    pub async fn order(cx: &Flow, tally: Res<Tally>) -> Result<u32> {
        work(cx, &tally, "charge").await?;
        cx.event(GO).await?;
        work(cx, &tally, "ship").await?;
        Ok(1)
    }
}

mod v2 {
    use super::*;

    #[flow]
    pub async fn order(cx: &Flow, tally: Res<Tally>) -> Result<u32> {
        work(cx, &tally, "reserve").await?;
        cx.event(GO).await?;
        Ok(2)
    }
}

mod v3 {
    use super::*;

    #[flow(keep = [v2_keeps::order])]
    pub async fn order(cx: &Flow, tally: Res<Tally>) -> Result<u32> {
        work(cx, &tally, "ask").await?;
        cx.event(GO).await?;
        Ok(3)
    }
}

/// The second version, as the program had it that kept the first.
mod v2_keeps {
    use super::*;

    #[flow(keep = [v1::order])]
    pub async fn order(cx: &Flow, tally: Res<Tally>) -> Result<u32> {
        work(cx, &tally, "reserve").await?;
        cx.event(GO).await?;
        Ok(2)
    }
}

fn minute() -> Duration {
    Duration::from_secs(60)
}

#[windlass::test]
async fn a_run_goes_on_with_the_version_that_it_began_under(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let first = lab.engine().resource(tally.clone()).workflow(v1::order::workflow()).launch().await?;
    let one = first.start(v1::order::workflow(), ()).await?;
    lab.advance(minute()).await;
    first.stop().await?;
    let second = lab.engine().resource(tally.clone()).workflow(v2_keeps::order::workflow()).launch().await?;
    let two = second.start(v2_keeps::order::workflow(), ()).await?;
    lab.advance(minute()).await;
    let report = second.check(v3::order::workflow()).await?;
    let versions: Vec<_> = report.runs.iter().map(|run| (run.id, &*run.version)).collect();
    let (v1, v2) = (v1::order::workflow(), v2::order::workflow());
    assert_eq!(versions, [(two.id(), v2.version()), (one.id(), v1.version())]);
    assert_eq!(report.compatible().count(), 2, "{report}");
    second.stop().await?;
    let third = lab.engine().resource(tally.clone()).workflow(v3::order::workflow()).launch().await?;
    let three = third.start(v3::order::workflow(), ()).await?;
    for run in [one.id(), two.id(), three.id()] {
        third.run(&v3::order::workflow(), run).send(GO, &()).await?;
    }
    let order = v3::order::workflow();
    assert_eq!(third.run(&order, one.id()).await?, 1);
    assert_eq!(third.run(&order, two.id()).await?, 2);
    assert_eq!(three.await?, 3);
    assert_eq!(tally.all(), ["charge", "reserve", "ask", "ship"]);
    Ok(())
}

#[windlass::test]
async fn a_run_that_a_newer_program_blocked_is_taken_back_by_one_that_keeps_its_version(
    lab: Lab,
) -> Result<()> {
    let tally = Tally::default();
    let keeps = v2_keeps::order::workflow;
    let first = lab.engine().resource(tally.clone()).workflow(v1::order::workflow()).launch().await?;
    let run = first.start(v1::order::workflow(), ()).await?;
    lab.advance(minute()).await;
    let keeper = lab.engine().resource(tally.clone()).workflow(keeps()).launch().await?;
    first.stop().await?;
    lab.cut_off(&keeper);
    // While nobody else is there, it comes into the hands of a program that has no code for it.
    let newer = lab.engine().resource(tally.clone()).workflow(v2::order::workflow()).launch().await?;
    newer.run(&keeps(), run.id()).send(GO, &()).await?;
    lab.advance(minute()).await;
    assert_eq!(newer.run(&keeps(), run.id()).status().await?.state, RunState::Blocked);
    newer.stop().await?;
    lab.reconnect(&keeper);
    // Nobody tells it: it looks for such runs now and then.
    lab.advance(24 * 60 * minute()).await;
    assert_eq!(keeper.run(&keeps(), run.id()).status().await?.state, RunState::Completed);
    assert_eq!(tally.all(), ["charge", "ship"]);
    Ok(())
}

#[windlass::test]
async fn a_version_that_is_not_kept_is_compared_with_the_newest(lab: Lab) -> Result<()> {
    let engine = lab.engine().resource(Tally::default()).workflow(v1::order::workflow()).launch().await?;
    engine.start(v1::order::workflow(), ()).await?;
    lab.advance(minute()).await;
    let report = engine.check(v2::order::workflow()).await?;
    let Forecast::Blocked { reason } = &report.runs[0].forecast else { panic!("{report}") };
    assert_eq!(reason, "`charge` is recorded as a step, but the code does not call it where it begins");
    Ok(())
}

#[flow(keep = [v1::order, stranger_same])]
async fn stranger(_cx: &Flow) -> Result<u32> {
    Ok(0)
}

#[flow(name = "stranger", version = "2")]
async fn stranger_same(_cx: &Flow) -> Result<u32> {
    Ok(0)
}

#[flow(name = "stranger", version = "2", keep = [stranger_same])]
async fn twice(_cx: &Flow) -> Result<u32> {
    Ok(0)
}

#[windlass::test]
async fn what_cannot_be_kept_is_said_at_launch(lab: Lab) -> Result<()> {
    let error = lab.engine().workflow(stranger::workflow()).launch().await.unwrap_err().to_string();
    assert!(error.contains("`stranger` keeps `order`, which is another workflow"), "{error}");
    assert!(error.contains("Tally"), "what older versions take is missing too: {error}");
    let error = lab.engine().workflow(twice::workflow()).launch().await.unwrap_err().to_string();
    assert!(error.contains("two of the versions of `stranger` that are kept are the same (2, 2)"), "{error}");
    Ok(())
}
