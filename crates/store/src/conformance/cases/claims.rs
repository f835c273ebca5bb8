//! Handing out runs.

use windlass_core::RunState;

use crate::{
    Act, Claim, NewRun, Place, StepRow, Wait,
    conformance::{
        Fixture,
        scene::{SECOND, Scene, b, end, ids, new_run, park, record, send, step, wait, wait_for, wait_until},
    },
};

pub(super) async fn a_claim_takes_the_run_with_all_that_is_needed<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.done(held.node, held.run, record(held.claim, vec![step("b", 1), step("a", 1)])).await;
    let save = Act::Save { claim: held.claim, step: "a".into(), value: b("1") };
    scene.done(held.node, held.run, save).await;
    scene.done(None, held.run, send("news")).await;
    scene.done(held.node, held.run, Act::Release { claim: held.claim }).await;

    let heir = scene.node().await;
    scene.advance(SECOND);
    let request = scene.request(heir).await;
    let claim = request.claim;
    let claimed = scene.claim(request).await;
    assert_eq!(claimed.runs, [scene.image(held.run).await], "a claim brings what a load would show");
    let image = &claimed.runs[0];
    assert_eq!(image.standing.place, Place::Owned { node: heir, claim });
    assert_eq!((image.steps.len(), image.inbox.len(), image.saved.len()), (2, 1, 1));
    assert_eq!(claimed.now, image.run.created_at + SECOND);
    assert_eq!((claimed.more, claimed.next_due), (false, None));
}

pub(super) async fn the_most_urgent_run_comes_first_then_the_oldest<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let mut runs = Vec::new();
    for (priority, queue) in [(5, "default"), (0, "slow"), (9, "default"), (5, "slow"), (0, "default")] {
        runs.push(scene.start_as(NewRun { priority, queue: queue.into(), ..new_run() }).await);
    }
    let queues = vec![("slow".into(), 10), ("default".into(), 10)];
    let request = Claim { queues, ..scene.request(node).await };
    let claimed = scene.claim(request.clone()).await;
    let order = [1, 4, 0, 3, 2].map(|index: usize| runs[index]);
    assert_eq!(ids(&claimed), order, "over all queues together");
    assert_eq!(ids(&scene.claim(request).await), order, "and a repeat in the same order");
}

pub(super) async fn the_oldest_is_the_one_with_the_smallest_id<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let mut runs: Vec<_> = (0..4).map(|_| scene.run_id()).collect();
    for index in [2, 0, 3, 1] {
        scene.write(None, runs[index], crate::conformance::scene::start(new_run())).await.unwrap();
        scene.advance(SECOND);
    }
    runs.truncate(3);
    let claimed = scene.claim(Claim { room: 3, ..scene.request(node).await }).await;
    assert_eq!(ids(&claimed), runs);
}

pub(super) async fn a_node_claims_only_what_it_has_room_for<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    for _ in 0..5 {
        scene.start().await;
    }
    for (room, taken, more) in [(0, 0, false), (2, 2, true), (2, 2, true), (1, 1, false), (1, 0, false)] {
        let claimed = scene.claim(Claim { room, ..scene.request(node).await }).await;
        assert_eq!((claimed.runs.len(), claimed.more), (taken, more), "with room for {room}");
    }
}

pub(super) async fn a_full_queue_is_passed_over<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let mut runs = Vec::new();
    for (queue, priority) in [("a", 0), ("a", 1), ("a", 2), ("b", 3), ("c", 4), ("unserved", 0)] {
        runs.push(scene.start_as(NewRun { queue: queue.into(), priority, ..new_run() }).await);
    }
    let queues = vec![("a".into(), 2), ("b".into(), 5), ("c".into(), 0)];
    let request = Claim { queues, ..scene.request(node).await };
    let claimed = scene.claim(request.clone()).await;
    assert_eq!(ids(&claimed), [runs[0], runs[1], runs[3]]);
    assert!(claimed.more, "the next claim finds the third run of `a`");
    let claimed = scene.claim(Claim { claim: scene.claim_id(), ..request.clone() }).await;
    assert_eq!(
        (ids(&claimed), claimed.more),
        (vec![runs[2]], false),
        "`c` has no room, another is not served"
    );
    for left in [runs[4], runs[5]] {
        assert_eq!(scene.place(left).await, Place::Ready);
    }
}

