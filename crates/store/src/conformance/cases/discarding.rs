//! Forgetting runs that have ended.

use std::time::Duration;

use windlass_core::{NodeId, RunId, RunState};

use crate::{
    Act, Aged, AgedRun, Claim, Discard, Idle, KeyLife, Keyed, NewKey, NewRun, Parent, Place, Query, Refusal,
    StoreError, Unit, Written,
    conformance::{
        Fixture,
        scene::{Held, SECOND, Scene, end, key, new_end, new_run, record, send, start, step, with_key},
    },
};

async fn discard<F: Fixture>(scene: &Scene<F>, run: RunId, generation: u32) -> Result<(), Refusal> {
    discard_keyed(scene, run, generation, Keyed::Goes).await
}

async fn discard_keyed<F: Fixture>(
    scene: &Scene<F>,
    run: RunId,
    generation: u32,
    keyed: Keyed,
) -> Result<(), Refusal> {
    let request = Discard { keyed, ..wish(None, vec![(run, generation)]) };
    let answers = scene.store.discard(request).await.expect("the store answers");
    let [answer] = answers.try_into().expect("one answer for each");
    answer
}

fn wish(node: Option<NodeId>, runs: Vec<(RunId, u32)>) -> Discard {
    Discard { node, runs, keyed: Keyed::Goes, within: Duration::MAX }
}

async fn aged<F: Fixture>(scene: &Scene<F>, after: Option<(&str, RunId)>, limit: usize) -> Vec<AgedRun> {
    let after = after.map(|(workflow, run)| (workflow.into(), run));
    scene.store.aged(Aged { after, before: RunId::LAST, limit }).await.expect("the store lists")
}

async fn is_gone<F: Fixture>(scene: &Scene<F>, run: RunId) -> bool {
    scene.store.load(run).await.expect("the store loads").is_none()
}

async fn by_key<F: Fixture>(scene: &Scene<F>, key: &str) -> Option<RunId> {
    scene.store.by_key("etl".into(), key.into()).await.expect("the store answers")
}

/// A run of this description that has ended.
async fn ended_as<F: Fixture>(scene: &Scene<F>, new: NewRun) -> RunId {
    let run = scene.start_as(new).await;
    let node = scene.node().await;
    let (claim, _) = scene.take(node).await;
    scene.done(node, run, end(claim, RunState::Completed)).await;
    run
}

pub(super) async fn a_discarded_run_leaves_nothing_behind<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let new = NewRun { key: Some(key("k", 1)), tags: vec!["eu".into(), "vip".into()], ..new_run() };
    let run = scene.start_as(new).await;
    let node = scene.node().await;
    let (claim, _) = scene.take(node).await;
    scene.done(None, run, send("news")).await;
    scene.done(node, run, record(claim, vec![step("a", 1)])).await;
    scene.done(node, run, end(claim, RunState::Failed)).await;
    scene.done(None, run, Act::Reopen { after: 1 }).await;
    let (claim, _) = scene.take(node).await;
    scene.done(node, run, end(claim, RunState::Failed)).await;

    assert_eq!(discard(&scene, run, 2).await, Ok(()));
    assert!(is_gone(&scene, run).await);
    assert_eq!(scene.store.ends(vec![run]).await.expect("the store answers"), []);
    assert_eq!(by_key(&scene, "k").await, None);
    assert_eq!(aged(&scene, None, 10).await, []);
    for tag in [None, Some("eu".into()), Some("vip".into())] {
        let page = scene.store.find(Query { tag, ..Query::default() }).await.expect("the store finds");
        assert_eq!(page.runs, []);
    }
    assert_eq!(discard(&scene, run, 2).await, Err(Refusal::Unknown), "a repeat");

    // A new run of the same id begins with nothing.
    let again = scene.store.commit(None, vec![Unit { run, act: Act::Start(Box::new(new_run())) }].into());
    assert!(again.await.is_ok());
    let image = scene.image(run).await;
    assert_eq!((image.steps.len(), image.standing.generation, image.standing.place), (0, 1, Place::Ready));
}

