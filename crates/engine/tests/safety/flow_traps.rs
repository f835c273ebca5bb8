//! What other engines got wrong in waits, events and undos.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{runtime::Handle, sync::Notify};
use windlass::{
    RunState,
    machine::{MachineState, Progress},
    prelude::*,
};

use crate::{
    durable::GO,
    eventually::{PATIENCE, eventually},
    flow_waits::{in_time, until},
    room::Room,
};

/// What was done, in order, and what something waits for.
#[derive(Debug, Default)]
struct World {
    done: Mutex<Vec<String>>,
    gate: Notify,
    /// How often the undo of the second deed has begun, and how often it is to hang.
    begun: AtomicU32,
    hangs: u32,
}

impl World {
    fn note(&self, what: impl Into<String>) {
        self.done.lock().push(what.into());
    }

    fn done(&self) -> Vec<String> {
        self.done.lock().clone()
    }
}

/// Two steps race, and the one that is written first comes second. Both are recorded when it waits for word.
#[flow]
async fn race(cx: &Flow, world: Res<Arc<World>>) -> Result<String> {
    let mut late = std::pin::pin!(cx.step("late", || async {
        world.gate.notified().await;
        Ok::<_, Failure>("late".to_owned())
    }));
    let mut early = std::pin::pin!(cx.step("early", || async { Ok::<_, Failure>("early".to_owned()) }));
    let winner = windlass::select! {
        won = &mut late => won?,
        won = &mut early => won?,
    };
    world.gate.notify_one();
    if winner == "early" {
        late.await?;
    } else {
        early.await?;
    }
    cx.event(GO).await?;
    Ok(winner)
}

/// Two branches call the same helper, and the one that is written first is slower.
#[flow]
async fn joined(cx: &Flow, world: Res<Arc<World>>) -> Result<(String, String)> {
    async fn fetch(cx: &Flow, world: &World, which: &str) -> Result<String> {
        cx.step("prepare", || async {
            if which == "left" {
                world.gate.notified().await;
            }
            Ok::<_, Failure>(())
        })
        .await?;
        cx.step("fetch", || async {
            world.gate.notify_one();
            Ok::<_, Failure>(which.to_owned())
        })
        .await
    }
    let both = tokio::try_join!(fetch(cx, &world, "left"), fetch(cx, &world, "right"))?;
    cx.event(GO).await?;
    Ok(both)
}

/// Sleeps for longer than anybody waits.
#[flow]
async fn sleeper(cx: &Flow) -> Result<()> {
    cx.sleep(Duration::from_secs(86_400)).await
}

/// Ends at once.
#[flow]
async fn brief(cx: &Flow) -> Result<u64> {
    cx.step("work", || async { Ok::<_, Failure>(7) }).await
}

/// Two deeds, and a failure. The undo of the first one, which comes last, hangs as often as the world says.
#[flow]
async fn regret(cx: &Flow, world: Res<Arc<World>>) -> Result<()> {
    for deed in ["first", "second"] {
        let world = Arc::clone(&world);
        let undo = move |()| async move {
            if deed == "first" && world.begun.fetch_add(1, Ordering::SeqCst) < world.hangs {
                std::future::pending::<()>().await;
            }
            world.note(format!("undo {deed}"));
            Ok::<_, Failure>(())
        };
        cx.step(deed, || async { Ok::<_, Failure>(()) }).undo(undo).await?;
    }
    Err("regretted".into())
}

/// Where a walk is.
#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Place {
    Walking,
    Waiting,
    Home,
}

/// What a walk has come to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Walk {
    laps: u32,
    steps: Vec<u32>,
}

struct Walker;

#[machine(state = Place, data = Walk, initial = Walking, terminal = [Home])]
impl Walker {
    #[on(Walking, to = [Waiting, Home], stepped)]
    async fn walk(&self, cx: &Flow, data: &mut Walk, cursor: &mut u32) -> Result<Progress<Place>> {
        let at = *cursor;
        data.steps.push(cx.step("walk", || async move { Ok::<_, Failure>(at) }).await?);
        *cursor += 1;
        Ok(match (*cursor, data.laps) {
            (..2, _) => Progress::More,
            (_, 1) => Progress::Done(Place::Home),
            _ => Progress::Done(Place::Waiting),
        })
    }

    #[on(Waiting, to = [Walking])]
    async fn wait(&self, cx: &Flow, data: &mut Walk) -> Result<Place> {
        cx.event(GO).await?;
        data.laps += 1;
        Ok(Place::Walking)
    }
}

