//! Rates of keys, and priorities that age.

use std::sync::Arc;

use windlass_core::{RunId, RunState, Time};

use super::{
    super::{
        Fixture,
        scene::{SECOND, Scene, ids, new_end, new_run, start},
    },
    queues::{at_once, tight},
};
use crate::{Act, Claim, Claimed, Idle, NewRun, Place, QueueLimits, Rate, Written};

const NO_LIMITS: QueueLimits = QueueLimits::NONE;

pub(super) async fn a_rate_of_keys_lets_no_more_of_a_key_be_taken_in_any_span(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let rate = Rate { count: 2, per: SECOND };
    scene.limit(QueueLimits { key_rate: Some(rate), ..NO_LIMITS }).await;
    let (a, free) = (scene.several("a", 5).await, scene.several("", 3).await);
    let take = async || -> Claimed { scene.claim(scene.asking(node, 100).await).await };
    let first = take().await;
    assert_eq!(ids(&first), [&a[..2], &free].concat(), "those without a key are not counted");
    assert_eq!((first.more, first.next_due), (false, Some(rate.noted(first.now) + SECOND)));
    scene.advance(SECOND / 2);
    let b = scene.several("b", 1).await;
    let then = take().await;
    assert_eq!(ids(&then), b, "another key does not wait");
    assert_eq!((then.more, then.next_due), (false, Some(rate.noted(first.now) + SECOND)));
    scene.advance(SECOND / 2 + SECOND / 1000);
    assert_eq!(scene.get(node, 1).await.1, a[2..3]);
    assert_eq!(scene.get(node, 100).await.1, a[3..4]);
    let looked = scene.store.look(scene.asking(node, 100).await).await.expect("the store looks");
    assert!(!looked.work && looked.next_due > Some(looked.now), "{looked:?}");
    scene.advance(SECOND * 2);
    let last = take().await;
    assert_eq!((ids(&last), last.next_due), (a[4..].to_vec(), None), "nothing is left to wait for");
}

pub(super) async fn what_has_no_key_has_no_rate_of_keys_beside_that_of_its_queue(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let (rate, key_rate) = (Rate { count: 5, per: SECOND }, Rate { count: 1, per: SECOND });
    scene.limit(QueueLimits { rate: Some(rate), key_rate: Some(key_rate), ..NO_LIMITS }).await;
    let (free, a) = (scene.several("", 4).await, scene.several("a", 2).await);
    assert_eq!(scene.get(node, 2).await.1, [free[0], a[0]], "the first of each");
    assert_eq!(scene.get(node, 100).await.1, free[1..], "what the queue began is not what a key began");
    assert!(scene.get(node, 100).await.1.is_empty(), "the key has begun enough, and so has the queue");
}

pub(super) async fn a_key_that_rests_obeys_what_its_queue_is_told_then(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let per_day = |count| QueueLimits { key_rate: Some(Rate { count, per: SECOND * 86_400 }), ..NO_LIMITS };
    scene.limit(per_day(1)).await;
    let runs = scene.several("a", 6).await;
    assert_eq!(scene.get(node, 100).await.1, runs[..1]);
    assert!(scene.get(node, 100).await.1.is_empty());
    let urgent = NewRun { priority: 0, queue_key: Some("a".into()), ..tight() };
    let urgent = scene.start_as(urgent).await;
    assert!(scene.get(node, 100).await.1.is_empty(), "it rests");
    scene.limit(per_day(3)).await;
    assert_eq!(
        scene.get(node, 100).await.1,
        [urgent, runs[1]],
        "the most urgent comes first, whenever it came"
    );
    let stopped = Act::EndIdle { only: Idle::Any, end: new_end(RunState::Cancelled) };
    scene.done(None, runs[2], stopped).await;
    assert_eq!(scene.place(runs[3]).await, Place::Ready, "one that rests is ready all the same");
    assert_eq!(scene.queue().await.depth, 3);
    scene.limit(at_once(100)).await;
    assert_eq!(scene.get(node, 100).await.1, runs[3..]);
    scene.limit(per_day(1)).await;
    let next = scene.several("a", 1).await;
    assert_eq!(scene.get(node, 100).await.1, next, "what began while there was no rate is not counted");
}