pub(super) async fn only_the_end_that_was_meant_is_discarded<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let ready = scene.start().await;
    for run in [held.run, ready] {
        assert_eq!(discard(&scene, run, 1).await, Err(Refusal::Open));
    }
    scene.done(held.node, held.run, end(held.claim, RunState::Failed)).await;
    assert_eq!(discard(&scene, held.run, 2).await, Err(Refusal::Open));
    scene.done(None, held.run, Act::Reopen { after: 1 }).await;
    let before = scene.image(held.run).await;
    for generation in [1, 2] {
        assert_eq!(discard(&scene, held.run, generation).await, Err(Refusal::Open));
    }
    scene.unchanged(held.run, &before).await;
    assert_eq!(discard(&scene, scene.run_id(), 1).await, Err(Refusal::Unknown));
}

pub(super) async fn a_discarded_run_gives_its_key_back<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let new = || with_key(key("order-1", 1));
    let first = ended_as(&scene, new()).await;
    assert_eq!(discard(&scene, first, 1).await, Ok(()));
    let second = scene.start_as(new()).await;
    assert_eq!(by_key(&scene, "order-1").await, Some(second));
}

pub(super) async fn a_key_that_has_passed_on_is_left_alone<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let new = || with_key(NewKey { life: KeyLife::For(SECOND), ..key("order-1", 1) });
    let first = ended_as(&scene, new()).await;
    scene.advance(SECOND);
    let second = scene.start_as(new()).await;
    assert_eq!(discard(&scene, first, 1).await, Ok(()));
    assert_eq!(by_key(&scene, "order-1").await, Some(second));
}

pub(super) async fn a_run_whose_key_has_time_left_is_kept_unless_a_person_says_otherwise<F: Fixture>(
    fixture: F,
) {
    let scene = Scene::new(fixture);
    let stays = async |run| discard_keyed(&scene, run, 1, Keyed::Stays).await;
    let new = || with_key(NewKey { life: KeyLife::For(2 * SECOND), ..key("order-1", 1) });
    let run = ended_as(&scene, new()).await;
    scene.advance(SECOND);
    assert_eq!(stays(run).await, Err(Refusal::Keyed));
    assert_eq!(by_key(&scene, "order-1").await, Some(run));
    scene.advance(SECOND);
    assert_eq!(stays(run).await, Ok(()), "its time is over");
    let run = ended_as(&scene, new()).await;
    assert_eq!(discard(&scene, run, 1).await, Ok(()));
    assert_eq!(by_key(&scene, "order-1").await, None);
    let kept = ended_as(&scene, with_key(key("order-2", 1))).await;
    assert_eq!(stays(kept).await, Ok(()), "a key that lives as long as its record goes with it");
}

pub(super) async fn a_child_is_kept_until_its_parent_has_heard_of_its_end<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let parent = scene.held().await;
    let told = Parent { run: parent.run, topic: ">child".into() };
    let child = ended_as(&scene, NewRun { parent: Some(told.clone()), ..new_run() }).await;
    assert_eq!(discard(&scene, child, 1).await, Err(Refusal::Awaited));
    let row = scene.image(parent.run).await.inbox.remove(0);
    let Held { node, claim, run } = parent;
    let take_in = Act::Record { claim, steps: vec![step("a", 1)], consumed: vec![row.seq], forget: false };
    scene.done(node, run, take_in).await;
    assert_eq!(discard(&scene, child, 1).await, Ok(()));

    // Nobody waits for the child of a parent that has ended.
    let child = ended_as(&scene, NewRun { parent: Some(told), ..new_run() }).await;
    assert_eq!(discard(&scene, child, 1).await, Err(Refusal::Awaited));
    scene.done(node, run, end(claim, RunState::Completed)).await;
    assert_eq!(discard(&scene, child, 1).await, Ok(()));
}

