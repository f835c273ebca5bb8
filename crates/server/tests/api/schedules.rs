//! Schedules and triggers.

use std::time::Duration;

use axum::http::Method;
use serde_json::json;
use windlass::{prelude::*, testing::Lab};

use crate::app::{App, letters};

async fn scheduled(lab: &Lab) -> App {
    let app = App::new(lab).await;
    let declared =
        app.engine.schedule("nightly").cron("0 2 * * *").workflow(letters::workflow(), "x".to_owned());
    declared.await.unwrap();
    app
}

#[windlass::test]
async fn a_schedule_is_shown_with_what_is_next_and_what_was(lab: Lab) -> Result<()> {
    let app = scheduled(&lab).await;
    lab.advance(Duration::from_secs(26 * 3600)).await;
    let listed = &app.get("/schedules").await.ok()["schedules"][0];
    assert_eq!((&listed["name"], &listed["runs"]), (&json!("nightly"), &json!(1)));
    assert_eq!(listed["state"], json!({"kind": "completed"}));
    let shown = app.get("/schedules/nightly").await.ok();
    assert_eq!(shown["next_times"][0], "2026-01-02T02:00:00Z");
    assert_eq!(shown["next_times"].as_array().unwrap().len(), 5);
    assert!(shown["words"].as_str().unwrap().contains("02:00"), "{shown}");
    assert!(shown["history"][1]["words"].as_str().unwrap().contains("its time had come"), "{shown}");
    app.get("/schedules/nihgtly").await.is_problem(404, "unknown_schedule");
    Ok(())
}

#[windlass::test]
async fn a_schedule_is_steered(lab: Lab) -> Result<()> {
    let app = scheduled(&lab).await;
    assert_eq!(app.post("/schedules/nightly/pause", json!({"note": "holidays"})).await.status, 204);
    assert_eq!(app.get("/schedules/nightly").await.ok()["paused"], "holidays");
    assert_eq!(app.post("/schedules/nightly/resume", json!({})).await.status, 204);
    assert_eq!(app.get("/schedules/nightly").await.ok()["paused"], json!(null));
    assert_eq!(app.post("/schedules/nightly/reset", json!({})).await.status, 204);
    let wish = app.post("/schedules/nightly/trigger", json!({"id": "w1"})).await;
    assert_eq!(wish.status, 202);
    lab.advance(Duration::from_secs(60)).await;
    let key = wish.body["key"].as_str().unwrap();
    let runs = app.get(&format!("/runs?workflow=letters&key={key}")).await.ok();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1);
    assert_eq!(app.write(Method::DELETE, "/schedules/nightly", json!({})).await.status, 204);
    app.get("/schedules/nightly").await.is_problem(404, "unknown_schedule");
    Ok(())
}

#[windlass::test]
async fn past_times_are_counted_before_they_are_asked_for(lab: Lab) -> Result<()> {
    let app = scheduled(&lab).await;
    lab.advance(Duration::from_secs(40 * 3600)).await;
    let wish = json!({"from": "2025-12-30T00:00:00Z", "to": "2026-01-01T00:00:00Z", "dry_run": true});
    let times = json!(["2025-12-30T02:00:00Z", "2025-12-31T02:00:00Z"]);
    let answer = app.post("/schedules/nightly/backfill", wish).await.ok();
    assert_eq!(answer, json!({"times": times, "dry_run": true}));
    lab.advance(Duration::from_secs(60)).await;
    assert_eq!(app.get("/schedules/nightly").await.ok()["runs"], 2);
    let wish = json!({"from": "2025-12-30T00:00:00Z", "to": "2026-01-01T00:00:00Z"});
    app.post("/schedules/nightly/backfill", wish).await.ok();
    lab.advance(Duration::from_secs(600)).await;
    assert_eq!(app.get("/schedules/nightly").await.ok()["runs"], 4);
    Ok(())
}

#[windlass::test]
async fn what_cannot_be_asked_of_a_schedule_is_refused(lab: Lab) -> Result<()> {
    let app = scheduled(&lab).await;
    for (path, body, status, code) in [
        ("trigger", json!({"id": "x".repeat(201)}), 422, "invalid"),
        ("trigger", json!({"id": ""}), 422, "invalid"),
        ("trigger", json!({"key": "x"}), 400, "malformed_body"),
        ("pause", json!({"note": "x".repeat(1001)}), 422, "invalid"),
        ("pause", json!({"note": 7}), 400, "malformed_body"),
        ("resume", json!({"note": "x"}), 400, "malformed_body"),
        ("backfill", json!({}), 400, "malformed_body"),
        ("backfill", json!({"from": "soon", "to": "later"}), 400, "malformed_time"),
        ("backfill", json!({"from": "2025-01-02T00:00:00Z", "to": "2025-01-01T00:00:00Z"}), 422, "invalid"),
        ("backfill", json!({"from": "2025-01-02T00:00:00Z", "to": "2999-01-01T00:00:00Z"}), 422, "invalid"),
    ] {
        app.post(&format!("/schedules/nightly/{path}"), body).await.is_problem(status, code);
    }
    for path in ["trigger", "pause", "resume", "reset"] {
        app.post(&format!("/schedules/nobody/{path}"), json!({})).await.is_problem(404, "unknown_schedule");
    }
    app.write(Method::DELETE, "/schedules/nobody", json!({})).await.is_problem(404, "unknown_schedule");
    Ok(())
}

#[windlass::test]
async fn a_trigger_is_shown_and_steered(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    lab.advance(Duration::from_secs(60)).await;
    let listed = &app.get("/triggers").await.ok()["triggers"][0];
    assert_eq!((&listed["name"], &listed["workflow"]), (&json!("new_letter"), &json!("letters")));
    let before = app.get("/triggers/new_letter").await.ok()["fired"].as_u64().unwrap();
    assert_eq!(app.post("/triggers/new_letter/ask", json!({})).await.status, 202);
    lab.advance(Duration::from_secs(60)).await;
    assert_eq!(app.get("/triggers/new_letter").await.ok()["fired"], before + 1);
    assert_eq!(app.post("/triggers/new_letter/pause", json!({"note": "enough"})).await.status, 204);
    assert_eq!(app.get("/triggers/new_letter").await.ok()["paused"], "enough");
    assert_eq!(app.post("/triggers/new_letter/resume", json!({})).await.status, 204);
    assert_eq!(app.get("/triggers/new_letter").await.ok()["paused"], json!(null));
    assert_eq!(app.post("/triggers/new_letter/reset", json!({})).await.status, 204);
    Ok(())
}

#[windlass::test]
async fn what_cannot_be_asked_of_a_trigger_is_refused(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    app.get("/triggers/new_leter").await.is_problem(404, "unknown_trigger");
    for path in ["ask", "pause", "resume", "reset"] {
        app.post(&format!("/triggers/nobody/{path}"), json!({})).await.is_problem(404, "unknown_trigger");
        app.post(&format!("/triggers/new_letter/{path}"), json!({"x": 1}))
            .await
            .is_problem(400, "malformed_body");
    }
    app.post("/triggers/new_letter/pause", json!({"note": "a\0"})).await.is_problem(422, "invalid");
    Ok(())
}
