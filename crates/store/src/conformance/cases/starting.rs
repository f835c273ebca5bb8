//! Making runs.

use std::time::Duration;

use windlass_core::{RunState, StepKind};

use crate::{
    NewRun, Owner, Parent, Place, StepRow, Written,
    conformance::{
        Fixture,
        scene::{SECOND, Scene, b, new_run, owned_by, start, step},
    },
};

pub(super) async fn a_start_keeps_everything_it_was_given<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let [run, origin, parent] = [scene.run_id(), scene.run_id(), scene.run_id()];
    let new = NewRun {
        queue: "slow".into(),
        queue_key: None,
        priority: 9,
        timeout: Some(Duration::from_secs(90)),
        input: b("[1]"),
        context: Some(b("{\"a\":1}")),
        tags: vec!["b".into(), "a".into()],
        forked_from: Some(origin),
        trace: Some("00-trace".into()),
        parent: Some(Parent { run: parent, topic: ">a b".into() }),
        ..new_run()
    };
    let Ok(Written::Started { at, owned: false }) = scene.write(None, run, start(new.clone())).await else {
        panic!("the run is started");
    };
    let image = scene.image(run).await;
    assert_eq!(image.run.id, run);
    assert_eq!((image.run.workflow, image.run.queue, image.run.priority), ("etl".into(), "slow".into(), 9));
    assert_eq!((image.run.created_at, image.run.timeout), (at, new.timeout));
    assert_eq!((image.run.input, image.run.context, image.run.key), (new.input, new.context, None));
    assert_eq!(image.run.tags, ["b", "a"], "tags stay in their order");
    assert_eq!((image.run.forked_from, image.run.trace), (Some(origin), new.trace));
    assert_eq!(image.run.parent, new.parent);
    assert_eq!(image.standing.place, Place::Ready);
    assert_eq!((image.standing.generation, image.standing.recoveries), (1, 0));
    assert_eq!((image.standing.definition, image.standing.opened_at), (None, at));
    assert_eq!(image.standing.state(), RunState::Pending);
    assert!(image.steps.is_empty() && image.inbox.is_empty() && image.saved.is_empty());
}

pub(super) async fn payloads_of_any_size_and_bytes_come_back_as_they_were<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let every_byte: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let repetitive = vec![b'x'; 1 << 20];
    for payload in [Vec::new(), vec![0], b"null".to_vec(), every_byte, repetitive] {
        let payload = bytes::Bytes::from(payload);
        let steps =
            vec![StepRow { output: Some(payload.clone()), detail: Some(payload.clone()), ..step("a", 1) }];
        let new = NewRun { input: payload.clone(), context: Some(payload.clone()), steps, ..new_run() };
        let run = scene.start_as(new).await;
        let image = scene.image(run).await;
        assert_eq!(image.run.input, payload);
        assert_eq!(image.run.context, Some(payload.clone()));
        assert_eq!(image.steps[0].output, Some(payload.clone()));
        assert_eq!(image.steps[0].detail, Some(payload));
    }
}

pub(super) async fn names_in_any_script_come_back_as_they_were<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let odd = "naïve 'quoted\" \n 工作流 🪢 %_\\";
    let new = NewRun {
        workflow: odd.into(),
        queue: odd.into(),
        tags: vec![odd.into(), String::new()],
        trace: Some(String::new()),
        steps: vec![step(odd, 1)],
        ..new_run()
    };
    let run = scene.start_as(new).await;
    let image = scene.image(run).await;
    assert_eq!((&*image.run.workflow, &*image.run.queue, &*image.steps[0].name), (odd, odd, odd));
    assert_eq!((image.run.tags, image.run.trace), (vec![odd.into(), String::new()], Some(String::new())));
}

pub(super) async fn a_start_with_an_id_that_exists_changes_nothing<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let version = scene.define("etl", "1").await;
    let run = scene.start().await;
    let before = scene.image(run).await;
    scene.advance(SECOND);
    let again = NewRun { input: b("other"), ..owned_by(scene.claim_id(), version) };
    assert_eq!(scene.write(node, run, start(again)).await, Ok(Written::Existing { run }));
    scene.unchanged(run, &before).await;
}

