//! Nodes and health.

use serde_json::json;
use windlass::{prelude::*, testing::Lab};

use crate::app::App;

#[windlass::test]
async fn all_is_well_where_an_engine_lives(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let health = app.get("/health").await.ok();
    assert_eq!(health, json!({"ok": true, "nodes": {"alive": 1, "stale": 0, "dead": 0}, "wrong": []}));
    let node = &app.get("/nodes").await.ok()["nodes"][0];
    assert_eq!((&node["health"], &node["pid"]), (&json!("alive"), &json!(std::process::id())));
    assert_eq!(node["queues"], json!(["default"]));
    Ok(())
}

#[windlass::test]
async fn what_somebody_has_to_do_is_said_in_words(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    app.post("/queues/mail/pause", json!({})).await.ok();
    app.post("/runs", json!({"workflow": "letters", "input": "x", "queue": "mail"})).await.ok();
    let health = app.get("/health").await.ok();
    assert_eq!(health["ok"], false);
    assert_eq!(
        health["wrong"][0],
        "queue `mail` is paused, and 1 runs wait in it: resume it when they may begin"
    );
    Ok(())
}

#[windlass::test]
async fn a_database_without_engines_says_so(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    app.engine.stop().await?;
    let health = app.get("/health").await.ok();
    assert_eq!((&health["ok"], &health["nodes"]["alive"]), (&json!(false), &json!(0)));
    assert_eq!(health["wrong"][0], "no process runs an engine on this database: start one");
    Ok(())
}

#[windlass::test]
async fn a_database_that_is_out_of_reach_is_not_the_fault_of_whoever_asks(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    lab.cut_off(&app.engine);
    for path in ["/health", "/runs", "/nodes", "/workflows", "/queues"] {
        app.get(path).await.is_problem(503, "unavailable");
    }
    Ok(())
}
