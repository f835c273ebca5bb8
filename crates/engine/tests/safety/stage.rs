//! Engines inside the test's own process, whose one task does what the test wants.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use windlass::{Engine, EngineBuilder, Task, TaskCx, Workflow};
use windlass_store::Store;

/// What the tasks of several engines did, in order, and when their attempts may end.
#[derive(Clone, Default)]
pub struct Stage {
    scenes: Arc<Mutex<Vec<Scene>>>,
}

/// Something that happened to an attempt.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The engine it happened in.
    pub by: &'static str,
    pub step: String,
    pub what: What,
    pub at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Began,
    /// It was dropped before it returned.
    Dropped,
    Returned,
}

/// The engine that an attempt runs in, and when attempts return there.
#[derive(Clone)]
struct House {
    name: &'static str,
    curtain: CancellationToken,
}

impl Stage {
    /// Two tasks in a row that return when the curtain of their engine falls.
    pub fn workflow(&self) -> Workflow<u64, u64> {
        let task = |name: &str| {
            let stage = self.clone();
            Task::new(name, move |cx: TaskCx| {
                let stage = stage.clone();
                async move {
                    let house = cx.res::<House>()?;
                    let mut player = Player::new(&stage, house.name, &cx);
                    house.curtain.cancelled().await;
                    player.what = What::Returned;
                    Ok(1_u64)
                }
            })
        };
        let second = task("second").after(["first"]);
        let graph = Workflow::builder("play").task(task("first")).task(second);
        graph.output("second").build().expect("the graph is sound").typed()
    }

    /// An engine on this store, with fast heartbeats. Attempts return when the curtain falls.
    pub fn engine(
        &self,
        name: &'static str,
        store: Arc<dyn Store>,
        curtain: &CancellationToken,
    ) -> EngineBuilder {
        Engine::over(store)
            .workflow(self.workflow())
            .resource(House { name, curtain: curtain.clone() })
            .heartbeat(Duration::from_millis(100))
            .stale_after(Duration::from_secs(60))
            .cancel_grace(Duration::from_millis(50))
            .poll(Duration::from_secs(3600))
    }

    pub fn scenes(&self) -> Vec<Scene> {
        self.scenes.lock().clone()
    }

    /// When this first happened.
    pub fn when(&self, by: &str, step: &str, what: What) -> Option<Instant> {
        let scenes = self.scenes.lock();
        scenes
            .iter()
            .find(|scene| scene.by == by && scene.step == step && scene.what == what)
            .map(|scene| scene.at)
    }
}

/// Notes the life of one attempt.
struct Player {
    stage: Stage,
    by: &'static str,
    step: String,
    what: What,
}

impl Player {
    fn new(stage: &Stage, by: &'static str, cx: &TaskCx) -> Self {
        let player = Self { stage: stage.clone(), by, step: cx.task().to_owned(), what: What::Dropped };
        player.note(What::Began);
        player
    }

    fn note(&self, what: What) {
        let (step, at) = (self.step.clone(), Instant::now());
        self.stage.scenes.lock().push(Scene { by: self.by, step, what, at });
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.note(self.what);
    }
}
