//! Counts, statistics and the overview.

use std::time::Duration;

use serde_json::{Value, json};
use windlass::{Failure, prelude::*, testing::Lab};

use crate::app::{App, letters};

fn count(counts: &Value, state: &str) -> Value {
    let all = counts.as_array().unwrap();
    all.iter().find(|one| one["state"] == state).unwrap_or(&Value::Null).clone()
}

fn exactly(state: &str, count: u64) -> Value {
    json!({"state": state, "count": count, "estimated": false})
}

#[windlass::test]
async fn runs_are_counted_by_state_under_the_filter_of_the_list(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    app.completed().await;
    app.failed(&lab).await;
    app.waiting(&lab).await;
    let all = app.get("/runs/counts").await.ok()["counts"].clone();
    assert_eq!(all.as_array().unwrap().len(), 10, "every state is there");
    for state in ["completed", "failed", "suspended"] {
        assert_eq!(count(&all, state), exactly(state, 1));
    }
    assert_eq!(count(&all, "paused"), exactly("paused", 0));
    let tagged = app.get("/runs/counts?tag=eu&state=completed&state=failed").await.ok()["counts"].clone();
    assert_eq!(tagged, json!([exactly("completed", 1), exactly("failed", 0)]));
    let letters = app.get("/runs/counts?workflow=letters").await.ok()["counts"].clone();
    assert_eq!(count(&letters, "suspended"), exactly("suspended", 0));
    app.get("/runs/counts?limit=2").await.is_problem(400, "malformed_query");
    app.get("/runs/counts?stat=failed").await.is_problem(400, "malformed_query");
    Ok(())
}

#[windlass::test]
async fn the_overview_shows_the_last_hour_and_queues_that_nobody_declared(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    app.completed().await;
    app.failed(&lab).await;
    app.engine.start(letters::workflow(), "hello".to_owned()).queue("lonely").await?;
    lab.advance(Duration::from_secs(90)).await;
    let shown = app.get("/overview").await.ok();
    assert_eq!(count(&shown["states"], "completed"), exactly("completed", 1));
    let series = &shown["series"];
    assert_eq!(series["step_s"], 60);
    let points = series["points"].as_array().unwrap();
    assert_eq!(points.len(), 60);
    let sum = |what: &str| points.iter().map(|point| point[what].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("started"), sum("completed"), sum("failed")), (2, 1, 1));
    let lonely = json!({"name": "lonely", "waiting": 1, "running": 0, "oldest_s": 90.0});
    assert!(shown["queues"].as_array().unwrap().contains(&lonely), "{shown}");
    assert_eq!((&shown["lateness_s"], &shown["nodes"]["alive"]), (&json!(0.0), &json!(1)));
    Ok(())
}

#[windlass::test]
async fn a_workflow_says_how_its_latest_runs_have_done(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    app.completed().await;
    app.failed(&lab).await;
    let shown = app.get("/workflows/letters/statistics").await.ok();
    assert_eq!(
        (&shown["runs"], &shown["failed"], &shown["failure_share"]),
        (&json!(2), &json!(1), &json!(0.5))
    );
    assert_eq!(shown["duration"]["p50"], 0.0);
    let tasks = shown["tasks"].as_array().unwrap();
    let post = tasks.iter().find(|task| task["name"] == "post").unwrap();
    assert_eq!((&post["runs"], &post["failed"], &post["failure_share"]), (&json!(2), &json!(1), &json!(0.5)));
    let none = app.get("/workflows/approval/statistics").await.ok();
    assert_eq!(none["failure_share"], Value::Null);
    app.get("/workflows/leters/statistics").await.is_problem(404, "unknown_workflow");
    Ok(())
}

#[windlass::test]
async fn the_grid_shows_the_latest_runs_by_task_and_marks_the_flaky_ones(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let completed = app.completed().await;
    lab.advance(Duration::from_secs(1)).await;
    let failed = app.failed(&lab).await;
    let shown = app.get("/workflows/letters/grid").await.ok();
    let task = |name: &str, flaky: bool| json!({"name": name, "flaky": flaky});
    assert_eq!(shown["tasks"], json!([task("write", false), task("post", true), task("apologize", false)]));
    let runs = shown["runs"].as_array().unwrap();
    assert_eq!((&runs[0]["id"], &runs[1]["id"]), (&json!(failed), &json!(completed)));
    assert_eq!(
        (&runs[0]["cells"][1]["state"], &runs[1]["cells"][1]["state"]),
        (&json!("failed"), &json!("completed"))
    );
    assert_eq!(runs[1]["cells"][1]["attempts"], 1);
    assert_eq!(runs[1]["cells"][2]["state"], "skipped");
    assert_eq!(app.get("/workflows/letters/grid?limit=1").await.ok()["runs"].as_array().unwrap().len(), 1);
    app.get("/workflows/letters/grid?limit=0").await.is_problem(400, "malformed_range");
    app.get("/workflows/letters/grid?limt=1").await.is_problem(400, "malformed_query");
    app.get("/workflows/leters/grid").await.is_problem(404, "unknown_workflow");
    app.waiting(&lab).await;
    let flow = app.get("/workflows/approval/grid").await.ok();
    assert!(flow["tasks"].as_array().unwrap().contains(&task("reserve", false)), "{flow}");
    Ok(())
}

#[windlass::test]
async fn a_task_that_needed_two_attempts_is_flaky(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    lab.fail("write", 1..=1, Failure::new("not yet"));
    let id = app.completed().await;
    let shown = app.get("/workflows/letters/grid").await.ok();
    assert_eq!((&shown["runs"][0]["id"], &shown["tasks"][0]["flaky"]), (&json!(id), &json!(true)));
    assert_eq!(shown["runs"][0]["cells"][0]["attempts"], 2);
    Ok(())
}

#[windlass::test]
async fn a_workflow_shows_what_its_input_looks_like_if_it_says_so(lab: Lab) -> Result<()> {
    let schema = json!({"type": "string", "title": "what to write"});
    let version = letters::workflow().version().to_owned();
    let engine = lab.engine().workflow(letters::workflow().input_schema(schema.clone())).launch().await?;
    let app = App { router: windlass_server::router(engine.client()), engine };
    let shown = app.get("/workflows/letters").await.ok();
    assert_eq!((&shown["input_schema"], &shown["version"]), (&schema, &json!(version)));
    Ok(())
}

#[windlass::test]
async fn a_run_shows_what_it_has_logged(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.completed().await;
    assert_eq!(app.get(&format!("/runs/{id}/logs")).await.ok(), json!({"lines": []}));
    app.get("/runs/00000000-0000-7000-8000-000000000000/logs").await.is_problem(404, "unknown_run");
    Ok(())
}
