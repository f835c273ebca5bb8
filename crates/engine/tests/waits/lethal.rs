//! Code that kills its process, again and again: undos, and steps of durable functions.

use std::sync::Arc;

use tokio::sync::Notify;
use windlass::{RunId, RunState, TaskState, prelude::*, testing::Lab};

use crate::{Tally, hours};

/// Where code says that it kills its process now.
#[derive(Clone, Default)]
struct Lethal(Arc<Notify>);

impl Lethal {
    async fn strike(&self) {
        self.0.notify_one();
        std::future::pending::<()>().await;
    }
}

/// Books two things, of which undoing the second is lethal, and fails.
#[workflow]
mod trip {
    use super::*;

    #[task]
    pub async fn flight() -> Result<()> {
        Ok(())
    }

    #[undo(flight)]
    pub async fn cancel_flight(tally: Res<Tally>) -> Result<()> {
        tally.add("no flight");
        Ok(())
    }

    #[task(after = [flight])]
    pub async fn hotel() -> Result<()> {
        Ok(())
    }

    #[undo(hotel)]
    pub async fn cancel_hotel(tally: Res<Tally>, lethal: Res<Lethal>) -> Result<()> {
        tally.add("lethal");
        lethal.strike().await;
        Ok(())
    }

    #[task(after = [hotel], retry(attempts = 1))]
    pub async fn end() -> Result<()> {
        Err("no seats".into())
    }
}

/// The same as a durable function.
#[flow]
async fn journey(_: &(), cx: &Flow, tally: Res<Tally>, lethal: Res<Lethal>) -> Result<()> {
    let (mine, lethal) = (Res::clone(&tally), Res::clone(&lethal));
    let done = || async { Ok::<_, Failure>(()) };
    let no_flight = move |()| async move {
        tally.add("no flight");
        Ok::<_, Failure>(())
    };
    let no_hotel = move |()| async move {
        mine.add("lethal");
        lethal.strike().await;
        Ok::<_, Failure>(())
    };
    cx.step("flight", done).undo(no_flight).await?;
    cx.step("hotel", done).undo(no_hotel).await?;
    Err("no seats".into())
}

/// Is undone for hours, and kills nobody.
#[flow]
async fn slow(_: &(), cx: &Flow, tally: Res<Tally>) -> Result<()> {
    let undo = move |()| async move {
        tokio::time::sleep(hours(1)).await;
        tally.add("slowly undone");
        Ok::<_, Failure>(())
    };
    cx.step("book", || async { Ok::<_, Failure>(()) }).undo(undo).await?;
    Err("no seats".into())
}

/// Works for hours, or kills its process.
#[flow]
async fn work(deadly: bool, cx: &Flow, lethal: Res<Lethal>) -> Result<()> {
    let (deadly, lethal) = (deadly, &lethal);
    cx.step("work", || async move {
        if deadly {
            lethal.strike().await;
        }
        tokio::time::sleep(hours(1)).await;
        Ok::<_, Failure>(())
    })
    .await?;
    Ok(())
}

/// An engine that crashes whenever code strikes.
struct Program {
    lab: Lab,
    tally: Tally,
    lethal: Lethal,
}

impl Program {
    fn new(lab: Lab) -> Self {
        Self { lab, tally: Tally::default(), lethal: Lethal::default() }
    }

    async fn launch(&self) -> Result<Engine> {
        let engine = self.lab.engine().resource(self.tally.clone()).resource(self.lethal.clone());
        let engine = engine.workflow(trip::workflow()).workflow(journey::workflow());
        let engine = engine.workflow(slow::workflow()).workflow(work::workflow());
        Ok(engine.max_recoveries(2).launch().await?)
    }

    /// Lets it run until all of these have ended. Answers how often it crashed.
    async fn run(&self, mut engine: Engine, runs: &[RunId]) -> Result<(Engine, u32)> {
        let mut deaths = 0;
        loop {
            let all_ended = async {
                for run in runs {
                    // How it ended is looked at later.
                    engine.run(&journey::workflow(), *run).await.ok();
                }
            };
            tokio::select! {
                () = self.lethal.0.notified() => {}
                () = all_ended => return Ok((engine, deaths)),
            }
            deaths += 1;
            assert!(deaths < 20, "it never ends");
            self.lab.crash(&engine);
            engine = self.launch().await?;
        }
    }
}

