//! What was changed, by whom.

use axum::{
    Extension,
    body::Body,
    extract::ConnectInfo,
    http::{Method, Request},
};
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass::{prelude::*, testing::Lab};
use windlass_server::{Api, Caller, Keys, Role};

use crate::app::App;

async fn changes(app: &App, query: &str) -> Value {
    app.get(&format!("/audit{query}")).await.ok()
}

#[windlass::test]
async fn every_change_is_recorded_with_who_what_on_what_from_where_and_its_outcome(lab: Lab) -> Result<()> {
    let mut app = App::new(&lab).await;
    let run = app.waiting(&lab).await;
    app.post(&format!("/runs/{run}/pause"), json!({})).await.ok();
    let ann = Caller::new("ann", Role::Operator).at("the office");
    app.router = app.router.layer(Extension(ann));
    app.write(Method::DELETE, "/queues/mail", json!({})).await.is_problem(403, "role");
    app.post("/schedules/none/pause", json!({})).await.is_problem(404, "unknown_schedule");
    let new = app.post("/runs", json!({"workflow": "letters", "input": "a secret"})).await.ok();
    let bulk = json!({"filter": {"workflow": "letters", "state": ["failed"]}, "action": "retry"});
    app.post("/runs/bulk", bulk).await.ok();
    app.get("/runs").await.ok();

    app.router = windlass_server::router(app.engine.client());
    let all = changes(&app, "").await;
    let lines: Vec<Value> = all["changes"].as_array().unwrap().iter().rev().cloned().collect();
    assert!(lines.iter().all(|line| line["at"].is_string()), "{all}");
    let told: Vec<Value> = lines
        .iter()
        .map(|line| {
            json!([line["who"], line["what"], line["on"], line["from"], line["status"], line["problem"]])
        })
        .collect();
    let started = format!("letters {}", new["id"].as_str().unwrap());
    assert_eq!(
        told,
        [
            json!([null, "pause_run", run, null, 204, null]),
            json!(["ann", "pause_schedule", "none", "the office", 404, "unknown_schedule"]),
            json!(["ann", "start_run", started, "the office", 201, null]),
            json!(["ann", "bulk", "retry: workflow=letters&state=failed", "the office", 200, null]),
        ],
        "what is refused at the door is nothing that was done, and looking is no change"
    );
    assert!(!all.to_string().contains("a secret"));
    Ok(())
}

#[windlass::test]
async fn a_change_whose_connection_breaks_off_is_recorded_too(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let body = Body::from_stream(crate::bounds::Never);
    let request =
        Request::post("/api/v1/runs/bulk").header("content-type", "application/json").body(body).unwrap();
    let router = app.router.clone();
    let asking = tokio::spawn(async move { router.oneshot(request).await });
    lab.advance(std::time::Duration::from_millis(10)).await;
    asking.abort();
    assert!(asking.await.is_err());
    lab.advance(std::time::Duration::from_millis(10)).await;
    let change = changes(&app, "").await["changes"][0].clone();
    assert_eq!((&change["what"], &change["problem"]), (&json!("bulk"), &json!("broken_off")));
    Ok(())
}

#[windlass::test]
async fn the_record_is_read_page_by_page_and_says_which_key_it_was(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let key = Keys::new(&app.engine.client()).create("bob", Role::Admin, None).await?.key;
    let guarded = Api::new(app.engine.client()).keys().router();
    let guarded = App { engine: app.engine.clone(), router: guarded };
    for number in 0..5 {
        let request = Request::post("/api/v1/keys").header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {key}"));
        let request = request.extension(ConnectInfo(std::net::SocketAddr::from(([192, 0, 2, 1], 9))));
        let new = json!({"name": format!("k{number}"), "role": "viewer"});
        guarded.ask(request.body(Body::from(new.to_string())).unwrap()).await.ok();
    }
    let log_in = async |key: &str| guarded.post("/session", json!({"key": key})).await;
    log_in("nobody's").await.is_problem(401, "wrong_key");
    log_in(&key).await.ok();
    let (mut seen, mut query) = (Vec::new(), "?limit=2".to_owned());
    loop {
        let page = changes(&app, &query).await;
        let lines = page["changes"].as_array().unwrap();
        seen.extend(lines.iter().map(|line| format!("{} {}", line["what"].as_str().unwrap(), line["on"])));
        assert!(lines.iter().all(|line| line["who"] == "bob"), "{page}");
        assert!(
            lines.iter().filter(|line| line["what"] == "create_key").all(|line| line["from"] == "192.0.2.1")
        );
        match page["next"].as_str() {
            Some(next) => query = format!("?limit=2&after={next}"),
            None => break,
        }
    }
    let expected = ["log_in null"].into_iter().map(str::to_owned);
    let made = (0..5).rev().map(|number| format!("create_key \"k{number} (viewer)\""));
    assert_eq!(seen, expected.chain(made).collect::<Vec<_>>(), "strangers are not in it");
    for (query, code) in
        [("?after=x", "malformed_id"), ("?limit=0", "malformed_range"), ("?who=ann", "malformed_query")]
    {
        app.get(&format!("/audit{query}")).await.is_problem(400, code);
    }
    Ok(())
}
