//! Queues.

use axum::http::Method;
use serde_json::json;
use windlass::{prelude::*, testing::Lab};

use crate::app::App;

#[windlass::test]
async fn a_queue_is_declared_shown_and_taken_back(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let limits = json!({"concurrency": 5, "per_key": 1, "rate": {"count": 10, "per": 1.5},
        "key_rate": {"count": 2, "per": 60.0}, "ageing": 30.0, "hold": true});
    let put = async |body| app.write(Method::PUT, "/queues/mail", body).await;
    assert_eq!(put(limits.clone()).await.ok()["outcome"], "created");
    assert_eq!(put(limits).await.ok()["outcome"], "unchanged");
    let queue = app.get("/queues/mail").await.ok();
    // What is shown can be set again: nothing that the engine knows of a queue is left out.
    let again = app.write(Method::PUT, "/queues/mail", queue["limits"].clone()).await.ok();
    assert_eq!(again["outcome"], "unchanged");
    assert_eq!(queue["limits"]["key_rate"], json!({"count": 2, "per": 60.0}));
    assert_eq!((&queue["limits"]["ageing"], &queue["ended_per_minute"]), (&json!(30.0), &json!(0)));
    assert_eq!((&queue["limits"]["concurrency"], &queue["limits"]["per_node"]), (&json!(5), &json!(null)));
    assert_eq!(app.get("/queues").await.ok()["queues"], json!([queue]));
    assert_eq!(put(json!({})).await.ok()["outcome"], "updated");
    assert_eq!(app.write(Method::DELETE, "/queues/mail", json!({})).await.status, 204);
    app.get("/queues/mail").await.is_problem(404, "unknown_queue");
    app.write(Method::DELETE, "/queues/mail", json!({})).await.is_problem(404, "unknown_queue");
    Ok(())
}

#[windlass::test]
async fn a_queue_is_paused_and_resumed(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    app.post("/queues/mail%20out/pause", json!({})).await.ok();
    let queue = &app.get("/queues").await.ok()["queues"][0];
    assert_eq!((&queue["name"], &queue["paused"]), (&json!("mail out"), &json!(true)));
    assert_eq!(app.post("/queues/mail%20out/resume", json!({})).await.ok()["outcome"], "updated");
    assert_eq!(app.get("/queues/mail%20out").await.ok()["paused"], false);
    Ok(())
}

#[windlass::test]
async fn limits_that_cannot_be_meant_are_refused(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    for (body, status, code) in [
        (json!({"concurrency": 0}), 422, "invalid"),
        (json!({"rate": {"count": 1, "per": 0}}), 422, "invalid"),
        (json!({"rate": {"count": 1, "per": -1}}), 422, "invalid"),
        (json!({"rate": {"count": 0, "per": 1}}), 422, "invalid"),
        (json!({"key_rate": {"count": 0, "per": 1}}), 422, "invalid"),
        (json!({"ageing": 0}), 422, "invalid"),
        (json!({"concurrency": -1}), 400, "malformed_body"),
        (json!({"concurency": 1}), 400, "malformed_body"),
        (json!({"rate": 7}), 400, "malformed_body"),
    ] {
        app.write(Method::PUT, "/queues/mail", body).await.is_problem(status, code);
    }
    app.write(Method::PUT, "/queues/windlass", json!({})).await.is_problem(422, "invalid");
    app.post("/queues/windlass/pause", json!({})).await.is_problem(422, "invalid");
    app.post("/queues/a%00b/pause", json!({})).await.is_problem(422, "invalid");
    app.post("/queues/mail/resume", json!({"now": 1})).await.is_problem(400, "malformed_body");
    Ok(())
}