/// The first death leaves no trace of what was started; of those after it, two are survived.
const DEATHS: u32 = 4;

#[windlass::test]
async fn an_undo_of_a_task_that_kills_its_process_has_failed_and_the_verdict_stands(lab: Lab) -> Result<()> {
    let program = Program::new(lab);
    let engine = program.launch().await?;
    let id = engine.start(trip::workflow(), ()).await?.id();
    let (engine, deaths) = program.run(engine, &[id]).await?;
    assert_eq!(deaths, DEATHS);
    assert_eq!((program.tally.of("lethal"), program.tally.of("no flight")), (DEATHS as usize, 1));
    let status = engine.run(&trip::workflow(), id).status().await?;
    assert_eq!(status.state, RunState::Failed);
    let (flight, hotel) = (status.task("flight").unwrap(), status.task("hotel").unwrap());
    assert_eq!((flight.undo, hotel.undo), (Some(TaskState::Completed), Some(TaskState::Failed)));
    let failure = hotel.undo_failure.as_ref().unwrap().to_string();
    assert!(failure.contains("died 3 times in a row"), "{failure}");
    Ok(())
}

#[windlass::test]
async fn an_undo_of_a_step_that_kills_its_process_has_failed_and_the_verdict_stands(lab: Lab) -> Result<()> {
    let program = Program::new(lab);
    let engine = program.launch().await?;
    let id = engine.start(journey::workflow(), ()).await?.id();
    let (engine, deaths) = program.run(engine, &[id]).await?;
    assert_eq!(deaths, DEATHS);
    assert_eq!((program.tally.of("lethal"), program.tally.of("no flight")), (DEATHS as usize, 1));
    let mut run = engine.run(&journey::workflow(), id);
    let error = (&mut run).await.unwrap_err().to_string();
    assert!(error.contains("no seats"), "{error}");
    let status = run.status().await?;
    let hotel = status.calls.iter().find(|call| &*call.name == "hotel").unwrap();
    assert_eq!(hotel.undo, Some(TaskState::Failed));
    let failure = hotel.undo_failure.as_ref().unwrap().to_string();
    assert!(failure.contains("died 3 times in a row"), "{failure}");
    Ok(())
}

#[windlass::test]
async fn an_undo_that_dies_along_with_a_lethal_one_is_done_all_the_same(lab: Lab) -> Result<()> {
    let program = Program::new(lab);
    let engine = program.launch().await?;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(engine.start(slow::workflow(), ()).await?.id());
    }
    runs.push(engine.start(journey::workflow(), ()).await?.id());
    let (engine, deaths) = program.run(engine, &runs).await?;
    assert_eq!(deaths, DEATHS);
    assert_eq!(program.tally.of("slowly undone"), 3);
    for id in &runs[..3] {
        let status = engine.run(&slow::workflow(), *id).status().await?;
        assert_eq!(status.calls[0].undo, Some(TaskState::Completed), "{:?}", status.calls[0].undo_failure);
    }
    Ok(())
}

#[windlass::test]
async fn a_step_that_dies_along_with_a_lethal_one_of_another_run_does_not_abandon_its_own(
    lab: Lab,
) -> Result<()> {
    let program = Program::new(lab);
    let engine = program.launch().await?;
    let mut runs = Vec::new();
    for is_deadly in [false, true, false] {
        runs.push(engine.start(work::workflow(), is_deadly).await?.id());
    }
    let (engine, deaths) = program.run(engine, &runs).await?;
    assert_eq!(deaths, DEATHS);
    let mut states = Vec::new();
    for id in runs {
        states.push(engine.run(&work::workflow(), id).status().await?.state);
    }
    assert_eq!(states, [RunState::Completed, RunState::Abandoned, RunState::Completed]);
    Ok(())
}