pub(super) async fn a_node_claims_only_workflows_it_has_code_for<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let other = scene.start_as(NewRun { workflow: "other".into(), priority: 0, ..new_run() }).await;
    let run = scene.start().await;
    let claimed = scene.claim(scene.request(node).await).await;
    assert_eq!((ids(&claimed), claimed.more), (vec![run], false));
    let request = Claim { workflows: vec![], ..scene.request(node).await };
    assert_eq!(ids(&scene.claim(request).await), []);
    assert_eq!(scene.place(other).await, Place::Ready);
}

pub(super) async fn a_run_takes_the_version_of_the_node_that_first_claims_it<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let (first, second) = (scene.define("etl", "1").await, scene.define("etl", "2").await);
    let run = scene.start().await;
    let request = Claim { workflows: vec![("etl".into(), second)], ..scene.request(node).await };
    let claim = request.claim;
    let claimed = scene.claim(request).await;
    assert_eq!(claimed.runs[0].standing.definition, Some(second));
    scene.done(node, run, Act::Release { claim }).await;

    let request = Claim { workflows: vec![("etl".into(), first)], ..scene.request(node).await };
    let claim = request.claim;
    assert_eq!(scene.claim(request).await.runs[0].standing.definition, Some(second), "and keeps it");
    scene.done(node, run, end(claim, RunState::Failed)).await;
    scene.done(None, run, Act::Reopen { after: 1 }).await;
    assert_eq!(scene.image(run).await.standing.definition, Some(second), "through its generations");
}

pub(super) async fn a_claim_sent_again_answers_with_the_same_runs<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    for _ in 0..3 {
        scene.start().await;
    }
    let request = Claim { room: 2, ..scene.request(node).await };
    let first = scene.claim(request.clone()).await;
    scene.start_as(NewRun { priority: 0, ..new_run() }).await;
    let again = scene.claim(request.clone()).await;
    assert_eq!((again.runs, again.more), (first.runs.clone(), true), "and takes nothing else");

    scene.done(node, first.runs[0].run.id, end(request.claim, RunState::Completed)).await;
    let again = scene.claim(request).await;
    assert_eq!(again.runs, first.runs[1..], "what is no longer held is not answered");
}

pub(super) async fn the_same_claim_id_of_another_node_is_another_claim<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (node, other) = (scene.node().await, scene.node().await);
    let run = scene.start().await;
    let request = scene.request(node).await;
    assert_eq!(ids(&scene.claim(request.clone()).await), [run]);
    assert_eq!(ids(&scene.claim(Claim { node: other, ..request }).await), []);
}

pub(super) async fn a_claim_stops_when_it_has_bytes_enough<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    for _ in 0..4 {
        let steps = vec![StepRow { output: Some(b(&"x".repeat(60_000))), ..step("a", 1) }];
        let input = b(&"y".repeat(40_000));
        scene.start_as(NewRun { input, steps, ..new_run() }).await;
    }
    for (bytes, taken, more) in [(150_000, 2, true), (0, 1, true), (0, 1, false)] {
        let claimed = scene.claim(Claim { bytes, ..scene.request(node).await }).await;
        assert_eq!((claimed.runs.len(), claimed.more), (taken, more), "with {bytes} bytes");
    }
    for _ in 0..2 {
        scene.start_as(NewRun { input: b(""), ..new_run() }).await;
    }
    let claimed = scene.claim(Claim { bytes: 0, ..scene.request(node).await }).await;
    assert_eq!(claimed.runs.len(), 1, "no bytes are enough at once");
}

pub(super) async fn due_runs_are_handed_out_and_the_next_one_is_named<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let mut dues = Vec::new();
    for (seconds, state) in
        [(30, RunState::Suspended), (10, RunState::Paused), (20, RunState::Blocked), (60, RunState::Pending)]
    {
        let held = scene.held_by(node).await;
        let due = scene.store.heartbeat(node, 0.into()).await.unwrap().now + SECOND * seconds;
        let wait = Wait { state, ..wait_until(due) };
        scene.done(node, held.run, park(held.claim, wait)).await;
        dues.push((held.run, due));
    }
    let held = scene.held_by(node).await;
    scene.done(node, held.run, park(held.claim, wait())).await;

    let claimed = scene.claim(scene.request(node).await).await;
    assert_eq!((ids(&claimed), claimed.next_due), (vec![], Some(dues[1].1)));
    scene.advance(SECOND * 30);
    let claimed = scene.claim(scene.request(node).await).await;
    assert_eq!(ids(&claimed), [dues[0].0, dues[1].0, dues[2].0], "in whatever state they waited");
    assert_eq!(claimed.next_due, Some(dues[3].1));
    scene.advance(SECOND * 30);
    assert_eq!(scene.claim(scene.request(node).await).await.next_due, None);
}

