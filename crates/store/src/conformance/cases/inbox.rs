//! What others send to a run.

use windlass_core::RunState;

use crate::{
    Act, NewRun, Place, Refusal, Written,
    conformance::{
        Fixture,
        scene::{SECOND, Scene, end, new_run, park, record, send, send_once, take_in, wait_for},
    },
};

pub(super) async fn a_message_lies_in_the_inbox_until_it_is_taken_in<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let at = scene.done(None, held.run, send("first")).await;
    scene.advance(SECOND);
    scene.done(held.node, held.run, send("second")).await;
    scene.done(None, held.run, send("first")).await;
    let inbox = scene.image(held.run).await.inbox;
    assert_eq!(scene.topics(held.run).await, ["first", "second", "first"], "oldest first");
    assert_eq!((inbox[0].run, inbox[0].at, &inbox[0].body[..]), (held.run, at, &b"hello"[..]));

    let act = take_in(held.claim, vec![inbox[1].seq, inbox[0].seq]);
    scene.done(held.node, held.run, act).await;
    assert_eq!(scene.image(held.run).await.inbox, [inbox[2].clone()]);
}

pub(super) async fn taking_in_what_is_not_there_is_harmless<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let other = scene.held_by(held.node).await;
    scene.done(None, held.run, send("mine")).await;
    scene.done(None, other.run, send("theirs")).await;
    let theirs = scene.image(other.run).await.inbox[0].seq;
    let act = take_in(held.claim, vec![theirs, theirs + 1000, -1]);
    scene.done(held.node, held.run, act).await;
    assert_eq!(scene.topics(held.run).await, ["mine"]);
    assert_eq!(scene.topics(other.run).await, ["theirs"], "another run's inbox is its own");
}

pub(super) async fn a_number_that_was_taken_in_never_names_another_message<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.done(None, held.run, send("first")).await;
    let consumed = vec![scene.image(held.run).await.inbox[0].seq];
    let act = take_in(held.claim, consumed);
    scene.done(held.node, held.run, act.clone()).await;
    scene.done(None, held.run, send("second")).await;
    scene.done(held.node, held.run, act).await;
    assert_eq!(scene.topics(held.run).await, ["second"], "the repeat hits nothing");
}

pub(super) async fn a_message_wakes_the_run_that_waits_for_its_topic_alone<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.done(held.node, held.run, park(held.claim, wait_for(&["go", "stop"]))).await;
    for other in ["", "g", "gone", "GO", "go,stop"] {
        scene.done(None, held.run, send(other)).await;
        assert!(matches!(scene.place(held.run).await, Place::Waiting(_)), "{other:?} is another topic");
    }
    scene.done(None, held.run, send("stop")).await;
    assert_eq!(scene.place(held.run).await, Place::Ready);
    assert_eq!(scene.topics(held.run).await.len(), 6, "what woke it is there with the rest");
}

pub(super) async fn a_message_to_a_ready_or_held_run_leaves_it_where_it_is<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let place = scene.place(held.run).await;
    let ready = scene.start().await;
    let delayed = scene.start_as(NewRun { delay: Some(SECOND), ..new_run() }).await;
    for run in [held.run, ready, delayed] {
        scene.done(None, run, send("cancel")).await;
        assert_eq!(scene.topics(run).await, ["cancel"]);
    }
    assert_eq!(scene.place(held.run).await, place);
    assert_eq!(scene.place(ready).await, Place::Ready);
    assert!(matches!(scene.place(delayed).await, Place::Waiting(_)), "a delay waits for no topic");
}

pub(super) async fn a_message_to_an_ended_or_unknown_run_is_refused<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.ended(RunState::Cancelled).await;
    let refused = Err(Refusal::Ended(RunState::Cancelled));
    assert_eq!(scene.write(None, held.run, send("late")).await, refused);
    assert_eq!(scene.write(None, held.run, send_once("late", "k")).await, refused);
    assert_eq!(scene.topics(held.run).await, [""; 0]);
    assert_eq!(scene.write(None, scene.run_id(), send("lost")).await, Err(Refusal::Unknown));
}

pub(super) async fn a_keyed_message_is_delivered_once<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.done(None, held.run, send_once("paid", "k")).await;
    scene.done(None, held.run, send_once("paid", "k")).await;
    scene.done(None, held.run, send_once("paid", "other")).await;
    scene.done(None, held.run, send_once("shipped", "k")).await;
    assert_eq!(scene.topics(held.run).await, ["paid", "paid", "shipped"]);

    let other = scene.start().await;
    scene.done(None, other, send_once("paid", "k")).await;
    assert_eq!(scene.topics(other).await, ["paid"], "the key is of one run");
}