pub(super) async fn a_delayed_run_waits_as_pending_until_its_delay_is_over<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let run = scene.start_as(NewRun { delay: Some(SECOND * 10), ..new_run() }).await;
    let image = scene.image(run).await;
    let due = image.run.created_at + SECOND * 10;
    let Place::Waiting(wait) = &image.standing.place else { panic!("a delayed run waits") };
    assert_eq!((wait.state, wait.until, wait.topics.len()), (RunState::Pending, Some(due), 0));
    assert_eq!(image.standing.opened_at, due, "its time limit counts from the end of the delay");

    scene.advance(SECOND * 10 - Duration::from_micros(1));
    assert_eq!(scene.take(node).await.1, []);
    scene.advance(Duration::from_micros(1));
    assert_eq!(scene.take(node).await.1, [run]);
}

pub(super) async fn a_delay_of_nothing_is_no_delay<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let run = scene.start_as(NewRun { delay: Some(Duration::from_nanos(999)), ..new_run() }).await;
    assert_eq!(scene.place(run).await, Place::Ready);
}

pub(super) async fn a_node_may_hold_a_run_from_its_start<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let version = scene.define("etl", "1").await;
    let (run, claim) = (scene.run_id(), scene.claim_id());
    let answer = scene.write(node, run, start(owned_by(claim, version))).await;
    assert!(matches!(answer, Ok(Written::Started { owned: true, .. })), "{answer:?}");
    let standing = scene.image(run).await.standing;
    assert_eq!(standing.place, Place::Owned { node, claim });
    assert_eq!(standing.definition, Some(version));
    assert_eq!(scene.take(node).await.1, [], "a held run is not handed out");
}

pub(super) async fn a_new_run_is_not_held_past_a_ready_one_of_its_kind<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let version = scene.define("etl", "1").await;
    let elsewhere = [("other", "default"), ("etl", "slow")];
    for (workflow, queue) in elsewhere {
        scene.start_as(NewRun { workflow: workflow.into(), queue: queue.into(), ..new_run() }).await;
    }
    let run = scene.run_id();
    let answer = scene.write(node, run, start(owned_by(scene.claim_id(), version))).await;
    assert!(
        matches!(answer, Ok(Written::Started { owned: true, .. })),
        "ready runs of other workflows and queues are in nobody's way: {answer:?}"
    );

    scene.start().await;
    let run = scene.run_id();
    let answer = scene.write(node, run, start(owned_by(scene.claim_id(), version))).await;
    assert!(matches!(answer, Ok(Written::Started { owned: false, .. })), "{answer:?}");
    let standing = scene.image(run).await.standing;
    assert_eq!((standing.place, standing.definition), (Place::Ready, None));
}

pub(super) async fn a_ready_run_of_the_same_batch_comes_before_a_held_one<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let version = scene.define("etl", "1").await;
    let claim = scene.claim_id();
    let batch = vec![
        (scene.run_id(), start(owned_by(claim, version))),
        (scene.run_id(), start(new_run())),
        (scene.run_id(), start(owned_by(claim, version))),
    ];
    let answers = scene.batch(node, batch).await;
    let owned: Vec<_> =
        answers.iter().map(|answer| matches!(answer, Ok(Written::Started { owned: true, .. }))).collect();
    assert_eq!(owned, [true, false, false]);
}

pub(super) async fn neither_a_delayed_run_nor_a_clients_is_held_from_the_start<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let owner = Some(Owner { claim: scene.claim_id(), definition: scene.define("etl", "1").await });
    let run = scene.run_id();
    let new = NewRun { delay: Some(SECOND), owner: owner.clone(), ..new_run() };
    let answer = scene.write(node, run, start(new)).await;
    assert!(matches!(answer, Ok(Written::Started { owned: false, .. })), "{answer:?}");
    assert_eq!(scene.image(run).await.standing.definition, None);

    let run = scene.start_as(NewRun { owner, ..new_run() }).await;
    assert_eq!(scene.place(run).await, Place::Ready);
}

pub(super) async fn a_run_may_start_with_records<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let steps =
        vec![step("b", 1), step("a", 2), StepRow { kind: StepKind::Skipped, attempt: 0, ..step("c", 0) }];
    let run = scene.start_as(NewRun { steps: steps.clone(), ..new_run() }).await;
    assert_eq!(scene.image(run).await.steps, steps, "in their order");
}
