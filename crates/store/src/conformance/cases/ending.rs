//! Ending runs that nobody holds, and opening ended ones again.

use windlass_core::RunState;

use crate::{
    Act, Idle, NewRun, Place, Refusal, Standing,
    conformance::{
        Fixture,
        scene::{SECOND, Scene, end, new_end, new_run, park, record, send, step, wait_for},
    },
};

fn end_idle(only: Idle) -> Act {
    Act::EndIdle { only, end: new_end(RunState::Cancelled) }
}

pub(super) async fn a_run_that_never_began_can_be_ended_by_anyone<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let ready = scene.start().await;
    let delayed = scene.start_as(NewRun { delay: Some(SECOND), ..new_run() }).await;
    for run in [ready, delayed] {
        scene.done(None, run, send("news")).await;
        let at = scene.done(None, run, end_idle(Idle::NeverClaimed)).await;
        let image = scene.image(run).await;
        let Place::Ended(end) = image.standing.place else { panic!("it has ended") };
        assert_eq!((end.state, end.at), (RunState::Cancelled, at));
        assert_eq!((end.output, end.failure), (None, new_end(RunState::Cancelled).failure));
        assert!(image.inbox.is_empty());
        let again = scene.write(None, run, end_idle(Idle::NeverClaimed)).await;
        assert_eq!(again, Err(Refusal::Ended(RunState::Cancelled)));
    }
    let node = scene.node().await;
    scene.advance(SECOND * 2);
    assert_eq!(scene.take(node).await.1, [], "it never starts");
}

pub(super) async fn a_run_that_began_is_ended_idle_only_when_that_is_meant<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let ready = scene.released().await;
    assert_eq!(scene.write(None, ready, end_idle(Idle::NeverClaimed)).await, Err(Refusal::Begun));
    assert_eq!(scene.place(ready).await, Place::Ready);
    scene.done(None, ready, end_idle(Idle::Any)).await;

    let held = scene.held().await;
    scene
        .done(held.node, held.run, Act::Save { claim: held.claim, step: "a".into(), value: "1".into() })
        .await;
    scene.done(held.node, held.run, park(held.claim, wait_for(&["go"]))).await;
    assert_eq!(scene.write(None, held.run, end_idle(Idle::NeverClaimed)).await, Err(Refusal::Begun));
    scene.done(None, held.run, end_idle(Idle::Any)).await;
    assert!(scene.image(held.run).await.saved.is_empty());
}

pub(super) async fn a_held_run_is_never_ended_over_its_holders_head<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let before = scene.image(held.run).await;
    for only in [Idle::NeverClaimed, Idle::Any] {
        for node in [None, Some(held.node)] {
            assert_eq!(scene.write(node, held.run, end_idle(only)).await, Err(Refusal::Held));
        }
    }
    scene.unchanged(held.run, &before).await;
    assert_eq!(scene.write(None, scene.run_id(), end_idle(Idle::Any)).await, Err(Refusal::Unknown));
}

pub(super) async fn an_idle_end_needs_a_state_that_is_an_end<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let run = scene.start().await;
    let act = Act::EndIdle { only: Idle::Any, end: new_end(RunState::Paused) };
    let answer = scene.write(None, run, act).await;
    assert!(matches!(answer, Err(Refusal::Unfit(_))), "{answer:?}");
    assert_eq!(scene.place(run).await, Place::Ready);
}

pub(super) async fn reopening_opens_the_next_generation_and_keeps_the_records<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.done(held.node, held.run, record(held.claim, vec![step("a", 1)])).await;
    scene.done(held.node, held.run, end(held.claim, RunState::Failed)).await;
    let before = scene.image(held.run).await;
    scene.advance(SECOND);
    let at = scene.done(None, held.run, Act::Reopen { after: 1 }).await;
    let after = scene.image(held.run).await;
    let expected = Standing {
        place: Place::Ready,
        generation: 2,
        opened_at: at,
        recoveries: 0,
        definition: before.standing.definition,
    };
    assert_eq!(after.standing, expected);
    assert_eq!((after.run, after.steps), (before.run, before.steps));
    assert_eq!(scene.store.ends(vec![held.run]).await.unwrap(), [], "it does not stand ended now");
    assert_eq!(scene.take(held.node).await.1, [held.run]);
}

pub(super) async fn each_generation_has_its_own_end_and_the_last_one_shows<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.ended(RunState::Failed).await;
    scene.done(None, held.run, Act::Reopen { after: 1 }).await;
    let (claim, _) = scene.take(held.node).await;
    let second = crate::StepRow { generation: 2, ..step("a", 1) };
    let steps = vec![step("a", 1), second.clone()];
    let act = Act::End { claim, steps: steps.clone(), end: new_end(RunState::Completed) };
    scene.done(held.node, held.run, act).await;
    let image = scene.image(held.run).await;
    assert_eq!((image.standing.generation, image.standing.state()), (2, RunState::Completed));
    assert_eq!(image.steps, steps);
    let ends = scene.store.ends(vec![held.run]).await.unwrap();
    assert_eq!((ends.len(), ends[0].1.state), (1, RunState::Completed));

    scene.done(None, held.run, Act::Reopen { after: 2 }).await;
    assert_eq!(scene.image(held.run).await.steps, steps, "reopening loses no record of the end");
}

pub(super) async fn a_run_is_reopened_once<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.ended(RunState::Failed).await;
    for wrong in [0, 2] {
        assert_eq!(scene.write(None, held.run, Act::Reopen { after: wrong }).await, Err(Refusal::Open));
    }
    scene.done(None, held.run, Act::Reopen { after: 1 }).await;
    for after in [1, 2] {
        assert_eq!(scene.write(None, held.run, Act::Reopen { after }).await, Err(Refusal::Open));
    }
    assert_eq!(scene.image(held.run).await.standing.generation, 2);
    assert_eq!(scene.write(None, scene.run_id(), Act::Reopen { after: 1 }).await, Err(Refusal::Unknown));
}

pub(super) async fn a_reopened_run_that_was_held_before_has_begun<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let begun = scene.ended(RunState::Failed).await.run;
    scene.done(None, begun, Act::Reopen { after: 1 }).await;
    assert_eq!(scene.write(None, begun, end_idle(Idle::NeverClaimed)).await, Err(Refusal::Begun));

    let fresh = scene.start().await;
    scene.done(None, fresh, end_idle(Idle::NeverClaimed)).await;
    scene.done(None, fresh, Act::Reopen { after: 1 }).await;
    scene.done(None, fresh, end_idle(Idle::NeverClaimed)).await;
    assert_eq!(scene.image(fresh).await.standing.generation, 2);
}

pub(super) async fn ends_are_answered_for_ended_runs_alone_and_once_each<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let first = scene.ended(RunState::Failed).await.run;
    let second = scene.ended(RunState::Completed).await.run;
    let held = scene.held().await.run;
    let unknown = scene.run_id();
    let mut ends = scene.store.ends(vec![second, held, first, unknown, second]).await.unwrap();
    ends.sort_by_key(|(run, _)| *run);
    let states: Vec<_> = ends.into_iter().map(|(run, end)| (run, end.state)).collect();
    assert_eq!(states, [(first, RunState::Failed), (second, RunState::Completed)]);
    assert_eq!(scene.store.ends(vec![]).await.unwrap(), []);
}
