//! Runs that begin anew, and keep their records small.

use windlass_core::RunState;

use crate::{
    Act, NewRun, Refusal, StepRow, Written,
    conformance::{
        Fixture,
        scene::{Held, Scene, end, key, new_end, new_run, record, send, start, step},
    },
};

fn forget(held: &Held, steps: Vec<StepRow>) -> Act {
    Act::Record { claim: held.claim, steps, consumed: Vec::new(), forget: true }
}

fn save(held: &Held, step: &str) -> Act {
    Act::Save { claim: held.claim, step: step.into(), value: "1".into() }
}

pub(super) async fn what_was_recorded_before_is_forgotten<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let other = scene.held_by(held.node).await;
    let write = async |act| scene.done(held.node, held.run, act).await;
    write(record(held.claim, vec![step("a", 1), step("b", 1)])).await;
    write(save(&held, "b")).await;
    scene.done(held.node, other.run, record(other.claim, vec![step("a", 1)])).await;
    scene.done(held.node, other.run, save(&other, "b")).await;
    scene.done(None, held.run, send("news")).await;
    let theirs = scene.image(other.run).await;
    let before = scene.image(held.run).await;

    let steps = vec![step("lap", 2), step("a", 1)];
    let consumed = vec![before.inbox[0].seq];
    let act = Act::Record { claim: held.claim, steps: steps.clone(), consumed, forget: true };
    write(act).await;
    let after = scene.image(held.run).await;
    assert_eq!((after.steps, after.saved, after.inbox), (steps, vec![], vec![]));
    assert_eq!((after.run, after.standing), (before.run, before.standing));
    scene.unchanged(other.run, &theirs).await;

    write(record(held.claim, vec![step("a", 1), step("b", 1)])).await;
    let steps = vec![step("lap", 2), step("a", 1), step("b", 1)];
    assert_eq!(scene.image(held.run).await.steps, steps, "what was forgotten may be recorded again, once");
    scene.done(held.node, held.run, Act::Release { claim: held.claim }).await;
    let claimed = scene.claim(scene.request(held.node).await).await;
    assert_eq!(claimed.runs[0].steps, steps);
}

pub(super) async fn forgetting_that_is_sent_again_takes_nothing_that_came_after_it<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let write = async |act| scene.done(held.node, held.run, act).await;
    write(record(held.claim, vec![step("a", 1)])).await;
    let act = forget(&held, vec![step("lap", 2), step("b", 1)]);
    write(act.clone()).await;
    write(act.clone()).await;
    write(record(held.claim, vec![step("a", 1)])).await;
    write(save(&held, "c")).await;
    write(act).await;
    let image = scene.image(held.run).await;
    assert_eq!(image.steps, [step("lap", 2), step("b", 1), step("a", 1)]);
    assert_eq!(image.saved.len(), 1);
}

pub(super) async fn one_batch_may_record_forget_and_record_again<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let acts = || {
        let lap = |number| forget(&held, vec![step("lap", number)]);
        let recorded = |name| record(held.claim, vec![step(name, 1)]);
        let acts = [recorded("a"), lap(2), recorded("a"), save(&held, "b"), lap(3), recorded("b")];
        acts.into_iter().map(|act| (held.run, act)).collect()
    };
    assert!(scene.batch(held.node, acts()).await.iter().all(Result::is_ok));
    let image = scene.image(held.run).await;
    assert_eq!((image.steps, image.saved), (vec![step("lap", 3), step("b", 1)], vec![]));

    let last = Act::End { claim: held.claim, steps: vec![step("a", 1)], end: new_end(RunState::Completed) };
    let batch = vec![(held.run, forget(&held, vec![step("lap", 4)])), (held.run, last)];
    assert!(scene.batch(held.node, batch.clone()).await.iter().all(Result::is_ok));
    let image = scene.image(held.run).await;
    assert_eq!(image.steps, [step("lap", 4), step("a", 1)]);
    assert!(scene.batch(held.node, batch).await.iter().all(Result::is_ok));
    scene.unchanged(held.run, &image).await;
}

pub(super) async fn a_start_sent_again_brings_back_nothing_that_was_forgotten<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    for key in [None, Some(key("k", 1))] {
        let run = scene.run_id();
        let act = start(NewRun { key, steps: vec![step("given", 1)], ..new_run() });
        scene.write(None, run, act.clone()).await.unwrap();
        let (claim, _) = scene.take(node).await;
        scene.done(node, run, forget(&Held { node, claim, run }, vec![step("lap", 2)])).await;
        assert_eq!(scene.write(None, run, act).await, Ok(Written::Existing { run }));
        assert_eq!(scene.image(run).await.steps, [step("lap", 2)]);
    }
}

pub(super) async fn every_generation_is_forgotten<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.done(held.node, held.run, record(held.claim, vec![step("a", 1)])).await;
    scene.done(held.node, held.run, end(held.claim, RunState::Failed)).await;
    scene.done(None, held.run, Act::Reopen { after: 1 }).await;
    let (claim, _) = scene.take(held.node).await;
    let lap = StepRow { generation: 2, ..step("lap", 2) };
    scene.done(held.node, held.run, forget(&Held { claim, ..held }, vec![lap.clone()])).await;
    assert_eq!(scene.image(held.run).await.steps, [lap]);
}

pub(super) async fn only_the_holder_makes_a_run_forget_and_says_with_which_step<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.done(held.node, held.run, record(held.claim, vec![step("a", 1)])).await;
    let before = scene.image(held.run).await;
    let answer = scene.write(held.node, held.run, forget(&held, vec![])).await;
    assert!(matches!(answer, Err(Refusal::Unfit(_))), "{answer:?}");
    let wrong = forget(&Held { claim: scene.claim_id(), ..held }, vec![step("lap", 2)]);
    assert_eq!(scene.write(held.node, held.run, wrong).await, Err(Refusal::NotYours));
    scene.unchanged(held.run, &before).await;

    scene.done(held.node, held.run, end(held.claim, RunState::Failed)).await;
    let ended = scene.image(held.run).await;
    scene.done(held.node, held.run, forget(&held, vec![step("lap", 2)])).await;
    scene.unchanged(held.run, &ended).await;
}