pub(super) async fn discarding_takes_nothing_from_parents_forks_and_neighbours<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let old = ended_as(&scene, NewRun { tags: vec!["eu".into()], ..new_run() }).await;
    let forked =
        NewRun { forked_from: Some(old), steps: vec![step("a", 1)], tags: vec!["eu".into()], ..new_run() };
    let others = [scene.start_as(forked).await, ended_as(&scene, new_run()).await, scene.released().await];
    let mut before = Vec::new();
    for run in others {
        before.push(scene.image(run).await);
    }
    assert_eq!(discard(&scene, old, 1).await, Ok(()));
    for (run, before) in others.into_iter().zip(&before) {
        scene.unchanged(run, before).await;
    }
}

pub(super) async fn what_is_said_to_a_discarded_run_is_refused<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let Held { node, claim, run } = scene.ended(RunState::Failed).await;
    assert_eq!(discard(&scene, run, 1).await, Ok(()));
    assert_eq!(scene.write(None, run, send("news")).await, Err(Refusal::Unknown));
    assert_eq!(scene.write(None, run, Act::Reopen { after: 1 }).await, Err(Refusal::Unknown));
    assert_eq!(scene.write(node, run, end(claim, RunState::Failed)).await, Err(Refusal::NotYours));
    assert!(is_gone(&scene, run).await);
}

pub(super) async fn a_run_that_went_with_its_batch_is_held_by_nobody<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (first, second) = (scene.start().await, scene.start().await);
    let node = scene.node().await;
    let (claim, runs) = scene.take(node).await;
    assert_eq!(runs, [first, second]);
    scene.done(node, first, end(claim, RunState::Completed)).await;
    assert_eq!(discard(&scene, first, 1).await, Ok(()));

    let running = Query { states: vec![RunState::Running], ..Query::default() };
    let page = scene.store.find(running).await.expect("the store finds");
    assert_eq!(page.runs.iter().map(|run| run.id).collect::<Vec<_>>(), [second]);
    let request: Claim = Claim { claim, ..scene.request(node).await };
    assert_eq!(scene.claim(request).await.runs.len(), 1, "a repeat answers with what is left");
    scene.store.heartbeat(node, 1.into()).await.expect("it lives");
    // Not even a new run of the same id, which is sent again when the answer to its start was lost.
    let again = vec![Unit { run: first, act: Act::Start(Box::new(new_run())) }];
    scene.store.commit(None, again.into()).await.expect("the store writes");
    assert_eq!(scene.place(first).await, Place::Ready);
    let judge = scene.node().await;
    scene.bury(judge, node).await;
    let swept = scene.store.sweep(judge, 10).await.expect("it sweeps");
    assert_eq!(swept.released, 1);
    assert_eq!(scene.place(first).await, Place::Ready);
}

pub(super) async fn ended_runs_are_listed_by_workflow_and_id<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let mut expected = Vec::new();
    for (workflow, state) in [("b", RunState::Failed), ("a", RunState::Cancelled), ("b", RunState::Completed)]
    {
        let run = scene.start_as(NewRun { workflow: workflow.into(), ..new_run() }).await;
        scene.advance(SECOND);
        let only = Idle::Any;
        let act = Act::EndIdle { only, end: new_end(state) };
        let at = scene.done(None, run, act).await;
        expected.push(AgedRun { workflow: workflow.into(), run, generation: 1, state, at });
    }
    scene.start().await;
    expected.sort_by(|a, b| (&a.workflow, a.run).cmp(&(&b.workflow, b.run)));
    assert_eq!(aged(&scene, None, 10).await, expected);
    assert_eq!(aged(&scene, None, 2).await, expected[..2]);
    assert_eq!(aged(&scene, None, 0).await, []);
    for (number, last) in expected.iter().enumerate() {
        let rest = aged(&scene, Some((&*last.workflow, last.run)), 10).await;
        assert_eq!(rest, expected[number + 1..]);
    }
    assert_eq!(aged(&scene, Some(("aa", RunId::LAST)), 10).await, expected[1..]);
    let request = Aged { after: None, before: expected[2].run, limit: 10 };
    let older: Vec<_> = expected.iter().filter(|aged| aged.run < expected[2].run).cloned().collect();
    assert_eq!(scene.store.aged(request).await.expect("the store lists"), older);
}