pub(super) async fn a_keyed_message_that_was_taken_in_is_not_delivered_again<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.done(None, held.run, send_once("paid", "k")).await;
    let consumed = vec![scene.image(held.run).await.inbox[0].seq];
    scene.done(held.node, held.run, take_in(held.claim, consumed)).await;
    scene.done(None, held.run, send_once("paid", "k")).await;
    assert_eq!(scene.topics(held.run).await, [""; 0]);

    scene.done(None, held.run, send_once("shipped", "k")).await;
    scene.done(held.node, held.run, end(held.claim, RunState::Failed)).await;
    let repeat = scene.write(None, held.run, send_once("paid", "k")).await;
    assert!(matches!(repeat, Ok(Written::Done { .. })), "it did arrive before the end: {repeat:?}");
    scene.done(None, held.run, Act::Reopen { after: 1 }).await;
    scene.done(None, held.run, send_once("paid", "k")).await;
    assert_eq!(scene.topics(held.run).await, [""; 0], "not in the next generation either");
}

pub(super) async fn a_keyed_message_that_an_end_threw_away_may_be_sent_again<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    scene.done(None, held.run, send_once("paid", "k")).await;
    scene.done(held.node, held.run, end(held.claim, RunState::Failed)).await;
    let answer = scene.write(None, held.run, send_once("paid", "k")).await;
    assert_eq!(answer, Err(Refusal::Ended(RunState::Failed)));
    scene.done(None, held.run, Act::Reopen { after: 1 }).await;
    scene.done(None, held.run, send_once("paid", "k")).await;
    assert_eq!(scene.topics(held.run).await, ["paid"]);
}

pub(super) async fn a_node_sees_the_inboxes_of_the_runs_it_holds<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let again = scene.held_by(held.node).await;
    let other = scene.held().await;
    let ready = scene.start().await;
    for run in [again.run, other.run, ready, held.run] {
        scene.done(None, run, send("news")).await;
    }
    for (node, expected) in [(held.node, vec![again.run, held.run]), (other.node, vec![other.run])] {
        let beat = scene.store.heartbeat(node, 1.into()).await.unwrap();
        let runs: Vec<_> = beat.inbox.iter().map(|row| row.run).collect();
        assert_eq!(runs, expected, "oldest first, over all its runs");
        assert_eq!(scene.store.inbox(node, None).await.unwrap(), beat.inbox);
    }
    let only = Some(vec![held.run, other.run, ready]);
    let rows = scene.store.inbox(held.node, only).await.unwrap();
    let runs: Vec<_> = rows.iter().map(|row| row.run).collect();
    assert_eq!(runs, [held.run], "of those asked for, what it holds");
    scene.done(held.node, held.run, Act::Release { claim: held.claim }).await;
    let only = Some(vec![held.run]);
    assert_eq!(scene.store.inbox(held.node, only).await.unwrap(), [], "a run that was given up is not held");
    let runs: Vec<_> = scene.store.inbox(held.node, None).await.unwrap().iter().map(|row| row.run).collect();
    assert_eq!(runs, [again.run], "a run that was given up is no longer its business");
    assert_eq!(scene.store.inbox(scene.node_id(), None).await.unwrap(), []);
}

pub(super) async fn a_claim_brings_the_inbox_along<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let run = scene.start().await;
    scene.done(None, run, send("pause")).await;
    let claimed = scene.claim(scene.request(node).await).await;
    assert_eq!(claimed.runs[0].inbox[0].topic, "pause");
    let act = record(scene.claim_id(), vec![]);
    assert_eq!(scene.write(node, run, act).await, Err(Refusal::NotYours), "reading is not holding");
    assert_eq!(scene.topics(run).await, ["pause"], "a claim takes nothing in");
}

pub(super) async fn messages_of_one_batch_come_in_order_and_each_key_once<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let ended = scene.ended(RunState::Cancelled).await;
    let one = scene.held().await;
    let other = scene.start().await;
    scene.done(one.node, one.run, park(one.claim, wait_for(&["bell"]))).await;
    let answers = scene
        .batch(
            None,
            vec![
                (one.run, send("a")),
                (one.run, send_once("b", "k")),
                (other, send("a")),
                (one.run, send_once("b", "k")),
                (ended.run, send("late")),
                (one.run, send_once("c", "k")),
                (one.run, send("bell")),
                (ended.run, send_once("late", "k")),
                (one.run, send("bell")),
            ],
        )
        .await;
    let refused: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert_eq!(refused, [&Refusal::Ended(RunState::Cancelled), &Refusal::Ended(RunState::Cancelled)]);
    assert_eq!(scene.topics(one.run).await, ["a", "b", "c", "bell", "bell"]);
    assert_eq!(scene.topics(other).await, ["a"]);
    assert_eq!(scene.place(one.run).await, Place::Ready, "it was woken once");
}
