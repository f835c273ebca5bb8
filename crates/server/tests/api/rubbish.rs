//! Whatever is thrown at the API, it is never the server's fault.

use std::sync::LazyLock;

use axum::{
    body::Body,
    http::{Request, Uri},
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass::prelude::*;
use windlass_cluster::Cluster;

use crate::app::{App, approval, letters, with_workflows};

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(windlass_server::openapi()).unwrap());

/// A request to be made.
#[derive(Clone, Debug)]
struct Thrown {
    method: String,
    path: String,
    last_event: Option<String>,
    body: Vec<u8>,
}

/// Every way of asking, as method and path.
fn ways() -> Vec<(String, String)> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let ways = paths.iter().flat_map(|(path, ways)| {
        ways.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path.clone()))
    });
    ways.collect()
}

/// Every name that a body or a query may have in it.
fn fields() -> Vec<String> {
    let schemas = DOCUMENT["components"]["schemas"].as_object().unwrap().values();
    let mut fields: Vec<String> = schemas
        .filter_map(|schema| schema["properties"].as_object())
        .flat_map(|properties| properties.keys().cloned())
        .chain(["after", "limit", "version"].map(str::to_owned))
        .collect();
    fields.sort();
    fields.dedup();
    fields
}

/// What stands for something that is there, and what does not.
fn text(known: Vec<String>) -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        6 => prop::sample::select(known),
        2 => any::<String>(),
        1 => prop::sample::select(vec![
            String::new(), "\0".into(), "a\0b".into(), "💥".into(), "x".repeat(600), "../..".into(), "'; DROP".into(),
            "9999-12-31T23:59:59.999999999Z".into(), "-009999-01-01T00:00:00Z".into(), "1e400".into(), "!cancel".into(),
        ]),
    ]
}

fn json_value(known: Vec<String>) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text(known).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        (0..12_i64).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let object = prop::collection::vec((prop::sample::select(fields()), inner.clone()), 0..5);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            object.prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn thrown(known: Vec<String>) -> impl Strategy<Value = Thrown> {
    let segment = text(known.clone());
    let pair = (prop::sample::select(fields()), text(known.clone()));
    let body = prop_oneof![
        6 => json_value(known.clone()).prop_map(|json| json.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    let last = prop::option::weighted(0.2, text(known));
    (prop::sample::select(ways()), segment, prop::collection::vec(pair, 0..3), body, last).prop_map(
        |((method, path), segment, query, body, last_event)| {
            let segment = escape(&segment);
            let path = path.replace("{id}", &segment).replace("{name}", &segment);
            let query: Vec<String> =
                query.iter().map(|(key, value)| format!("{key}={}", escape(value))).collect();
            let path = if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) };
            Thrown { method, path, last_event, body }
        },
    )
}

fn escape(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

impl Thrown {
    fn request(&self) -> Option<Request<Body>> {
        let uri: Uri = self.path.parse().ok()?;
        let request =
            Request::builder().method(&*self.method).uri(uri).header("content-type", "application/json");
        let request =
            self.last_event.iter().fold(request, |request, last| request.header("last-event-id", last));
        request.body(Body::from(self.body.clone())).ok()
    }
}

/// Throws many things at an API over this database, and answers with how many were carried out.
fn throw_at(url: &str, cases: u32) -> usize {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (app, known) = runtime.block_on(furnished(url));
    let carried_out = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let thrown = runner.run(&thrown(known), |thrown| {
        let Some(request) = thrown.request() else { return Ok(()) };
        let status = runtime.block_on(app.router.clone().oneshot(request)).unwrap().status();
        prop_assert!(!status.is_server_error(), "{status}");
        carried_out.set(carried_out.get() + usize::from(status.is_success()));
        Ok(())
    });
    let stopped = runtime.block_on(app.engine.stop());
    thrown.unwrap();
    stopped.unwrap();
    carried_out.get()
}

/// A database with something of each kind in it, and the names of that.
async fn furnished(url: &str) -> (App, Vec<String>) {
    let engine = with_workflows(Engine::open(url)).launch().await.unwrap();
    let ended = engine.start(letters::workflow(), "hello".to_owned()).key("k").tag("eu").await.unwrap();
    let waiting = engine.start(approval::workflow(), 1).await.unwrap();
    let mut known = vec![ended.id().to_string(), waiting.id().to_string()];
    ended.await.unwrap();
    engine.queue("mail").concurrency(2).await.unwrap();
    let schedule = engine.schedule("nightly").cron("0 2 * * *");
    schedule.workflow(letters::workflow(), "x".to_owned()).await.unwrap();
    let names = [
        "letters",
        "approval",
        "mail",
        "nightly",
        "new_letter",
        "failed",
        "cancel",
        "approved",
        "post",
        "eu",
        "k",
        "7",
    ];
    known.extend(names.map(str::to_owned));
    known.push("2026-01-01T00:00:00Z".to_owned());
    let router = windlass_server::router(engine.client());
    (App { engine, router }, known)
}

#[test]
fn rubbish_is_never_the_fault_of_the_server() {
    let carried_out = throw_at("sqlite::memory:", 2_000);
    assert!(carried_out > 100, "almost nothing got past the door: {carried_out}");
}

#[test]
fn rubbish_is_never_the_fault_of_a_server_on_postgres() {
    let cluster = Cluster::find().expect("a cluster is there");
    let carried_out = throw_at(&format!("{}?schema=rubbish_{}", cluster.url(), std::process::id()), 600);
    assert!(carried_out > 30, "almost nothing got past the door: {carried_out}");
}