pub(super) async fn a_fenced_node_discards_nothing<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let Held { run, .. } = scene.ended(RunState::Failed).await;
    let stranger: NodeId = scene.node_id();
    let answer = scene.store.discard(wish(Some(stranger), vec![(run, 1)])).await;
    assert!(matches!(answer, Err(StoreError::Fenced)));
    assert!(!is_gone(&scene, run).await);
    let node = scene.node().await;
    let answer = scene.store.discard(wish(Some(node), vec![(run, 1), (run, 1)])).await;
    assert_eq!(answer.expect("it lives"), [Ok(()), Err(Refusal::Unknown)], "twice in one call");
}

pub(super) async fn a_run_with_many_records_goes_at_once_and_what_is_left_of_it_is_nobodys(
    fixture: impl Fixture,
) {
    let scene = Scene::new(fixture);
    let Held { node, claim, run } = scene.held().await;
    for portion in 0..4 {
        let steps = (0..500).map(|no| step(&format!("s{portion}-{no}"), 1)).collect();
        scene.done(node, run, record(claim, steps)).await;
    }
    scene.done(node, run, end(claim, RunState::Completed)).await;
    let ask = async |run| {
        let runs = vec![(run, 1)];
        let request = Discard { node: None, runs, keyed: Keyed::Goes, within: Duration::ZERO };
        scene.store.discard(request).await.expect("the store discards").remove(0)
    };
    ask(run).await.or_else(unfinished).expect("it goes");
    assert_eq!(scene.store.load(run).await.expect("the store loads"), None, "nobody sees half of it");
    assert!(scene.found(Query::default()).await.is_empty());

    // One of the same id has nothing of it.
    let again = scene.write(None, run, start(new_run())).await;
    assert!(matches!(again, Ok(Written::Started { .. })), "{again:?}");
    assert_eq!(scene.image(run).await.steps, []);
    assert_eq!(ask(run).await, Err(Refusal::Open));
    let (claim, _) = scene.take(node).await;
    scene.done(node, run, record(claim, vec![step("s0-0", 1)])).await;
    assert_eq!(scene.image(run).await.steps.len(), 1);
    scene.done(node, run, end(claim, RunState::Completed)).await;
    let mut answer = ask(run).await;
    while answer == Err(Refusal::Unfinished) {
        answer = ask(run).await;
    }
    assert_eq!(answer, Ok(()));
}

fn unfinished(refusal: Refusal) -> Result<(), Refusal> {
    if refusal == Refusal::Unfinished { Ok(()) } else { Err(refusal) }
}

pub(super) async fn what_is_not_discarded_in_time_is_left_for_another(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let mut runs = Vec::new();
    for _ in 0..40 {
        runs.push((scene.ended(RunState::Completed).await.run, 1));
    }
    let mut rounds = 0;
    while !runs.is_empty() {
        rounds += 1;
        let request = Discard { node: None, runs: runs.clone(), keyed: Keyed::Goes, within: Duration::ZERO };
        let answers = scene.store.discard(request).await.expect("the store discards");
        assert_eq!(answers[0], Ok(()), "one goes in any case");
        let mut left = Vec::new();
        for (run, answer) in runs.into_iter().zip(answers) {
            match answer {
                Ok(()) => assert_eq!(scene.store.load(run.0).await.expect("the store loads"), None),
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::Busy);
                    left.push(run);
                }
            }
        }
        runs = left;
    }
    assert!(rounds <= 40);
}