pub(super) async fn due_runs_become_ready_even_for_a_node_that_cannot_take_them<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let workflow = NewRun { workflow: "other".into(), delay: Some(SECOND), ..new_run() };
    let queue = NewRun { queue: "slow".into(), delay: Some(SECOND), ..new_run() };
    let runs = [scene.start_as(workflow).await, scene.start_as(queue).await];
    let request = Claim { room: 0, ..scene.request(node).await };
    let next_due = scene.claim(request.clone()).await.next_due;
    assert_eq!(next_due, Some(scene.image(runs[0]).await.standing.opened_at), "of any queue and workflow");
    scene.advance(SECOND);
    assert_eq!(scene.claim(request).await.next_due, None);
    for run in runs {
        assert_eq!(scene.place(run).await, Place::Ready);
    }
}

pub(super) async fn a_blocked_run_is_freed_by_another_version<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (one, two) = (scene.define("etl", "1").await, scene.define("etl", "2").await);
    let node = scene.node().await;
    let mut runs = Vec::new();
    for (state, blocked_by) in [
        (RunState::Blocked, Some(one)),
        (RunState::Blocked, Some(two)),
        (RunState::Blocked, None),
        (RunState::Paused, Some(one)),
    ] {
        let held = scene.held_by(node).await;
        let wait = Wait { state, blocked_by, ..wait_for(&["cancel"]) };
        scene.done(node, held.run, park(held.claim, wait)).await;
        runs.push(held.run);
    }
    let ready = |runs: Vec<_>| {
        let scene = &scene;
        async move {
            let mut ready = Vec::new();
            for run in runs {
                ready.push(scene.place(run).await == Place::Ready);
            }
            ready
        }
    };
    let foreign = vec![("other".into(), scene.define("other", "1").await)];
    assert_eq!(scene.store.unblock(node, foreign).await.unwrap(), 0);
    assert_eq!(scene.store.unblock(node, vec![]).await.unwrap(), 0);
    assert_eq!(ready(runs.clone()).await, [false; 4]);
    assert_eq!(scene.store.unblock(node, vec![("etl".into(), two)]).await.unwrap(), 2);
    assert_eq!(ready(runs.clone()).await, [true, false, true, false], "a paused run is not blocked");
    assert_eq!(scene.store.unblock(node, vec![("etl".into(), two)]).await.unwrap(), 0);
    assert_eq!(scene.store.unblock(node, vec![("etl".into(), one)]).await.unwrap(), 1);
    assert_eq!(ready(runs).await, [true, true, true, false]);
}

pub(super) async fn a_claim_may_free_the_blocked_runs_of_its_own_versions<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let held = scene.held_by(node).await;
    let own = scene.image(held.run).await.standing.definition.unwrap();
    let other = scene.define("etl", "another").await;
    let block = |blocked_by| Wait { state: RunState::Blocked, blocked_by, ..wait_for(&["cancel"]) };
    scene.done(node, held.run, park(held.claim, block(Some(other)))).await;
    let ask = async |version, free_own| {
        let request =
            Claim { workflows: vec![("etl".into(), version)], free_own, ..scene.request(node).await };
        let claim = request.claim;
        (ids(&scene.claim(request).await), claim)
    };
    assert_eq!(ask(own, false).await.0, [], "nobody asked for it");
    assert_eq!(ask(other, true).await.0, [], "it is recorded under another version");
    let (taken, claim) = ask(own, true).await;
    assert_eq!(taken, [held.run]);
    scene.done(node, held.run, park(claim, block(Some(other)))).await;
    let newer = vec![("etl".into(), other)];
    let kept = Claim {
        workflows: newer,
        kept: vec![("etl".into(), own)],
        free_own: true,
        ..scene.request(node).await
    };
    let claim = kept.claim;
    assert!(scene.store.look(kept.clone()).await.expect("the store looks").own_blocked);
    assert_eq!(ids(&scene.claim(kept).await), [held.run], "its version is kept");
    scene.done(node, held.run, park(claim, block(Some(own)))).await;
    assert_eq!(ask(own, true).await.0, [], "this very version could not continue it");
}

