//! Who may write, and what every answer says to browsers.

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass::{prelude::*, testing::Lab};

use crate::app::App;

/// Every way of changing something, by the API's own description.
fn writes() -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(windlass_server::openapi()).unwrap();
    let mut writes = Vec::new();
    for (path, ways) in document["paths"].as_object().unwrap() {
        let methods =
            ways.as_object().unwrap().keys().filter(|way| matches!(&***way, "post" | "put" | "delete"));
        writes.extend(methods.map(|method| (method.to_uppercase(), path.clone())));
    }
    writes
}

#[windlass::test]
async fn no_page_of_another_site_changes_anything(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let all = writes();
    assert!(all.len() > 20, "{all:?}");
    for (method, path) in all {
        let request = || Request::builder().method(&*method).uri(&path).header("host", "localhost:7070");
        let send = async |request: axum::http::request::Builder| {
            app.ask(request.body(Body::from("{}")).unwrap()).await
        };
        // What a form can send.
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
            send(request().header("content-type", kind)).await.is_problem(415, "media_type");
        }
        send(request()).await.is_problem(415, "media_type");
        // What a script could send, were it not asked first.
        let json = || request().header("content-type", "application/json");
        send(json().header("origin", "https://evil.example")).await.is_problem(403, "cross_site");
        send(json().header("origin", "null")).await.is_problem(403, "cross_site");
        send(json().header("sec-fetch-site", "cross-site")).await.is_problem(403, "cross_site");
        let own = json().header("origin", "http://localhost:7070").header("x-windlass-csrf", "1");
        let own = send(own).await;
        assert!(own.status != 403 && own.status != 415, "{method} {path}: {own:?}");
    }
    Ok(())
}

#[windlass::test]
async fn nobody_is_told_that_another_site_may_ask(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let preflight = Request::options("/api/v1/runs")
        .header("origin", "https://evil.example")
        .header("access-control-request-method", "POST");
    let answer = app.router.clone().oneshot(preflight.body(Body::empty()).unwrap()).await?;
    assert!(!answer.status().is_success());
    assert!(answer.headers().keys().all(|name| !name.as_str().starts_with("access-control")));
    Ok(())
}

#[windlass::test]
async fn every_answer_is_safe_to_show(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    for path in ["/api/v1/runs", "/api/v1/nowhere", "/api/v1/openapi.json", "/api/v1/runs/x"] {
        let answer = app.router.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await?;
        let headers = answer.headers();
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["cache-control"], "no-store", "{path}");
        assert_eq!(headers["x-frame-options"], "DENY", "{path}");
        assert!(headers["content-security-policy"].to_str()?.starts_with("default-src 'none'"), "{path}");
    }
    Ok(())
}

#[windlass::test]
async fn the_engines_own_runs_are_not_steered(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    app.engine.schedule("nightly").manual().workflow(crate::app::letters::workflow(), "x".to_owned()).await?;
    assert_eq!(app.get("/runs").await.ok()["runs"], json!([]));
    app.post("/runs", json!({"workflow": "windlass.schedule"})).await.is_problem(422, "unknown_workflow");
    let all = json!({"filter": {"workflow": "windlass.schedule"}, "action": "cancel"});
    assert_eq!(app.post("/runs/bulk", all).await.ok()["done"], 0);
    Ok(())
}
