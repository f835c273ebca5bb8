//! Finding runs, looking at them, and starting them.

use std::collections::BTreeSet;

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use windlass::{prelude::*, testing::Lab};

use crate::app::{App, letters};

const NOBODY: &str = "00000000-0000-7000-8000-000000000000";

fn ids(page: &Value) -> Vec<String> {
    page["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

/// Has a run of its own write what it was given.
#[flow]
async fn dictate(cx: &Flow, words: String) -> Result<usize> {
    cx.run(letters::workflow(), words).await
}

/// The same as a graph.
#[workflow]
mod post_office {
    use super::{super::app::letters, *};

    #[task]
    pub async fn counter(input: String, cx: &Cx) -> Result<usize> {
        cx.run(letters::workflow(), input).await
    }
}

#[windlass::test]
async fn a_call_that_is_a_run_says_which(lab: Lab) -> Result<()> {
    let engine = crate::app::with_workflows(lab.engine()).workflow(dictate::workflow());
    let engine = engine.workflow(post_office::workflow()).launch().await?;
    let app = App { router: windlass_server::router(engine.client()), engine };
    for workflow in ["dictate", "post_office"] {
        let id = app.post("/runs", json!({"workflow": workflow, "input": "hello"})).await.ok()["id"].clone();
        lab.advance(std::time::Duration::from_secs(60)).await;
        let shown = app.get(&format!("/runs/{}", id.as_str().unwrap())).await.ok();
        let call = shown["calls"].as_array().unwrap().iter().find(|call| call["kind"] == "child").unwrap();
        let child = app.get(&format!("/runs/{}", call["child"].as_str().unwrap())).await.ok();
        assert_eq!((&child["workflow"], &child["parent"]), (&json!("letters"), &id));
    }
    Ok(())
}

#[windlass::test]
async fn a_run_is_started_with_a_context(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let start = |context: Value| json!({"workflow": "letters", "input": "hello", "context": context});
    let id = app.post("/runs", start(json!({"insured": true}))).await.ok()["id"].clone();
    let document = app.get(&format!("/runs/{}/document", id.as_str().unwrap())).await.ok();
    assert_eq!(document["context"]["insured"], true, "{document}");
    app.post("/runs", start(json!([1]))).await.is_problem(400, "malformed_body");
    Ok(())
}

#[windlass::test]
async fn a_run_is_started_and_seen_in_the_list(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let new = json!({
        "workflow": "letters", "input": "hello", "key": "k1", "queue": "mail", "queue_key": "ann",
        "priority": 2, "delay": 60, "tags": ["eu", "test"], "timeout": 3600.5
    });
    let answer = app.post("/runs", new.clone()).await;
    assert_eq!(answer.status, 201);
    let id = answer.body["id"].as_str().unwrap().to_owned();
    assert_eq!(app.post("/runs", new).await.body["id"], id, "the same key is the same run");
    let line = &app.get("/runs").await.ok()["runs"][0];
    assert_eq!(line["id"], id);
    assert_eq!(line["state"], "pending");
    assert_eq!(line["waits_for"], "2026-01-01T00:01:00Z");
    assert_eq!(
        (&line["tags"], &line["priority"], &line["key"]),
        (&json!(["eu", "test"]), &json!(2), &json!("k1"))
    );
    let shown = app.get(&format!("/runs/{id}")).await.ok();
    assert_eq!(
        (&shown["queue"], &shown["queue_key"], &shown["timeout"]),
        (&json!("mail"), &json!("ann"), &json!(3600.5))
    );
    Ok(())
}

#[windlass::test]
async fn pages_follow_each_other_while_runs_are_started(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let mut started = BTreeSet::new();
    for _ in 0..5 {
        started.insert(engine_start(&app).await);
    }
    let (mut seen, mut path) = (Vec::new(), "/runs?limit=2".to_owned());
    loop {
        let page = app.get(&path).await.ok();
        seen.extend(ids(&page));
        engine_start(&app).await;
        match page["next"].as_str() {
            Some(next) => path = format!("/runs?limit=2&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 5, "nothing twice, nothing new");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), started);
    Ok(())
}

async fn engine_start(app: &App) -> String {
    app.engine.start(letters::workflow(), "x".to_owned()).await.unwrap().id().to_string()
}

#[windlass::test]
async fn each_condition_narrows_the_list(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let (failed, completed, waiting) =
        (app.failed(&lab).await, app.completed().await, app.waiting(&lab).await);
    for (query, expected) in [
        ("workflow=approval", vec![&waiting]),
        ("state=failed", vec![&failed]),
        ("state=failed&state=completed", vec![&completed, &failed]),
        ("tag=eu", vec![&completed]),
        ("key=k", vec![&completed]),
        ("queue=default&workflow=letters", vec![&completed, &failed]),
        ("queue=other", vec![]),
        ("since=2026-01-01T00:00:00Z&workflow=approval", vec![&waiting]),
        ("until=2026-01-01T01:00:00%2B01:00", vec![]),
    ] {
        let found = ids(&app.get(&format!("/runs?{query}")).await.ok());
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
    }
    Ok(())
}

#[windlass::test]
async fn a_list_that_cannot_be_meant_is_refused(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    for (query, code) in [
        ("stat=failed", "malformed_query"),
        ("state=fialed", "malformed_query"),
        ("state=", "malformed_query"),
        ("workflow=a&workflow=b", "malformed_query"),
        ("since=yesterday", "malformed_time"),
        ("until=2026-13-01T00:00:00Z", "malformed_time"),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "malformed_range"),
        ("after=7", "malformed_id"),
        ("limit=0", "malformed_range"),
        ("limit=501", "malformed_range"),
        ("limit=-1", "malformed_range"),
        ("limit=ten", "malformed_range"),
    ] {
        app.get(&format!("/runs?{query}")).await.is_problem(400, code);
    }
    app.get("/runs?workflow=a%00b").await.is_problem(422, "invalid");
    app.get(&format!("/runs?tag={}", "x".repeat(501))).await.is_problem(422, "invalid");
    Ok(())
}

#[windlass::test]
async fn a_run_is_shown_with_its_tasks_and_its_graph(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.failed(&lab).await;
    let run = app.get(&format!("/runs/{id}")).await.ok();
    assert_eq!(run["state"], "failed");
    assert_eq!(run["workflow"], "letters");
    assert_eq!(run["version"], letters::workflow().version());
    assert_eq!((&run["verdict"]["kind"], &run["verdict"]["step"]), (&json!("failed"), &json!("post")));
    assert!(run["verdict"]["words"].as_str().unwrap().contains("the box is full"), "{run}");
    let post = &run["tasks"][1];
    assert_eq!((&post["name"], &post["state"]), (&json!("post"), &json!("failed")));
    assert_eq!(post["failure"]["message"], "the box is full");
    let attempt = &post["attempts"][0];
    assert_eq!((&attempt["number"], &attempt["outcome"]), (&json!(1), &json!("failed")));
    assert_eq!(attempt["ended_at"], "2026-01-01T00:00:00Z");
    let names = run["graph"]["nodes"].as_array().unwrap().iter().map(|node| node["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["write", "post", "apologize"]);
    assert_eq!(run["graph"]["edges"][1], json!({"from": "post", "to": "apologize", "rule": "failed(post)"}));
    Ok(())
}

#[windlass::test]
async fn a_run_that_waits_says_for_what(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.waiting(&lab).await;
    let run = app.get(&format!("/runs/{id}")).await.ok();
    assert_eq!((&run["state"], &run["waits_for"]), (&json!("suspended"), &json!("the event `approved`")));
    assert_eq!((&run["calls"][0]["name"], &run["calls"][0]["kind"]), (&json!("reserve"), &json!("step")));
    assert_eq!(run["calls"][0]["state"], "completed");
    Ok(())
}

#[windlass::test]
async fn the_document_of_a_run_has_its_payloads(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.completed().await;
    let document = app.get(&format!("/runs/{id}/document")).await.ok();
    assert_eq!((&document["input"], &document["output"]), (&json!("hello"), &json!(5)));
    Ok(())
}

#[windlass::test]
async fn an_id_that_is_none_and_a_run_that_is_none_are_told_apart(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    for path in ["", "/document", "/events", "/watch"] {
        app.get(&format!("/runs/{NOBODY}{path}")).await.is_problem(404, "unknown_run");
        app.get(&format!("/runs/seven{path}")).await.is_problem(400, "malformed_id");
        app.get(&format!("/runs/%FF{path}")).await.is_problem(400, "malformed_path");
    }
    Ok(())
}

#[windlass::test]
async fn a_start_that_cannot_be_meant_is_refused(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let refused = async |body: Value| app.post("/runs", body).await;
    let detail = refused(json!({"workflow": "leters"})).await.is_problem(422, "unknown_workflow");
    assert!(detail.contains("did you mean `letters`"), "{detail}");
    refused(json!({"workflow": "windlass.schedule"})).await.is_problem(422, "unknown_workflow");
    refused(json!({})).await.is_problem(400, "malformed_body");
    refused(json!([])).await.is_problem(400, "malformed_body");
    refused(json!({"workflow": "letters", "prioritty": 1})).await.is_problem(400, "malformed_body");
    for (field, value, status, code) in [
        ("priority", json!(10), 422, "invalid"),
        ("priority", json!(-1), 400, "malformed_body"),
        ("delay", json!(-1), 422, "invalid"),
        ("delay", json!(1e300), 422, "invalid"),
        ("timeout", json!("1h"), 400, "malformed_body"),
        ("queue", json!(""), 422, "invalid"),
        ("queue", json!("windlass"), 422, "invalid"),
        ("key", json!("a\0b"), 422, "invalid"),
        ("tags", json!(["x".repeat(501)]), 422, "invalid"),
        ("tags", json!(vec!["x"; 101]), 422, "invalid"),
    ] {
        refused(json!({"workflow": "letters", "input": "x", field: value})).await.is_problem(status, code);
    }
    refused(json!({"workflow": "letters", "input": "a", "key": "k"})).await.ok();
    refused(json!({"workflow": "letters", "input": "b", "key": "k"})).await.is_problem(409, "key_taken");
    Ok(())
}

#[windlass::test]
async fn an_engine_says_that_another_one_has_the_workflow(lab: Lab) -> Result<()> {
    let _elsewhere = App::new(&lab).await;
    let engine = lab.engine().launch().await?;
    let app = App { router: windlass_server::router(engine.client()), engine };
    let refused = app.post("/runs", json!({"workflow": "letters", "input": "x"})).await;
    let detail = refused.is_problem(422, "unknown_workflow");
    assert!(detail.starts_with("the engine of this process has no workflow `letters`"), "{detail}");
    Ok(())
}

#[windlass::test]
async fn a_body_that_is_no_json_or_too_large_is_refused(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let send = async |body: Vec<u8>| {
        let request = Request::post("/api/v1/runs").header("content-type", "application/json");
        app.ask(request.body(Body::from(body)).unwrap()).await
    };
    send(b"{".to_vec()).await.is_problem(400, "malformed_body");
    send(vec![0xff; 10]).await.is_problem(400, "malformed_body");
    send("[".repeat(10_000).into_bytes()).await.is_problem(400, "malformed_body");
    send(vec![b' '; 5 << 20]).await.is_problem(413, "body_too_large");
    let large = json!({"workflow": "letters", "input": "x".repeat(4 << 20)});
    send(large.to_string().into_bytes()).await.is_problem(413, "payload_too_large");
    Ok(())
}
