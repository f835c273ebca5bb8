//! What is not shown, and how much may be asked.

use std::time::Duration;

use axum::{Extension, body::Body, http::Request};
use serde_json::json;
use tower::ServiceExt;
use tracing_subscriber::{prelude::*, util::SubscriberInitExt};
use windlass::{prelude::*, testing::Lab};
use windlass_server::{Api, Caller, Role};

use crate::app::App;

/// Publishes what it was given, and waits.
#[flow]
async fn publish(cx: &Flow, login: serde_json::Value) -> Result<String> {
    cx.publish("login", &login)?;
    cx.step("check", || async move {
        tracing::info!(user = "ann", db_password = "hunter2", iban = "DE89", "checking");
        Ok::<_, Failure>(login)
    })
    .await?;
    cx.event(crate::app::APPROVED).await
}

#[windlass::test]
async fn secrets_in_payloads_are_not_shown(lab: Lab) -> Result<()> {
    let _listening = tracing_subscriber::registry().with(windlass::log_layer()).set_default();
    let engine = crate::app::with_workflows(lab.engine()).workflow(publish::workflow()).launch().await?;
    let login = json!({"user": "ann", "password": "hunter2", "iban": "DE89"});
    let run = engine.start(publish::workflow(), login.clone()).await?;
    lab.advance(Duration::from_secs(60)).await;
    run.send_by_name("login", &login).await?;
    let id = run.id();
    assert_eq!(run.status().await?.published["login"], login, "what is not shown is there");
    let paths = ["/document", "", "/events", "/logs"].map(|part| format!("/runs/{id}{part}"));
    let app = |api: Api| App { engine: engine.clone(), router: api.router() };
    for path in &paths {
        let shown = app(Api::new(engine.client())).get(path).await.ok().to_string();
        assert!(!shown.contains("hunter2") && shown.contains("•••"), "{path}: {shown}");
        assert!(shown.contains("ann") && shown.contains("DE89"), "{path}: {shown}");
        let shown = app(Api::new(engine.client()).redact(["IBAN"])).get(path).await.ok().to_string();
        assert!(
            !shown.contains("hunter2") && !shown.contains("DE89") && shown.contains("ann"),
            "{path}: {shown}"
        );
        let shown = app(Api::new(engine.client()).hide_payloads()).get(path).await.ok().to_string();
        assert!(
            !shown.contains("hunter2") && !shown.contains("DE89") && !shown.contains("ann"),
            "{path}: {shown}"
        );
    }
    Ok(())
}

#[windlass::test]
async fn a_caller_who_asks_too_much_is_told_when_to_ask_again(lab: Lab) -> Result<()> {
    let App { engine, .. } = App::new(&lab).await;
    let router = Api::new(engine.client()).rate(2).router();
    let ask = async |who: &str| {
        let router = router.clone().layer(Extension(Caller::new(who, Role::Viewer)));
        router.oneshot(Request::get("/api/v1/nodes").body(Body::empty()).unwrap()).await.unwrap()
    };
    for _ in 0..4 {
        assert_eq!(ask("ann").await.status(), 200);
    }
    let refused = ask("ann").await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse()?));
    assert_eq!(ask("bob").await.status(), 200);
    lab.advance(Duration::from_secs(1)).await;
    assert_eq!(ask("ann").await.status(), 200);
    Ok(())
}

#[windlass::test]
async fn there_is_room_for_so_many_requests_of_so_much_time(lab: Lab) -> Result<()> {
    let App { engine, .. } = App::new(&lab).await;
    let router = Api::new(engine.client()).concurrency(1).timeout(Duration::from_secs(5)).router();
    // Its body never comes.
    let slow = Body::from_stream(Never);
    let slow = Request::post("/api/v1/runs").header("content-type", "application/json").body(slow)?;
    let slow = tokio::spawn(router.clone().oneshot(slow));
    tokio::task::yield_now().await;
    let app = App { engine, router };
    app.get("/nodes").await.is_problem(429, "too_busy");
    lab.advance(Duration::from_secs(6)).await;
    crate::app::Answer::read(slow.await??).await.is_problem(408, "slow_body");
    app.get("/nodes").await.ok();
    Ok(())
}

/// A body that never comes.
pub struct Never;

impl futures_core::Stream for Never {
    type Item = std::io::Result<axum::body::Bytes>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Pending
    }
}