pub(super) async fn a_look_finds_what_a_claim_would_and_takes_nothing<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let request = scene.request(node).await;
    let look = async |request: &Claim| scene.store.look(request.clone()).await.expect("the store looks");
    let nothing = look(&request).await;
    assert_eq!((nothing.next_due, nothing.work, nothing.own_blocked), (None, false, false));

    scene.start_as(NewRun { workflow: "other".into(), ..new_run() }).await;
    scene.start_as(NewRun { queue: "slow".into(), ..new_run() }).await;
    assert!(!look(&request).await.finds(), "neither is for this claim");
    let run = scene.start().await;
    assert!(!look(&Claim { queues: vec![("default".into(), 0)], ..request.clone() }).await.finds());
    assert!(look(&request).await.work);
    assert_eq!(scene.place(run).await, Place::Ready);
    let claimed = scene.claim(request.clone()).await;
    assert_eq!((ids(&claimed), look(&request).await.work), (vec![run], false), "it is taken");

    let due = claimed.now + SECOND;
    scene.done(node, run, park(request.claim, wait_until(due))).await;
    let waiting = look(&request).await;
    assert_eq!((waiting.now, waiting.next_due, waiting.work), (claimed.now, Some(due), false));
    scene.advance(SECOND);
    let elsewhere = Claim { workflows: Vec::new(), ..request };
    let waiting = look(&elsewhere).await;
    assert_eq!((waiting.now, waiting.next_due, waiting.work), (due, Some(due), true), "whoever looks");
    assert!(matches!(scene.place(run).await, Place::Waiting(_)));
}

pub(super) async fn a_look_finds_the_blocked_runs_of_its_own_versions<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let held = scene.held_by(node).await;
    let own = scene.image(held.run).await.standing.definition.unwrap();
    let other = scene.define("etl", "another").await;
    let look = async |version| {
        let request = Claim { workflows: vec![("etl".into(), version)], ..scene.request(node).await };
        let looked = scene.store.look(request).await.expect("the store looks");
        assert!(!looked.work, "only a claim that asks for it gets it");
        looked.own_blocked
    };
    let block = |blocked_by| Wait { state: RunState::Blocked, blocked_by, ..wait_for(&["cancel"]) };
    assert!(!look(own).await, "it is held");
    scene.done(node, held.run, park(held.claim, block(Some(other)))).await;
    assert_eq!((look(own).await, look(other).await), (true, false), "it is recorded under its own version");
    let request = Claim { free_own: true, ..scene.request(node).await };
    let claim = request.claim;
    assert_eq!(ids(&scene.claim(request).await), [held.run]);
    scene.done(node, held.run, park(claim, block(Some(own)))).await;
    assert!(!look(own).await, "this very version could not continue it");
}

pub(super) async fn a_version_keeps_its_number_and_its_first_body<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let define = |workflow: &str, version: &str, body: &str| {
        let row = crate::DefinitionRow { workflow: workflow.into(), version: version.into(), body: b(body) };
        let store = scene.store.clone();
        async move { store.define(row).await.unwrap() }
    };
    let first = define("etl", "1", "one").await;
    let others = [define("etl", "2", "two").await, define("other", "1", "three").await];
    assert_eq!(define("etl", "1", "changed").await, first);
    assert!(others[0] != first && others[1] != first && others[0] != others[1]);
    for (id, workflow, version, body) in
        [(first, "etl", "1", "one"), (others[0], "etl", "2", "two"), (others[1], "other", "1", "three")]
    {
        let row = scene.store.definition(id).await.unwrap().expect("it was defined");
        assert_eq!((&*row.workflow, &*row.version, row.body), (workflow, version, b(body)));
    }
    for unknown in [crate::DefinitionId(-1), crate::DefinitionId(0), crate::DefinitionId(i64::MAX)] {
        assert_eq!(scene.store.definition(unknown).await.unwrap(), None);
    }
}
