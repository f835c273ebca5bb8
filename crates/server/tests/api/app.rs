//! An engine with an API before it.

use std::time::Duration;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, Response, header::CONTENT_TYPE},
};
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass::{Engine, EngineBuilder, prelude::*, testing::Lab};

#[workflow(output = post)]
pub mod letters {
    use super::*;

    #[task]
    pub async fn write(input: String) -> Result<String> {
        Ok(input)
    }

    #[task]
    pub async fn post(write: &str) -> Result<usize> {
        Ok(write.len())
    }

    #[task(after = [post], when = failed(post))]
    pub async fn apologize(post: Option<usize>) -> Result<bool> {
        Ok(post.is_none())
    }
}

pub const APPROVED: Event<String> = Event::new("approved");

/// Waits for somebody's word.
#[flow]
pub async fn approval(cx: &Flow, order: u32) -> Result<String> {
    cx.step("reserve", || async move { Ok::<_, Failure>(order) }).await?;
    cx.event(APPROVED).await
}

#[trigger(every = "1h", starts = letters)]
pub async fn new_letter() -> Result<Fire<String>> {
    Ok(Fire::run("a letter".to_owned()).key("the one"))
}

/// An engine and its API.
pub struct App {
    pub engine: Engine,
    pub router: Router,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub kind: String,
    pub body: Value,
}

pub fn with_workflows(engine: EngineBuilder) -> EngineBuilder {
    engine.workflow(letters::workflow()).workflow(approval::workflow()).trigger(new_letter::trigger())
}

impl App {
    pub async fn new(lab: &Lab) -> Self {
        let engine = with_workflows(lab.engine()).launch().await.unwrap();
        let router = windlass_server::router(engine.client());
        Self { engine, router }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Request::builder().uri(format!("/api/v1{path}")).body(Body::empty()).unwrap()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.write(Method::POST, path, body).await
    }

    pub async fn write(&self, method: Method, path: &str, body: Value) -> Answer {
        let request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        let request = request.header(CONTENT_TYPE, "application/json");
        self.ask(request.body(Body::from(body.to_string())).unwrap()).await
    }

    pub async fn ask(&self, request: Request<Body>) -> Answer {
        Answer::read(self.router.clone().oneshot(request).await.unwrap()).await
    }

    /// A run that waits for its event, parked.
    pub async fn waiting(&self, lab: &Lab) -> String {
        let run = self.engine.start(approval::workflow(), 7).await.unwrap();
        lab.advance(Duration::from_secs(60)).await;
        run.id().to_string()
    }

    /// A run that has failed.
    pub async fn failed(&self, lab: &Lab) -> String {
        lab.fail("post", .., Failure::permanent("the box is full"));
        let run = self.engine.start(letters::workflow(), "hello".to_owned()).await.unwrap();
        let id = run.id().to_string();
        run.await.unwrap_err();
        lab.forgive();
        id
    }

    /// A run that has completed.
    pub async fn completed(&self) -> String {
        let run =
            self.engine.start(letters::workflow(), "hello".to_owned()).key("k").tag("eu").await.unwrap();
        let id = run.id().to_string();
        run.await.unwrap();
        id
    }
}

impl Answer {
    pub async fn read(response: Response<Body>) -> Self {
        let status = response.status().as_u16();
        let kind = response.headers().get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap().to_owned());
        let is_endless = kind.as_ref().is_some_and(|kind| kind == "text/event-stream");
        let body = if is_endless { Body::empty() } else { response.into_body() };
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let body =
            if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap_or(json!(null)) };
        Self { status, kind: kind.unwrap_or_default(), body }
    }

    /// The answer of a request that was carried out.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }

    /// Checks that it is a problem with this status and code, in the form that problems have.
    #[track_caller]
    pub fn is_problem(&self, status: u16, code: &str) -> String {
        assert_eq!((self.status, &self.body["code"]), (status, &json!(code)), "{self:?}");
        assert_eq!(self.kind, "application/problem+json");
        assert_eq!(self.body["status"], status);
        assert!(self.body["title"].is_string() && self.body["type"] == "about:blank", "{self:?}");
        self.body["detail"].as_str().unwrap().to_owned()
    }
}
