//! Whatever is thrown at the API, it is never the server's fault.

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, Uri},
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass::prelude::*;
use windlass_cluster::Cluster;

use windlass_server::{Api, Keys, Role};

use crate::{
    app::{Answer, App, approval, letters, with_workflows},
    promised::{DOCUMENT, check},
};

/// A request to be made.
#[derive(Clone, Debug)]
struct Thrown {
    method: String,
    /// What its path is one of.
    way: String,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Whether a key is asked for.
    is_locked: bool,
}

/// The headers that anything is read of.
const HEADERS: [&str; 9] = [
    "authorization",
    "cookie",
    "cache-control",
    "last-event-id",
    "origin",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
    "x-windlass-csrf",
];

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

/// Mostly the key that opens everything; and whatever else stands in headers.
fn headers(known: Vec<String>, key: String) -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let said = prop_oneof![
        2 => text(known),
        1 => prop::sample::select(vec![
            format!("Bearer {key}"), format!("windlass_session={key}"), "Bearer windlass_no".into(), "v1,AAAA v1,".into(),
            "max-age=1".into(), "1767225600".into(), "-1".into(), "1".into(),
        ]),
    ];
    let others = prop::collection::vec((prop::sample::select(HEADERS.to_vec()), said), 0..4);
    (prop::bool::weighted(0.8), others).prop_map(move |(is_known, others)| {
        let known = is_known.then(|| ("authorization", format!("Bearer {key}")));
        known.into_iter().chain(others).collect()
    })
}

fn thrown(known: Vec<String>, key: String) -> impl Strategy<Value = Thrown> {
    let segment = text(known.clone());
    let pair = (prop::sample::select(fields()), text(known.clone()));
    let body = prop_oneof![
        6 => json_value(known.clone()).prop_map(|json| json.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    let headers = headers(known, key);
    let query = prop::collection::vec(pair, 0..3);
    (prop::sample::select(ways()), segment, query, body, headers, any::<bool>()).prop_map(
        |((method, way), segment, query, body, headers, is_locked)| {
            // Without a name it would be another path.
            let segment = if segment.is_empty() { "%00".to_owned() } else { escape(&segment) };
            let path = way.replace("{id}", &segment).replace("{name}", &segment);
            let query: Vec<String> =
                query.iter().map(|(key, value)| format!("{key}={}", escape(value))).collect();
            let path = if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) };
            Thrown { method, way, path, headers, body, is_locked }
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
        // What no header can carry is not sent.
        let sendable = self.headers.iter().filter(|(_, said)| HeaderValue::from_str(said).is_ok());
        let request = sendable.fold(request, |request, (name, said)| request.header(*name, said));
        request.body(Body::from(self.body.clone())).ok()
    }
}

/// Throws many things at an API over this database, and answers with how many were carried out.
fn throw_at(url: &str, cases: u32) -> usize {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let Furnished { app, locked, known, key } = runtime.block_on(furnished(url));
    let carried_out = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let thrown = runner.run(&thrown(known, key), |thrown| {
        let Some(request) = thrown.request() else { return Ok(()) };
        let router = if thrown.is_locked { &locked } else { &app.router };
        let answer =
            runtime.block_on(async { Answer::read(router.clone().oneshot(request).await.unwrap()).await });
        prop_assert!(answer.status < 500, "{answer:?}");
        let is_promised = check(&thrown.method, &thrown.way, &answer);
        prop_assert!(is_promised.is_ok(), "{} {answer:?}", is_promised.unwrap_err());
        carried_out.set(carried_out.get() + usize::from(answer.status < 400));
        Ok(())
    });
    let stopped = runtime.block_on(app.engine.stop());
    thrown.unwrap();
    stopped.unwrap();
    carried_out.get()
}

/// A database with something of each kind in it, and the names of that.
struct Furnished {
    app: App,
    /// The same API, which asks for a key.
    locked: Router,
    known: Vec<String>,
    key: String,
}

async fn furnished(url: &str) -> Furnished {
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
    let key = Keys::new(&engine.client()).create("all", Role::Admin, None).await.unwrap().key;
    let locked = Api::new(engine.client()).keys().rate(u32::MAX / 2).router();
    let app = App { engine, router };
    app.post("/hooks", json!({"name": "github", "workflow": "letters"})).await.ok();
    known.push("github".to_owned());
    Furnished { app, locked, known, key }
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
