//! What the holder of a run writes.

use windlass_core::{RunState, StepKind};

use crate::{
    Act, Place, Refusal, SavedRow, StepRow, Written,
    conformance::{
        Fixture,
        scene::{Held, SECOND, Scene, b, end, new_end, park, record, send, step, wait, wait_for, wait_until},
    },
};

fn save(held: Held, name: &str, value: &str) -> Act {
    Act::Save { claim: held.claim, step: name.into(), value: b(value) }
}

/// Every act that only a holder may write.
fn acts_of(held: Held) -> [Act; 5] {
    [
        record(held.claim, vec![step("late", 1)]),
        save(held, "late", "1"),
        park(held.claim, wait()),
        Act::Release { claim: held.claim },
        end(held.claim, RunState::Completed),
    ]
}

pub(super) async fn records_come_back_in_the_order_in_which_they_were_written<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let failed = StepRow {
        kind: StepKind::Retrying,
        output: None,
        detail: Some(b("{\"failure\":1}")),
        epoch: 3,
        ..step("b", 1)
    };
    scene.done(held.node, held.run, record(held.claim, vec![failed.clone(), step("a", 1)])).await;
    scene.done(held.node, held.run, record(held.claim, vec![step("b", 2)])).await;
    let last = vec![step("0", 1), step("Z", 1)];
    let act = Act::End { claim: held.claim, steps: last, end: new_end(RunState::Completed) };
    scene.done(held.node, held.run, act).await;
    let expected = vec![failed, step("a", 1), step("b", 2), step("0", 1), step("Z", 1)];
    assert_eq!(scene.image(held.run).await.steps, expected);
}

pub(super) async fn a_record_that_is_there_already_is_left_as_it_is<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let started = StepRow { kind: StepKind::Started, output: None, ..step("a", 1) };
    let first = vec![started.clone(), step("a", 1), StepRow { epoch: 1, ..started.clone() }];
    scene.done(held.node, held.run, record(held.claim, first.clone())).await;

    let repeats = vec![
        StepRow { output: Some(b("other")), epoch: 7, ..step("a", 1) },
        StepRow { kind: StepKind::Failed, ..step("a", 1) },
        StepRow { ended_at: windlass_core::Time(99), ..started },
        step("b", 1),
    ];
    scene.done(held.node, held.run, record(held.claim, repeats)).await;
    let expected: Vec<_> = first.into_iter().chain([step("b", 1)]).collect();
    assert_eq!(scene.image(held.run).await.steps, expected);
}

pub(super) async fn generations_and_attempts_tell_records_apart<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let steps = vec![step("a", 1), step("a", 2), StepRow { generation: 2, ..step("a", 1) }, step("A", 1)];
    scene.done(held.node, held.run, record(held.claim, steps.clone())).await;
    assert_eq!(scene.image(held.run).await.steps, steps);
}

pub(super) async fn a_saved_value_replaces_the_one_before<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    for (name, value) in [("b", "1"), ("a", "2"), ("b", "3")] {
        scene.done(held.node, held.run, save(held, name, value)).await;
    }
    let expected =
        [("a", "2"), ("b", "3")].map(|(step, value)| SavedRow { step: step.into(), value: b(value) });
    assert_eq!(scene.image(held.run).await.saved, expected);
}

pub(super) async fn an_end_keeps_how_it_ended_and_clears_the_rest<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    for state in RunState::TERMINAL {
        let held = scene.held().await;
        scene.done(held.node, held.run, save(held, "a", "1")).await;
        scene.done(None, held.run, send("news")).await;
        let act = Act::End { claim: held.claim, steps: vec![step("a", 1)], end: new_end(state) };
        scene.advance(SECOND);
        let at = scene.done(held.node, held.run, act).await;

        let image = scene.image(held.run).await;
        let Place::Ended(end) = &image.standing.place else { panic!("the run has ended") };
        let expected = new_end(state);
        assert_eq!((end.state, end.at), (state, at));
        assert_eq!((&end.output, &end.failure), (&expected.output, &expected.failure));
        assert_eq!(image.standing.state(), state);
        assert_eq!(image.steps, [step("a", 1)]);
        assert!(image.inbox.is_empty() && image.saved.is_empty(), "nobody will take these in");
        assert_eq!(scene.store.ends(vec![held.run]).await.unwrap(), [(held.run, end.clone())]);
    }
}