pub(super) async fn keys_that_rest_do_not_wait_for_a_clock_that_is_put_back(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let key_rate = Some(Rate { count: 1, per: SECOND });
    scene.limit(QueueLimits { key_rate, ..NO_LIMITS }).await;
    let runs = scene.several("a", 3).await;
    assert_eq!(scene.get(node, 100).await.1, runs[..1]);
    assert!(scene.get(node, 100).await.1.is_empty());
    if !scene.fixture.put_back(SECOND * 3600) {
        return;
    }
    let looked = scene.store.look(scene.asking(node, 100).await).await.expect("the store looks");
    assert!(looked.work, "whoever only looks sees it too: {looked:?}");
    let then = scene.claim(scene.asking(node, 100).await).await;
    assert_eq!(ids(&then), runs[1..2], "what was noted ahead does not count");
    assert!(then.next_due <= Some(then.now + SECOND * 2), "{then:?}");
    scene.advance(SECOND * 2);
    assert_eq!(scene.get(node, 100).await.1, runs[2..]);
}

pub(super) async fn what_was_begun_too_long_ago_for_a_rate_is_not_counted_by_a_longer_one(
    fixture: impl Fixture,
) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let per = |seconds| QueueLimits { key_rate: Some(Rate { count: 1, per: SECOND * seconds }), ..NO_LIMITS };
    scene.limit(per(1)).await;
    let runs = scene.several("a", 3).await;
    assert_eq!(scene.get(node, 100).await.1, runs[..1]);
    scene.advance(SECOND * 2);
    scene.limit(per(60)).await;
    assert_eq!(scene.get(node, 100).await.1, runs[1..2]);
    assert!(scene.get(node, 100).await.1.is_empty());
}

pub(super) async fn a_run_that_has_waited_comes_before_more_urgent_ones(fixture: impl Fixture) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    scene.limit(QueueLimits { ageing: Some(SECOND * 60), ..NO_LIMITS }).await;
    // The times in ids are of no account: a child has that of its parent, and a clock may be wrong.
    let starting = async |key: Option<&str>, second: u32, priority| {
        let mut bytes = *RunId::least(Time(0) + SECOND * second).as_bytes();
        bytes[15] = u8::from(key.is_some());
        let run = RunId::from_bytes(bytes);
        let new = NewRun { priority, queue_key: key.map(Into::into), ..tight() };
        let answer = scene.write(None, run, start(new)).await;
        assert!(matches!(answer, Ok(Written::Started { .. })), "{answer:?}");
        run
    };
    for key in [None, Some("a")] {
        let old = starting(key, 9_000_000, 9).await;
        scene.advance(SECOND * 100);
        let urgent = starting(key, 2, 0).await;
        scene.advance(SECOND * 100);
        let middle = starting(key, 1, 4).await;
        scene.advance(SECOND * 400);
        let late = starting(key, 3, 0).await;
        let mut order = Vec::new();
        for _ in 0..4 {
            order.extend(scene.get(node, 1).await.1);
        }
        assert_eq!(order, [urgent, middle, old, late], "{key:?}");
    }
}

pub(super) async fn a_run_that_has_waited_is_weighed_beside_other_queues_by_what_it_has_come_to(
    fixture: impl Fixture,
) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    scene.limit(QueueLimits { ageing: Some(SECOND * 60), ..NO_LIMITS }).await;
    let old = scene.start_as(NewRun { priority: 9, ..tight() }).await;
    scene.advance(SECOND * 600);
    let other = scene.start_as(NewRun { priority: 3, ..new_run() }).await;
    let urgent = scene.start_as(NewRun { priority: 0, ..tight() }).await;
    let queues: Vec<(Arc<str>, usize)> = vec![("default".into(), 1000), ("tight".into(), 1000)];
    let mut order = Vec::new();
    for _ in 0..3 {
        let request = Claim { room: 1, queues: queues.clone(), ..scene.request(node).await };
        order.extend(ids(&scene.claim(request).await));
    }
    assert_eq!(order, [old, urgent, other], "it does not keep more urgent ones of its queue waiting");
}
