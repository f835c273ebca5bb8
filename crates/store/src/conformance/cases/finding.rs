//! Listings.

use windlass_core::{RunId, RunState};

use crate::{
    Act, NewRun, Query,
    conformance::{
        Fixture,
        scene::{SECOND, Scene, end, key, new_run, park, wait, with_key},
    },
};

fn limited(limit: usize) -> Query {
    Query { limit, ..Query::default() }
}

pub(super) async fn the_newest_runs_come_first_page_by_page<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(scene.start().await);
    }
    runs.reverse();
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = scene.store.find(Query { after, ..limited(2) }).await.unwrap();
        seen.extend(page.runs.iter().map(|run| run.id));
        assert_eq!(page.more, seen.len() < 5);
        if !page.more {
            break;
        }
        after = seen.last().copied();
    }
    assert_eq!(seen, runs);
    assert_eq!(scene.found(Query::default()).await, runs);
}

pub(super) async fn a_page_follows_a_run_that_is_not_there<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let first = scene.start().await;
    let gap = scene.run_id();
    scene.start().await;
    assert_eq!(scene.found(Query { after: Some(gap), ..Query::default() }).await, [first]);
}

pub(super) async fn a_limit_of_nothing_says_whether_there_is_something<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let page = scene.store.find(limited(0)).await.unwrap();
    assert_eq!((page.runs.len(), page.more), (0, false));
    scene.start().await;
    let page = scene.store.find(limited(0)).await.unwrap();
    assert_eq!((page.runs.len(), page.more), (0, true));
    assert_eq!(scene.found(limited(usize::MAX)).await.len(), 1);
}

pub(super) async fn a_summary_shows_what_the_run_shows<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let node = scene.node().await;
    let tags = vec!["b".to_owned(), "a".to_owned()];
    let run = scene.start_as(NewRun { tags: tags.clone(), priority: 2, ..with_key(key("k", 1)) }).await;
    let (claim, _) = scene.take(node).await;
    for act in [None, Some(end(claim, RunState::Failed)), Some(Act::Reopen { after: 1 })] {
        if let Some(act) = act {
            scene.done(node, run, act).await;
        }
        let image = scene.image(run).await;
        let summary = scene.store.find(Query::default()).await.unwrap().runs.remove(0);
        assert_eq!((summary.id, summary.priority, summary.key.as_deref()), (run, 2, Some("k")));
        assert_eq!((summary.workflow, summary.queue), (image.run.workflow, image.run.queue));
        assert_eq!((summary.tags, summary.created_at), (tags.clone(), image.run.created_at));
        assert_eq!(summary.standing, image.standing);
    }
}

pub(super) async fn each_condition_narrows_the_listing<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let tags = |tags: &[&str]| tags.iter().map(|&tag| tag.to_owned()).collect::<Vec<_>>();
    let a = scene.start_as(NewRun { tags: tags(&["eu"]), ..new_run() }).await;
    scene.advance(SECOND);
    let b =
        scene.start_as(NewRun { queue: "slow".into(), tags: tags(&["eu", "vip", "eu"]), ..new_run() }).await;
    scene.advance(SECOND);
    let c = scene.start_as(NewRun { workflow: "other".into(), ..with_key(key("k", 1)) }).await;
    let time = scene.image(b).await.run.created_at;

    let all = Query::default;
    let cases: Vec<(Query, Vec<RunId>)> = vec![
        (Query { workflow: Some("etl".into()), ..all() }, vec![b, a]),
        (Query { workflow: Some("none".into()), ..all() }, vec![]),
        (Query { without: Some("et".into()), ..all() }, vec![c]),
        (Query { without: Some("tl".into()), ..all() }, vec![c, b, a]),
        (Query { without: Some("etl.".into()), queue: Some("slow".into()), ..all() }, vec![b]),
        (Query { without: Some("oth".into()), states: vec![RunState::Pending], ..all() }, vec![b, a]),
        (Query { queue: Some("default".into()), ..all() }, vec![c, a]),
        (Query { tag: Some("eu".into()), ..all() }, vec![b, a]),
        (Query { tag: Some("vip".into()), ..all() }, vec![b]),
        (Query { tag: Some("e".into()), ..all() }, vec![]),
        (Query { key: Some("k".into()), ..all() }, vec![c]),
        (Query { since: Some(time), ..all() }, vec![c, b]),
        (Query { until: Some(time), ..all() }, vec![a]),
        (Query { since: Some(time), until: Some(time), ..all() }, vec![]),
        (Query { after: Some(c), tag: Some("eu".into()), queue: Some("slow".into()), ..all() }, vec![b]),
        (Query { workflow: Some("etl".into()), key: Some("k".into()), ..all() }, vec![]),
    ];
    for (query, expected) in cases {
        assert_eq!(scene.found(query.clone()).await, expected, "{query:?}");
    }
    let page = scene.store.find(Query { tag: Some("eu".into()), ..limited(1) }).await.unwrap();
    assert_eq!((page.runs[0].id, page.more), (b, true), "a tag given twice finds its run once");
}

pub(super) async fn runs_are_found_by_the_state_that_people_see<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    let mut expected = Vec::new();
    for state in RunState::TERMINAL {
        expected.push((state, scene.ended(state).await.run));
    }
    for state in [RunState::Suspended, RunState::Paused, RunState::Blocked, RunState::Undoing] {
        let held = scene.held().await;
        let act = park(held.claim, crate::Wait { state, ..wait() });
        scene.done(held.node, held.run, act).await;
        expected.push((state, held.run));
    }
    expected.push((RunState::Running, scene.held().await.run));
    let released = scene.released().await;
    let pending = scene.start().await;
    let delayed = scene.start_as(NewRun { delay: Some(SECOND), ..new_run() }).await;

    for (state, run) in expected {
        let found = scene.found(Query { states: vec![state], ..Query::default() }).await;
        let wanted = if state == RunState::Suspended { vec![released, run] } else { vec![run] };
        assert_eq!(found, wanted, "{state}");
    }
    let found = scene.found(Query { states: vec![RunState::Pending], ..Query::default() }).await;
    assert_eq!(found, [delayed, pending]);

    let open = vec![RunState::Pending, RunState::Failed];
    let found = scene.found(Query { states: open, workflow: Some("etl".into()), ..limited(2) }).await;
    assert_eq!(found, [delayed, pending], "several states are joined in one order");
}

pub(super) async fn an_unknown_run_is_not_there<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture);
    assert_eq!(scene.store.load(scene.run_id()).await.unwrap(), None);
    assert_eq!(scene.store.by_key("etl".into(), "k".into()).await.unwrap(), None);
    assert!(!scene.store.describe().is_empty());
}