pub(super) async fn an_end_sent_again_is_known_as_done<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let batch = || {
        vec![
            (held.run, record(held.claim, vec![step("a", 1)])),
            (held.run, save(held, "b", "1")),
            (held.run, end(held.claim, RunState::Completed)),
        ]
    };
    let first = scene.batch(held.node, batch()).await;
    let before = scene.image(held.run).await;
    scene.advance(SECOND);
    assert_eq!(scene.batch(held.node, batch()).await, first, "all of it was written, at that time");
    scene.unchanged(held.run, &before).await;
}

pub(super) async fn what_an_earlier_claim_says_after_the_end_is_not_taken_for_its_own<F: Fixture>(
    fixture: F,
) {
    let scene = Scene::new(fixture);
    let early = scene.held().await;
    scene.done(early.node, early.run, Act::Release { claim: early.claim }).await;
    let (claim, _) = scene.take(early.node).await;
    scene.done(early.node, early.run, end(claim, RunState::Completed)).await;
    let before = scene.image(early.run).await;
    for act in acts_of(early) {
        assert_eq!(scene.write(early.node, early.run, act).await, Err(Refusal::NotYours));
    }
    scene.unchanged(early.run, &before).await;
}

pub(super) async fn an_end_sent_again_does_not_end_the_next_generation<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.ended(RunState::Failed).await;
    scene.done(None, held.run, Act::Reopen { after: 1 }).await;
    let before = scene.image(held.run).await;
    let again = scene.write(held.node, held.run, end(held.claim, RunState::Failed)).await;
    assert_eq!(again, Err(Refusal::NotYours));
    scene.unchanged(held.run, &before).await;

    let idle = Act::EndIdle { only: crate::Idle::Any, end: new_end(RunState::Cancelled) };
    scene.done(None, held.run, idle).await;
    let again = scene.write(held.node, held.run, end(held.claim, RunState::Failed)).await;
    assert_eq!(again, Err(Refusal::NotYours), "this end was not written under that claim");
}

pub(super) async fn only_the_holder_under_its_claim_may_write<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let stranger = scene.node().await;
    let before = scene.image(held.run).await;
    let other_claim = Held { claim: scene.claim_id(), ..held };
    let unknown = Held { run: scene.run_id(), ..held };
    for (node, held) in
        [(Some(stranger), held), (None, held), (Some(held.node), other_claim), (Some(held.node), unknown)]
    {
        for act in acts_of(held) {
            let text = format!("{act:?}");
            assert_eq!(scene.write(node, held.run, act).await, Err(Refusal::NotYours), "{text}");
        }
    }
    scene.unchanged(held.run, &before).await;
    assert_eq!(scene.store.load(unknown.run).await.unwrap(), None);
}

pub(super) async fn what_nobody_holds_nobody_may_write<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let parked = scene.held().await;
    scene.done(parked.node, parked.run, park(parked.claim, wait())).await;
    let ready = Held { run: scene.start().await, ..parked };
    for held in [ready, parked] {
        let before = scene.image(held.run).await;
        for node in [None, Some(held.node)] {
            for act in acts_of(held) {
                let text = format!("{act:?}");
                assert_eq!(scene.write(node, held.run, act).await, Err(Refusal::NotYours), "{text}");
            }
        }
        scene.unchanged(held.run, &before).await;
    }
}

pub(super) async fn a_release_makes_the_run_ready_and_counts_nothing<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let before = scene.image(held.run).await.standing;
    scene.done(held.node, held.run, Act::Release { claim: held.claim }).await;
    let after = scene.image(held.run).await.standing;
    assert_eq!(after.state(), RunState::Suspended, "it has begun");
    assert_eq!(after, crate::Standing { place: Place::Ready, ..before });
}

