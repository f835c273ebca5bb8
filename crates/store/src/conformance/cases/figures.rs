//! Counts and logs, for people.

use std::sync::Arc;

use windlass_core::{RunId, RunState, Time};

use crate::{
    Act, Count, LogLine, NewRun, Query, QueueBacklog, Tally,
    conformance::{
        Fixture,
        scene::{SECOND, Scene, key, new_run, park, step, wait, with_key},
    },
};

fn any() -> Query {
    Query::default()
}

pub(super) async fn runs_are_counted_by_the_state_that_people_see<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    for state in RunState::TERMINAL {
        scene.ended(state).await;
    }
    scene.ended(RunState::Failed).await;
    for state in [RunState::Suspended, RunState::Paused, RunState::Blocked, RunState::Undoing] {
        let held = scene.held().await;
        scene.done(held.node, held.run, park(held.claim, crate::Wait { state, ..wait() })).await;
    }
    scene.held().await;
    let reopened = scene.ended(RunState::Cancelled).await;
    scene.released().await;
    scene.start().await;
    scene.start_as(NewRun { delay: Some(SECOND), ..new_run() }).await;
    scene.done(None, reopened.run, Act::Reopen { after: 1 }).await;
    let expected = RunState::ALL.map(|state| {
        let count = match state {
            RunState::Failed | RunState::Pending => 2,
            RunState::Suspended => 3,
            _ => 1,
        };
        Count { state, count, whole: true }
    });
    // One way leads over the places in which runs stand, the others over their descriptions.
    let since = Some(Time(0));
    for query in [any(), Query { workflow: Some("etl".into()), ..any() }, Query { since, ..any() }] {
        assert_eq!(scene.store.count(query.clone(), 1_000).await.unwrap(), expected, "{query:?}");
    }
}

pub(super) async fn each_condition_narrows_the_count<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    scene.start_as(NewRun { tags: vec!["eu".to_owned()], ..new_run() }).await;
    scene.advance(SECOND);
    let slow = scene.start_as(NewRun { queue: "slow".into(), ..new_run() }).await;
    scene.start_as(NewRun { workflow: "other".into(), ..with_key(key("k", 1)) }).await;
    let time = scene.image(slow).await.run.created_at;
    let cases = [
        (Query { workflow: Some("other".into()), ..any() }, 1),
        (Query { workflow: Some("none".into()), ..any() }, 0),
        (Query { without: Some("et".into()), ..any() }, 1),
        (Query { queue: Some("default".into()), ..any() }, 2),
        (Query { tag: Some("eu".into()), ..any() }, 1),
        (Query { key: Some("k".into()), ..any() }, 1),
        (Query { since: Some(time), ..any() }, 2),
        (Query { until: Some(time), ..any() }, 1),
        (Query { after: Some(slow), limit: 0, ..any() }, 3),
    ];
    for (query, count) in cases {
        let states = vec![RunState::Failed, RunState::Pending];
        let query = Query { states, ..query };
        let (pending, failed) = (
            Count { state: RunState::Pending, count, whole: true },
            Count { state: RunState::Failed, count: 0, whole: true },
        );
        assert_eq!(scene.store.count(query.clone(), 1_000).await.unwrap(), [pending, failed], "{query:?}");
    }
}

pub(super) async fn a_count_that_is_cut_short_says_so<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    for _ in 0..3 {
        scene.ended(RunState::Failed).await;
        scene.ended(RunState::Completed).await;
    }
    for _ in 0..3 {
        scene.start().await;
    }
    for query in [any(), Query { queue: Some("default".into()), ..any() }] {
        for look in 1..12 {
            for count in scene.store.count(query.clone(), look).await.unwrap() {
                let exact = match count.state {
                    RunState::Pending | RunState::Failed | RunState::Completed => 3,
                    _ => 0,
                };
                assert!(count.count == exact || count.count < exact && !count.whole, "{look}: {count:?}");
            }
        }
        assert!(scene.store.count(query, 1).await.unwrap().iter().any(|count| !count.whole));
    }
}

pub(super) async fn a_search_may_be_given_up_for_now_and_goes_on_where_it_was<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let mut wanted = Vec::new();
    for number in 0..12 {
        let queue: Arc<str> = if number % 5 == 0 { "rare" } else { "slow" }.into();
        let run = scene.start_as(NewRun { queue, tags: vec!["t".into()], ..new_run() }).await;
        wanted.extend((number % 5 == 0).then_some(run));
        scene.ended(RunState::Failed).await;
    }
    wanted.reverse();
    let workflow = Some(Arc::from("etl"));
    let (pending, failed) = (vec![RunState::Pending], vec![RunState::Failed]);
    let queries = [
        any(),
        Query { workflow: workflow.clone(), ..any() },
        Query { states: pending.clone(), ..any() },
        Query { states: pending, workflow, ..any() },
        Query { tag: Some("t".into()), ..any() },
        Query { states: failed, queue: Some("none".into()), ..any() },
    ];
    for query in queries {
        let queue = query.queue.clone().or(Some("rare".into()));
        let expected: &[RunId] = if query.queue.is_some() { &[] } else { &wanted };
        for look in [1, 2, 5, 100] {
            let (mut after, mut found) = (None, Vec::new());
            for turn in 0.. {
                assert!(turn < 200, "it comes to an end: {query:?}");
                let query = Query { after, look, limit: 2, queue: queue.clone(), ..query.clone() };
                let page = scene.store.find(query).await.unwrap();
                found.extend(page.runs.iter().map(|run| run.id));
                assert_eq!(page.more, page.next.is_some());
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            assert_eq!(found, expected, "{look}: {query:?}");
        }
    }
}

