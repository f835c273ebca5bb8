//! Where the API may stand.

use axum::{Router, body::Body, http::Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;
use windlass::{prelude::*, testing::Lab};

use crate::app::{Answer, App};

async fn get(router: &Router, path: &str) -> Answer {
    Answer::read(router.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap()).await
}

#[windlass::test]
async fn the_api_stands_under_any_path(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.completed().await;
    let router = Router::new().nest("/tenants/{name}/windlass", app.router.clone());
    get(&router, "/tenants/acme/windlass/api/v1/runs").await.ok();
    assert_eq!(get(&router, &format!("/tenants/acme/windlass/api/v1/runs/{id}")).await.ok()["id"], id);
    let shown = get(&router, "/tenants/acme/windlass/api/v1/workflows/letters").await.ok();
    assert_eq!(shown["name"], "letters", "the name is that of the workflow, and not of the tenant");
    get(&router, "/tenants/acme/windlass/api/v1/nowhere").await.is_problem(404, "not_found");
    Ok(())
}

#[windlass::test]
async fn what_is_not_there_is_a_problem_too(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    for path in
        ["/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/runs/", "/api/v1/runs/a/b/c", "/api/v2/runs"]
    {
        get(&app.router, path).await.is_problem(404, "not_found");
    }
    app.post("/health", serde_json::json!({})).await.is_problem(405, "method_not_allowed");
    Ok(())
}

#[tokio::test]
async fn a_server_of_its_own_answers_on_this_machine() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").launch().await?;
    let server = windlass_server::serve(engine.client(), ([127, 0, 0, 1], 0).into()).await?;
    let address = server.address();
    let serving = tokio::spawn(server.into_future());
    for (host, status) in [("localhost", "200"), ("evil.example", "421")] {
        let mut wire = tokio::net::TcpStream::connect(address).await?;
        let request = format!("GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        wire.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        wire.read_to_string(&mut answer).await?;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
    }
    serving.abort();
    engine.stop().await?;
    Ok(())
}