/// One more process, as far as the database can tell.
async fn launch(room: &Room, world: &Arc<World>) -> Engine {
    let engine = Engine::over(room.store().await)
        .resource(Arc::clone(world))
        .workflow(race::workflow())
        .workflow(joined::workflow())
        .workflow(sleeper::workflow())
        .workflow(brief::workflow())
        .workflow(regret::workflow())
        .workflow(Walker::workflow())
        .max_runs(4)
        .park_after(Duration::from_millis(50));
    engine.resource(Walker).launch().await.expect("it launches")
}

/// Runs something up to where it waits for word, and gives it that in the next process.
async fn in_two_processes<I, O>(room: &Room, workflow: Workflow<I, O>, input: I) -> O
where
    I: Serialize + Send + Sync + 'static,
    O: serde::de::DeserializeOwned,
{
    let world = Arc::default();
    let first = launch(room, &world).await;
    let id = first.start(workflow.clone(), input).await.expect("it starts").id();
    until(room, id, RunState::Suspended).await;
    first.stop().await.expect("it stops");
    let second = launch(room, &world).await;
    second.run(&workflow, id).send(GO, &1).await.expect("it is sent");
    let ended = in_time(second.run(&workflow, id)).await.expect("the run completes");
    second.stop().await.expect("it stops");
    ended
}

async fn a_race_of_steps_has_the_same_winner_in_the_next_process(room: Room) {
    assert_eq!(in_two_processes(&room, race::workflow(), ()).await, "early");
}

async fn joined_branches_that_call_the_same_step_do_not_swap_its_results_in_the_next_process(room: Room) {
    let both = in_two_processes(&room, joined::workflow(), ()).await;
    assert_eq!(both, ("left".to_owned(), "right".to_owned()));
}

async fn a_stepped_state_that_is_entered_again_begins_anew_in_the_next_process(room: Room) {
    let walk = in_two_processes(&room, Walker::workflow(), Walk::default()).await;
    assert_eq!(walk.data.steps, [0, 1, 0, 1]);
}

async fn an_undo_that_was_recorded_is_not_repeated_by_any_process_that_goes_on_with_the_others(room: Room) {
    let world = Arc::new(World { hangs: 2, ..World::default() });
    let mut engine = launch(&room, &world).await;
    let id = engine.start(regret::workflow(), ()).await.expect("it starts").id();
    for time in 1..=2 {
        eventually("the undo hangs", PATIENCE, || world.begun.load(Ordering::SeqCst) == time);
        engine.stop_now().await.expect("it stops");
        engine = launch(&room, &world).await;
    }
    let error = in_time(engine.run(&regret::workflow(), id)).await.expect_err("it failed");
    assert!(error.to_string().contains("regretted"), "the first verdict stands: {error}");
    assert_eq!(world.done(), ["undo second", "undo first"]);
    engine.stop().await.expect("it stops");
}

async fn a_sleeping_run_holds_no_room_no_task_and_no_shutdown(room: Room) {
    let world = Arc::default();
    let engine = launch(&room, &world).await;
    in_time(engine.start(brief::workflow(), ()).await.expect("it starts")).await.expect("it completes");
    let tasks = Handle::current().metrics().num_alive_tasks();
    let mut asleep = Vec::new();
    for _ in 0..40 {
        asleep.push(engine.start(sleeper::workflow(), ()).await.expect("it starts").id());
    }
    for id in asleep {
        until(&room, id, RunState::Suspended).await;
    }
    // Ten times as many as there is room for, and there is room for another.
    let brief = engine.start(brief::workflow(), ()).await.expect("it starts");
    assert_eq!(in_time(brief).await.expect("it completes"), 7);
    let more = Handle::current().metrics().num_alive_tasks().saturating_sub(tasks);
    assert!(more < 40, "{more} tasks more than before 40 runs fell asleep");
    in_time(engine.stop()).await.expect("it stops");
}

on_both! {
    a_race_of_steps_has_the_same_winner_in_the_next_process,
    joined_branches_that_call_the_same_step_do_not_swap_its_results_in_the_next_process,
    a_stepped_state_that_is_entered_again_begins_anew_in_the_next_process,
    an_undo_that_was_recorded_is_not_repeated_by_any_process_that_goes_on_with_the_others,
    a_sleeping_run_holds_no_room_no_task_and_no_shutdown,
}