pub(super) async fn the_backlog_shows_queues_that_nobody_declared<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    assert_eq!(scene.store.backlog(1_000).await.unwrap().queues, []);
    let first = scene.start().await;
    scene.advance(SECOND);
    scene.start().await;
    let node = scene.node().await;
    scene.start_as(NewRun { queue: "slow".into(), ..new_run() }).await;
    let waiting = scene.start_as(NewRun { delay: Some(SECOND * 5), ..new_run() }).await;
    let now = scene.image(waiting).await.run.created_at;
    let queue = |name: &str| QueueBacklog::new(name.into());
    let opened_at = scene.image(first).await.standing.opened_at;
    let default = QueueBacklog { ready: 2, oldest: Some(opened_at), ..queue("default") };
    let slow = QueueBacklog { ready: 1, oldest: Some(now), ..queue("slow") };
    let backlog = scene.store.backlog(1_000).await.unwrap();
    assert_eq!((backlog.queues, backlog.due), (vec![default, slow.clone()], Some(now + SECOND * 5)));
    scene.take(node).await;
    scene.take(node).await;
    let backlog = scene.store.backlog(1_000).await.unwrap();
    let default = QueueBacklog { held: 2, ..queue("default") };
    assert_eq!(backlog.queues.first(), Some(&default));
}

pub(super) async fn outlines_are_steps_without_what_they_carry<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let held = scene.held().await;
    let record = |name: &str| Act::Record {
        claim: held.claim,
        steps: vec![step(name, 1)],
        consumed: Vec::new(),
        forget: false,
    };
    scene.done(held.node, held.run, record("a")).await;
    scene.done(held.node, held.run, record("b")).await;
    let last = Act::End {
        claim: held.claim,
        steps: vec![step("c", 1)],
        end: crate::NewEnd { state: RunState::Completed, output: None, failure: None },
    };
    scene.done(held.node, held.run, last).await;
    let unknown = scene.run_id();
    let mut expected = scene.image(held.run).await.steps;
    for step in &mut expected {
        (step.output, step.detail) = (None, None);
    }
    assert_eq!(expected.len(), 3);
    let seen = scene.store.outlines(vec![unknown, held.run], 100).await.unwrap();
    assert_eq!(seen, [(held.run, expected)]);
    let (_, few) = scene.store.outlines(vec![held.run], 2).await.unwrap().remove(0);
    assert!(few.len() <= 2, "{few:?}");
}

pub(super) async fn what_is_counted_adds_up_by_the_minute_and_for_ever<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let run = scene.start().await;
    let minute = Time(scene.image(run).await.run.created_at.0 / 60_000_000 * 60_000_000);
    let tally = |state, at, count| Tally { workflow: "etl".into(), state, at, count };
    let old = minute - SECOND * 60 * 60 * 48;
    let completed = RunState::Completed;
    let sorted = |mut tallies: Vec<Tally>| {
        tallies.sort_by_key(|tally| (tally.at, tally.state));
        tallies
    };
    scene.store.tally(vec![tally(completed, minute, 2), tally(RunState::Running, minute, 5)]).await.unwrap();
    scene.store.tally(vec![tally(completed, minute, 1), tally(completed, old, 4)]).await.unwrap();
    scene.store.tally(vec![tally(completed, minute, -1)]).await.unwrap();
    let seen = sorted(scene.store.tallies(minute).await.unwrap());
    assert_eq!(seen, [tally(RunState::Running, minute, 5), tally(completed, minute, 3)]);
    assert_eq!(scene.store.tallies(old).await.unwrap().len(), 2, "what is long past is forgotten");
    let ever = sorted(scene.store.tallies(Tally::EVER).await.unwrap());
    assert_eq!(ever, [tally(RunState::Running, Tally::EVER, 5), tally(completed, Tally::EVER, 6)]);
}

fn line(run: RunId, message: &str) -> LogLine {
    LogLine {
        run,
        at: Time(7),
        level: 3,
        task: "load".into(),
        attempt: 2,
        message: message.to_owned(),
        fields: Some("{\"rows\":3}".to_owned()),
        dropped: 0,
    }
}

pub(super) async fn what_was_logged_is_kept_with_its_run_and_goes_with_it<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let (held, other) = (scene.ended(RunState::Failed).await, scene.start().await);
    let lines = vec![line(held.run, "a"), line(other, "b"), LogLine { fields: None, ..line(held.run, "c") }];
    scene.store.add_log(lines.clone()).await.unwrap();
    scene.store.add_log(vec![line(scene.run_id(), "of no run")]).await.unwrap();
    assert_eq!(scene.store.log(held.run).await.unwrap(), [lines[0].clone(), lines[2].clone()]);
    assert_eq!(scene.store.log(other).await.unwrap(), [lines[1].clone()]);
    let gone =
        crate::Discard { node: None, runs: vec![(held.run, 1)], keyed: crate::Keyed::Goes, within: SECOND };
    assert_eq!(scene.store.discard(gone).await.unwrap(), [Ok(())]);
    assert_eq!(scene.store.log(held.run).await.unwrap(), []);
    assert_eq!(scene.store.log(other).await.unwrap().len(), 1);
}

pub(super) async fn a_run_keeps_no_more_lines_than_it_may_and_says_how_many_went<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let run = scene.start().await;
    let many = |count| (0..count).map(|no: usize| line(run, &no.to_string())).collect::<Vec<_>>();
    scene.store.add_log(many(LogLine::MOST - 1)).await.unwrap();
    scene.store.add_log(many(3)).await.unwrap();
    scene.store.add_log(vec![LogLine { dropped: 4, ..line(run, "late") }]).await.unwrap();
    let lines = scene.store.log(run).await.unwrap();
    assert_eq!(lines.len(), LogLine::MOST);
    let last = lines.last().unwrap();
    assert_eq!((&*last.message, last.dropped), ("0", 2 + 5));
}