pub(super) async fn a_park_writes_its_records_and_waits<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.done(None, held.run, send("taken")).await;
    scene.done(None, held.run, send("left")).await;
    let inbox = scene.image(held.run).await.inbox;
    let reason = Some("waits for approval".into());
    let wait = crate::Wait { until: Some(windlass_core::Time::MAX), reason, ..wait_for(&["a", "b"]) };
    let act = Act::Park {
        claim: held.claim,
        steps: vec![step("a", 1)],
        consumed: vec![inbox[0].seq],
        wait: wait.clone(),
    };
    scene.done(held.node, held.run, act).await;
    let image = scene.image(held.run).await;
    assert_eq!(image.standing.place, Place::Waiting(wait));
    assert_eq!(image.standing.state(), RunState::Suspended);
    assert_eq!((image.steps, image.inbox), (vec![step("a", 1)], vec![inbox[1].clone()]));
    assert_eq!(scene.take(held.node).await.1, []);
}

pub(super) async fn a_park_sent_twice_does_not_take_the_run_from_its_next_owner<F: Fixture>(fixture: F) {
    let give_up: [fn(Held) -> Act; 2] =
        [|held| park(held.claim, wait_for(&["go"])), |held| Act::Release { claim: held.claim }];
    let scene = Scene::new(fixture);
    for give_up in give_up {
        let held = scene.held().await;
        scene.done(held.node, held.run, give_up(held)).await;
        assert_eq!(scene.write(held.node, held.run, give_up(held)).await, Err(Refusal::NotYours));
        scene.done(None, held.run, send("go")).await;
        assert_eq!(scene.take(held.node).await.1, [held.run]);
        let before = scene.image(held.run).await;
        assert_eq!(scene.write(held.node, held.run, give_up(held)).await, Err(Refusal::NotYours));
        scene.unchanged(held.run, &before).await;
    }
}

pub(super) async fn a_park_until_a_time_that_has_come_is_ready_at_once<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let now = scene.store.heartbeat(held.node, 1.into()).await.unwrap().now;
    scene.done(held.node, held.run, park(held.claim, wait_until(now))).await;
    assert_eq!(scene.place(held.run).await, Place::Ready);
}

pub(super) async fn a_park_finds_the_row_that_came_before_it<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.done(None, held.run, send("go")).await;
    scene.done(held.node, held.run, park(held.claim, wait_for(&["stop", "go"]))).await;
    assert_eq!(scene.place(held.run).await, Place::Ready);

    let (claim, runs) = scene.take(held.node).await;
    assert_eq!(runs, [held.run]);
    let consumed = vec![scene.image(held.run).await.inbox[0].seq];
    let act = Act::Park { claim, steps: vec![], consumed, wait: wait_for(&["go"]) };
    scene.done(held.node, held.run, act).await;
    assert!(matches!(scene.place(held.run).await, Place::Waiting(_)), "a row that was taken in wakes nobody");
}

pub(super) async fn every_state_of_waiting_is_kept_and_others_are_unfit<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let version = scene.define("etl", "2").await;
    let mut unfit = 0;
    for state in RunState::ALL {
        let held = scene.held().await;
        let wait = crate::Wait { state, blocked_by: Some(version), ..wait_for(&["go"]) };
        match scene.write(held.node, held.run, park(held.claim, wait.clone())).await {
            Ok(Written::Done { .. }) => {
                let standing = scene.image(held.run).await.standing;
                assert_eq!((standing.state(), standing.place), (state, Place::Waiting(wait)));
            }
            answer => {
                assert!(matches!(answer, Err(Refusal::Unfit(_))), "{answer:?}");
                assert!(matches!(scene.place(held.run).await, Place::Owned { .. }));
                unfit += 1;
            }
        }
    }
    assert_eq!(unfit, 5);
}

pub(super) async fn a_run_cannot_end_in_a_state_that_is_no_end<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let before = scene.image(held.run).await;
    let answer = scene.write(held.node, held.run, end(held.claim, RunState::Running)).await;
    assert!(matches!(answer, Err(Refusal::Unfit(_))), "{answer:?}");
    scene.unchanged(held.run, &before).await;
}
