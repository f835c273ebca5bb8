//! New code under runs in flight: what a check says beforehand is what becomes of them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass::{
    CheckReport, CheckedRun, Client, Engine, EngineBuilder, Forecast, RunId, RunState, prelude::*,
};
use windlass_store::Store;

use crate::{
    eventually::{PATIENCE, eventually_async},
    room::Room,
};

const GO: Event<()> = Event::new("go");

/// How long a run that waits stays in memory.
const PARKED_AFTER: Duration = Duration::from_millis(50);

/// Where runs wait: before one of their steps, or behind the last.
const HOLDS: [&str; 4] = ["a", "b", "c", "end"];

/// What was done, in order.
#[derive(Clone, Default)]
pub struct Diary(Arc<Mutex<Vec<&'static str>>>);

impl Diary {
    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

async fn wait_at(cx: &Flow, hold: &str, here: &str) -> Result<()> {
    if hold == here { cx.event(GO).await } else { Ok(()) }
}

async fn step(cx: &Flow, diary: &Diary, hold: &str, name: &'static str) -> Result<()> {
    wait_at(cx, hold, name).await?;
    let work = || async {
        diary.0.lock().push(name);
        Ok::<_, Failure>(())
    };
    cx.step(name, work).await
}

/// Takes these steps, with a wait before the one that is named.
async fn walk(cx: &Flow, diary: &Diary, hold: &str, names: &[&'static str]) -> Result<()> {
    for name in names {
        step(cx, diary, hold, name).await?;
    }
    wait_at(cx, hold, "end").await
}

/// What runs begin under.
mod before {
    use super::*;

    #[flow]
    pub async fn inserted(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        walk(cx, &diary, &hold, &["a", "b", "c"]).await
    }

    #[flow]
    pub async fn removed(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        walk(cx, &diary, &hold, &["a", "b", "c"]).await
    }

    #[flow]
    pub async fn renamed(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        walk(cx, &diary, &hold, &["a", "b", "c"]).await
    }

    #[flow]
    pub async fn reordered(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        walk(cx, &diary, &hold, &["a", "b", "c"]).await
    }

    #[flow]
    pub async fn retyped(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        step(cx, &diary, &hold, "a").await?;
        wait_at(cx, &hold, "b").await?;
        let _cents: u64 = cx.step("b", || async { Ok::<_, Failure>(420) }).await?;
        walk(cx, &diary, &hold, &["c"]).await
    }

    #[flow]
    pub async fn patched(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        walk(cx, &diary, &hold, &["a", "b", "c"]).await
    }

    #[flow]
    pub async fn kept(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        walk(cx, &diary, &hold, &["a", "b", "c"]).await
    }
}

/// What they are taken up with.
mod after {
    use super::*;

    #[flow]
    pub async fn inserted(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        walk(cx, &diary, &hold, &["a", "x", "b", "c"]).await
    }

    #[flow]
    pub async fn removed(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        walk(cx, &diary, &hold, &["a", "c"]).await
    }

    #[flow]
    pub async fn renamed(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        walk(cx, &diary, &hold, &["a", "bee", "c"]).await
    }

    #[flow]
    pub async fn reordered(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        walk(cx, &diary, &hold, &["b", "a", "c"]).await
    }

    #[flow]
    pub async fn retyped(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        step(cx, &diary, &hold, "a").await?;
        wait_at(cx, &hold, "b").await?;
        let _price: String = cx.step("b", || async { Ok::<_, Failure>("4.20".to_owned()) }).await?;
        walk(cx, &diary, &hold, &["c"]).await
    }

    #[flow]
    pub async fn patched(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        step(cx, &diary, &hold, "a").await?;
        if cx.patch("x") {
            step(cx, &diary, &hold, "x").await?;
        }
        walk(cx, &diary, &hold, &["b", "c"]).await
    }

    #[flow(keep = [before::kept])]
    pub async fn kept(cx: &Flow, hold: String, diary: Res<Diary>) -> Result<()> {
        walk(cx, &diary, &hold, &["other"]).await
    }
}

/// An engine with the old code.
async fn old(room: &Room, diary: &Diary) -> EngineBuilder {
    use before::*;
    Engine::over(room.store().await)
        .resource(diary.clone())
        .workflow(inserted::workflow())
        .workflow(removed::workflow())
        .workflow(renamed::workflow())
        .workflow(reordered::workflow())
        .workflow(retyped::workflow())
        .workflow(patched::workflow())
        .workflow(kept::workflow())
        .park_after(PARKED_AFTER)
}

/// An engine with the new code.
async fn new(room: &Room, diary: &Diary) -> EngineBuilder {
    use after::*;
    Engine::over(room.store().await)
        .resource(diary.clone())
        .workflow(inserted::workflow())
        .workflow(removed::workflow())
        .workflow(renamed::workflow())
        .workflow(reordered::workflow())
        .workflow(retyped::workflow())
        .workflow(patched::workflow())
        .workflow(kept::workflow())
        .park_after(PARKED_AFTER)
}

/// What the new code would do to the runs.
async fn check(client: &Client, diary: &Diary) -> CheckReport {
    use after::*;
    let check =
        client.check(inserted::workflow()).workflow(removed::workflow()).workflow(renamed::workflow());
    let check = check.workflow(reordered::workflow()).workflow(retyped::workflow());
    let check = check.workflow(patched::workflow()).workflow(kept::workflow());
    check.resource(diary.clone()).await.expect("the runs are looked at")
}

/// All that there is of these runs.
async fn images(store: &Arc<dyn Store>, runs: &[RunId]) -> Vec<String> {
    let mut images = Vec::new();
    for run in runs {
        images.push(format!("{:?}", store.load(*run).await.expect("the store answers")));
    }
    images
}

async fn state_of(client: &Client, run: RunId) -> RunState {
    client.run(&after::kept::workflow(), run).status().await.expect("a status").state
}

/// Waits until each of these runs is in a state that fits.
async fn all_are(client: &Client, runs: &[RunId], what: &str, fits: fn(RunState) -> bool) {
    eventually_async(what, PATIENCE, || async {
        for run in runs {
            if !fits(state_of(client, *run).await) {
                return false;
            }
        }
        true
    })
    .await;
}

/// What a check has to say of a run of this workflow that waits at this place: the call that it goes on with, or the
/// difference.
fn expected(workflow: &str, hold: &str) -> Result<&'static str, &'static str> {
    let not_called = "`b` is recorded as a step, but the code does not call it after `a`";
    match (workflow, hold) {
        ("reordered", "a") => Ok("b"),
        ("reordered", _) => Err("`a` is recorded as a step, but the code does not call it where it begins"),
        (_, "a") => Ok("go"),
        ("inserted" | "patched", "b") => Ok("x"),
        ("removed", "b") => Ok("c"),
        ("renamed", "b") => Ok("bee"),
        ("inserted" | "removed" | "renamed", _) => Err(not_called),
        ("retyped", "c" | "end") => Err("`b` is recorded with a result that the code cannot read"),
        _ => Ok("go"),
    }
}

async fn what_a_check_says_of_fifty_runs_is_what_becomes_of_them(room: Room) {
    let diary = Diary::default();
    let (client, store) = (room.client().await, room.store().await);
    let engine = old(&room, &diary).await.launch().await.expect("the old program starts");
    let mut holds: BTreeMap<RunId, (&str, &str)> = BTreeMap::new();
    for workflow in ["inserted", "removed", "renamed", "reordered", "retyped", "patched", "kept"] {
        for hold in HOLDS.into_iter().cycle().take(8) {
            let start = engine.start_by_name(workflow, hold.into()).key(format!("{hold}-{}", holds.len()));
            holds.insert(start.await.expect("a run starts").id(), (workflow, hold));
        }
    }
    let runs: Vec<RunId> = holds.keys().copied().collect();
    assert_eq!(runs.len(), 56);
    all_are(&client, &runs, "all runs wait", |state| state == RunState::Suspended).await;
    engine.stop().await.expect("the old program stops");
    for run in &runs {
        // What they wait for is there, and nobody has received it.
        client.run(&after::kept::workflow(), *run).send(GO, &()).await.expect("an event is sent");
    }

    let (seen, done) = (images(&store, &runs).await, diary.len());
    let report = check(&client, &diary).await;
    assert_eq!(images(&store, &runs).await, seen, "a check changes nothing");
    assert_eq!(diary.len(), done, "a check does nothing");
    let mut said: BTreeMap<RunId, CheckedRun> = BTreeMap::new();
    for checked in report.runs.iter().cloned() {
        let (workflow, hold) = holds[&checked.id];
        match (&checked.forecast, expected(workflow, hold)) {
            (Forecast::GoesOn { next }, Ok(first)) => assert_eq!(*next, [first], "{checked:?}"),
            (Forecast::Blocked { reason }, Err(why)) => assert!(reason.starts_with(why), "{checked:?}"),
            _ => panic!("not what was expected of {workflow} at {hold}: {checked:?}"),
        }
        assert!(checked.key.as_deref().is_some_and(|key| key.starts_with(hold)), "{checked:?}");
        said.insert(checked.id, checked);
    }
    assert_eq!((said.len(), report.blocked().count(), report.unclear().count()), (56, 22, 0));
    assert!(report.to_string().ends_with("56 runs: 34 compatible, 22 would be blocked, 0 unclear"));

    let engine = new(&room, &diary).await.launch().await.expect("the new program starts");
    all_are(&client, &runs, "all runs stand", |state| state.is_terminal() || state == RunState::Blocked)
        .await;
    for (run, checked) in &said {
        let status = engine.run(&after::kept::workflow(), *run).status().await.expect("a status");
        match &checked.forecast {
            Forecast::GoesOn { next } => {
                assert_eq!(status.state, RunState::Completed, "{checked:?}: {status:?}");
                assert!(status.call(&next[0]).is_some(), "{checked:?}: {status:?}");
            }
            Forecast::Blocked { reason } => {
                assert_eq!(status.state, RunState::Blocked, "{checked:?}: {status:?}");
                assert_eq!(status.wait.and_then(|wait| wait.reason).as_ref(), Some(reason));
            }
            other => panic!("{other:?}"),
        }
    }
    engine.stop().await.expect("the new program stops");

    // The code that they fit is back, and they go on by themselves.
    let engine = old(&room, &diary).await.launch().await.expect("the old program starts");
    all_are(&client, &runs, "all runs end", |state| state == RunState::Completed).await;
    engine.stop().await.expect("the old program stops");
}

on_both!(what_a_check_says_of_fifty_runs_is_what_becomes_of_them);
