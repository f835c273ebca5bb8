//! Steering one run.

use serde_json::json;
use windlass::{RunState, prelude::*, testing::Lab};

use crate::app::App;

#[windlass::test]
async fn an_event_completes_a_run_that_waits_for_it(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.waiting(&lab).await;
    let events = format!("/runs/{id}/events");
    // Nobody waits for this one: it stays.
    app.post(&events, json!({"name": "weather", "payload": {"sun": true}})).await.ok();
    let pending = app.get(&events).await.ok();
    assert_eq!(pending["events"][0]["name"], "weather");
    assert_eq!(pending["events"][0]["payload"], json!({"sun": true}));
    for _ in 0..2 {
        app.post(&events, json!({"name": "approved", "payload": "by Ann", "key": "once"})).await;
    }
    assert_eq!(app.engine.find_run(id.parse()?).await?.await?, json!("by Ann"));
    app.post(&events, json!({"name": "approved"})).await.is_problem(409, "already_ended");
    Ok(())
}

#[windlass::test]
async fn an_event_that_cannot_be_sent_is_refused(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let events = format!("/runs/{}/events", app.waiting(&lab).await);
    app.post(&events, json!({"name": "!cancel"})).await.is_problem(422, "event_name");
    app.post(&events, json!({"name": ""})).await.is_problem(422, "event_name");
    app.post(&events, json!({"name": "a\0"})).await.is_problem(422, "invalid");
    app.post(&events, json!({})).await.is_problem(400, "malformed_body");
    Ok(())
}

#[windlass::test]
async fn a_run_is_cancelled_with_a_reason(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.waiting(&lab).await;
    let cancel = format!("/runs/{id}/cancel");
    assert_eq!(app.post(&cancel, json!({"reason": "too late"})).await.ok()["outcome"], "requested");
    app.engine.find_run(id.parse()?).await?.await.unwrap_err();
    let run = app.get(&format!("/runs/{id}")).await.ok();
    assert_eq!(run["verdict"]["kind"], "cancelled");
    assert!(run["verdict"]["words"].as_str().unwrap().ends_with("was cancelled: too late"), "{run}");
    let again = app.post(&cancel, json!({})).await.ok();
    assert_eq!(again, json!({"outcome": "already_ended", "state": "cancelled"}));
    app.post(&cancel, json!({"reason": "x".repeat(1001)})).await.is_problem(422, "invalid");
    app.post(&cancel, json!({"why": "x"})).await.is_problem(400, "malformed_body");
    Ok(())
}

#[windlass::test]
async fn a_run_is_terminated(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.waiting(&lab).await;
    app.post(&format!("/runs/{id}/terminate"), json!({"reason": "stuck"})).await.ok();
    assert_eq!(app.get(&format!("/runs/{id}")).await.ok()["state"], "cancelled");
    Ok(())
}

#[windlass::test]
async fn a_run_is_paused_and_resumed(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.waiting(&lab).await;
    assert_eq!(app.post(&format!("/runs/{id}/pause"), json!({})).await.status, 204);
    lab.advance(std::time::Duration::from_secs(60)).await;
    let run = app.get(&format!("/runs/{id}")).await.ok();
    assert_eq!((&run["state"], &run["waits_for"]), (&json!("paused"), &json!("somebody to resume it")));
    assert_eq!(app.post(&format!("/runs/{id}/resume"), json!({})).await.status, 204);
    app.post(&format!("/runs/{id}/events"), json!({"name": "approved", "payload": "yes"})).await.ok();
    assert_eq!(app.engine.find_run(id.parse()?).await?.await?, json!("yes"));
    app.post(&format!("/runs/{id}/pause"), json!({})).await.is_problem(409, "already_ended");
    app.post(&format!("/runs/{id}/resume"), json!({})).await.is_problem(409, "already_ended");
    Ok(())
}

#[windlass::test]
async fn a_failed_run_is_retried(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.failed(&lab).await;
    assert_eq!(app.post(&format!("/runs/{id}/retry"), json!({})).await.status, 204);
    assert_eq!(app.engine.find_run(id.parse()?).await?.await?, json!(5));
    assert_eq!(app.get(&format!("/runs/{id}")).await.ok()["generation"], 2);
    app.post(&format!("/runs/{id}/retry"), json!({})).await.is_problem(409, "not_retryable");
    Ok(())
}

#[windlass::test]
async fn a_run_is_forked_from_a_task(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.failed(&lab).await;
    let answer = app.post(&format!("/runs/{id}/fork"), json!({"task": "post"})).await;
    assert_eq!(answer.status, 201);
    let forked = answer.body["id"].as_str().unwrap().to_owned();
    assert_eq!(app.engine.find_run(forked.parse()?).await?.await?, json!(5));
    assert_eq!(app.get(&format!("/runs/{forked}")).await.ok()["forked_from"], id);
    let detail = app.post(&format!("/runs/{id}/fork"), json!({"task": "pots"})).await;
    assert!(detail.is_problem(422, "unknown_task").contains("did you mean `post`?"));
    app.post(&format!("/runs/{id}/fork"), json!({})).await.is_problem(400, "malformed_body");
    Ok(())
}

#[windlass::test]
async fn a_run_that_has_ended_is_discarded(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let (live, ended) = (app.waiting(&lab).await, app.completed().await);
    app.post(&format!("/runs/{live}/discard"), json!({})).await.is_problem(409, "not_discardable");
    assert_eq!(app.post(&format!("/runs/{ended}/discard"), json!({"reason": "a test"})).await.status, 204);
    app.get(&format!("/runs/{ended}")).await.is_problem(404, "unknown_run");
    assert_eq!(app.engine.find_run(live.parse()?).await?.status().await?.state, RunState::Suspended);
    Ok(())
}

#[windlass::test]
async fn whatever_is_done_to_nobody_is_refused(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    for action in ["cancel", "terminate", "pause", "resume", "retry", "discard"] {
        let nobody = format!("/runs/00000000-0000-7000-8000-000000000000/{action}");
        app.post(&nobody, json!({})).await.is_problem(404, "unknown_run");
        app.post(&format!("/runs/x/{action}"), json!({})).await.is_problem(400, "malformed_id");
        app.post(&nobody, json!({"more": 1})).await.is_problem(400, "malformed_body");
    }
    Ok(())
}
