//! Who is let in.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    http::{Method, Request, request::Builder},
};
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass::{prelude::*, testing::Lab};
use windlass_server::{Api, Caller, Keys, Role};

use crate::app::{Answer, App};

const ROLES: [Role; 3] = Role::ALL;

/// An engine, and an API that asks for keys.
struct Guarded {
    app: App,
    /// One for each role, the weakest first.
    keys: Vec<String>,
}

impl Guarded {
    async fn new(lab: &Lab) -> Result<Self> {
        let App { engine, .. } = App::new(lab).await;
        let router = Api::new(engine.client()).keys().router();
        let mut keys = Vec::new();
        for role in ROLES {
            keys.push(Keys::new(&engine.client()).create(role.name(), role, None).await?.key);
        }
        Ok(Self { app: App { engine, router }, keys })
    }

    fn keys(&self) -> Keys {
        Keys::new(&self.app.engine.client())
    }

    async fn ask(&self, method: &str, path: &str, key: &str) -> Answer {
        ask(&self.app.router, request(method, path).header("authorization", format!("Bearer {key}")), "{}")
            .await
    }
}

fn request(method: &str, path: &str) -> Builder {
    Request::builder().method(method).uri(path).header("content-type", "application/json")
}

async fn ask(router: &Router, request: Builder, body: impl Into<Body>) -> Answer {
    Answer::read(router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap()).await
}

/// Every way of asking, by the API's own description: method, path, and the role that it needs.
fn ways() -> Vec<(String, String, Option<Role>)> {
    let document: Value = serde_json::from_str(windlass_server::openapi()).unwrap();
    let mut all = Vec::new();
    for (path, ways) in document["paths"].as_object().unwrap() {
        for (method, way) in ways.as_object().unwrap() {
            let security = way["security"].as_array().unwrap();
            let role =
                security.iter().find_map(|way| way["key"][0].as_str()).map(|role| role.parse().unwrap());
            assert_eq!(role.is_none(), security == &[json!({})], "{method} {path}");
            let path = path.replace("{id}", &"0".repeat(32)).replace("{name}", "nothing");
            all.push((method.to_uppercase(), path, role));
        }
    }
    all
}

#[windlass::test]
async fn whoever_has_no_key_reads_nothing_and_a_weak_key_changes_nothing(lab: Lab) -> Result<()> {
    let guarded = Guarded::new(&lab).await?;
    let expired = guarded.keys().create("expired", Role::Admin, Some(Duration::from_secs(1))).await?.key;
    lab.advance(Duration::from_secs(2)).await;
    let ways = ways();
    assert!(ways.len() > 35, "{ways:?}");
    let open =
        ways.iter().filter(|(.., role)| role.is_none()).map(|(method, path, _)| format!("{method} {path}"));
    assert_eq!(
        open.collect::<Vec<_>>(),
        [
            "POST /api/v1/hooks/nothing",
            "DELETE /api/v1/session",
            "GET /api/v1/session",
            "POST /api/v1/session"
        ]
    );
    for (method, path, needed) in &ways {
        let Some(needed) = needed else { continue };
        if method != "GET" {
            assert!(*needed >= Role::Operator, "a viewer would change something: {method} {path}");
        }
        let without = ask(&guarded.app.router, request(method, path), "{}").await;
        without.is_problem(401, "not_logged_in");
        guarded.ask(method, path, &expired).await.is_problem(401, "expired_key");
        // Others that come from the same place may be wrong often.
        lab.advance(Duration::from_secs(60)).await;
        guarded.ask(method, path, "windlass_wrong").await.is_problem(401, "wrong_key");
        for (role, key) in ROLES.iter().zip(&guarded.keys) {
            let answer = guarded.ask(method, path, key).await;
            if role < needed {
                answer.is_problem(403, "role");
            } else {
                assert!(![401, 403].contains(&answer.status), "{method} {path} {role}: {answer:?}");
            }
        }
    }
    Ok(())
}

#[windlass::test]
async fn what_is_not_described_is_not_read_without_a_key_either(lab: Lab) -> Result<()> {
    let guarded = Guarded::new(&lab).await?;
    for path in ["/api/v1/openapi.json", "/api/v1/nowhere", "/api/v2"] {
        ask(&guarded.app.router, request("GET", path), "").await.is_problem(401, "not_logged_in");
    }
    guarded.ask("GET", "/api/v1/openapi.json", &guarded.keys[0]).await.ok();
    ask(&guarded.app.router, request("HEAD", "/api/v1/runs"), "").await;
    let head =
        guarded.app.router.clone().oneshot(request("HEAD", "/api/v1/runs").body(Body::empty()).unwrap());
    assert_eq!(head.await?.status(), 401);
    // A path that looks like ours before it.
    let nested = Router::new().nest("/api/v1/session", guarded.app.router.clone());
    ask(&nested, request("GET", "/api/v1/session/api/v1/runs"), "").await.is_problem(401, "not_logged_in");
    ask(&nested, request("GET", "/api/v1/session/api/v1/session"), "").await.is_problem(401, "not_logged_in");
    Ok(())
}

#[windlass::test]
async fn only_an_admin_discards_many_runs(lab: Lab) -> Result<()> {
    let guarded = Guarded::new(&lab).await?;
    let bulk = async |key: &str, action: &str| {
        let body = json!({"filter": {}, "action": action, "dry_run": true}).to_string();
        let request = request("POST", "/api/v1/runs/bulk").header("authorization", format!("Bearer {key}"));
        ask(&guarded.app.router, request, body).await
    };
    bulk(&guarded.keys[1], "discard").await.is_problem(403, "role");
    bulk(&guarded.keys[1], "cancel").await.ok();
    bulk(&guarded.keys[2], "discard").await.ok();
    Ok(())
}

#[windlass::test]
async fn a_key_is_shown_once_and_kept_as_its_digest(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let new = json!({"name": "ci", "role": "operator", "expires_in": 3600});
    let made = app.post("/keys", new.clone()).await.ok();
    let key = made["key"].as_str().unwrap();
    assert!(key.len() > 64 && key.starts_with("windlass_"), "{key}");
    app.post("/keys", new).await.is_problem(409, "key_name_taken");
    for bad in ["", "a b", "x\u{0}", &"x".repeat(101)] {
        app.post("/keys", json!({"name": bad, "role": "viewer"})).await.is_problem(422, "invalid");
    }
    app.post("/keys", json!({"name": "x", "role": "god"})).await.is_problem(400, "malformed_body");
    let list = app.get("/keys").await.ok();
    assert_eq!(list["keys"].as_array().unwrap().len(), 1);
    assert!(list["keys"][0]["expires_at"].is_string() && list["keys"][0]["last_used"].is_null(), "{list}");
    assert!(!list.to_string().contains(key));
    let router = Api::new(app.engine.client()).keys().router();
    let with_key = || request("GET", "/api/v1/session").header("authorization", format!("Bearer {key}"));
    assert_eq!(ask(&router, with_key(), "").await.ok(), json!({"who": "ci", "role": "operator"}));
    assert!(app.get("/keys").await.ok()["keys"][0]["last_used"].is_string());
    app.write(Method::DELETE, "/keys/ci", json!({})).await.ok();
    app.write(Method::DELETE, "/keys/ci", json!({})).await.is_problem(404, "unknown_key");
    Ok(())
}

#[windlass::test]
async fn a_key_that_another_process_revokes_opens_nothing_after_two_seconds(lab: Lab) -> Result<()> {
    let guarded = Guarded::new(&lab).await?;
    let (path, viewer) = ("/api/v1/runs", &guarded.keys[0]);
    guarded.ask("GET", path, viewer).await.ok();
    let other = guarded.keys();
    let run = guarded.app.waiting(&lab).await;
    let watched = request("GET", &format!("/api/v1/runs/{run}/watch"));
    let watched = watched.header("authorization", format!("Bearer {viewer}")).body(Body::empty())?;
    let watched = guarded.app.router.clone().oneshot(watched).await?;
    assert_eq!(watched.status(), 200);
    other.revoke("viewer").await?;
    lab.advance(Duration::from_secs(3)).await;
    guarded.ask("GET", path, viewer).await.is_problem(401, "wrong_key");
    // The run never ends, but the stream does.
    let read = axum::body::to_bytes(watched.into_body(), usize::MAX);
    let seen = tokio::time::timeout(Duration::from_secs(30), read).await.expect("the stream ends")?;
    assert!(!seen.windows(5).any(|part| part == b"ended"));
    // A new one opens at once, wherever it was made.
    let new = other.create("viewer", Role::Viewer, None).await?.key;
    guarded.ask("GET", path, &new).await.ok();
    Ok(())
}

#[windlass::test]
async fn wrong_keys_come_only_so_often_and_keep_nobody_out(lab: Lab) -> Result<()> {
    let guarded = Guarded::new(&lab).await?;
    let log_in = async |key: &str| {
        ask(&guarded.app.router, request("POST", "/api/v1/session"), json!({"key": key}).to_string()).await
    };
    for _ in 0..10 {
        log_in("guess").await.is_problem(401, "wrong_key");
    }
    log_in("guess").await.is_problem(429, "too_many_attempts");
    guarded.ask("GET", "/api/v1/runs", "guess").await.is_problem(429, "too_many_attempts");
    let late = guarded.app.router.clone();
    let late =
        late.oneshot(request("POST", "/api/v1/session").body(Body::from("{\"key\":\"guess\"}"))?).await?;
    let wait: u64 = late.headers()["retry-after"].to_str()?.parse()?;
    log_in(&guarded.keys[0]).await.ok();
    guarded.ask("GET", "/api/v1/runs", &guarded.keys[0]).await.ok();
    lab.advance(Duration::from_secs(wait)).await;
    log_in("guess").await.is_problem(401, "wrong_key");
    Ok(())
}

#[windlass::test]
async fn a_browser_logs_in_changes_something_and_logs_out(lab: Lab) -> Result<()> {
    let guarded = Guarded::new(&lab).await?;
    let run = guarded.app.waiting(&lab).await;
    let router = Router::new().nest("/ops", guarded.app.router.clone());
    let log_in = request("POST", "/ops/api/v1/session")
        .header("origin", "https://a.example")
        .header("host", "a.example");
    let answer =
        router.clone().oneshot(log_in.body(Body::from(json!({"key": guarded.keys[1]}).to_string()))?).await?;
    let cookie = answer.headers()["set-cookie"].to_str()?.to_owned();
    assert!(cookie.ends_with("; Path=/ops; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    assert!(!cookie.contains(&guarded.keys[1]));
    let cookie = cookie.split(';').next().unwrap().to_owned();
    assert_eq!(Answer::read(answer).await.ok(), json!({"who": "operator", "role": "operator"}));

    let with = |method: &str, path: &str| {
        request(method, &format!("/ops/api/v1{path}")).header("cookie", format!("a=b; {cookie}"))
    };
    assert_eq!(ask(&router, with("GET", "/session"), "").await.ok()["who"], "operator");
    let pause = format!("/runs/{run}/pause");
    ask(&router, with("POST", &pause), "{}").await.is_problem(403, "csrf");
    ask(&router, with("POST", &pause).header("x-windlass-csrf", "1"), "{}").await.ok();
    let discard = format!("/runs/{run}/discard");
    ask(&router, with("POST", &discard).header("x-windlass-csrf", "1"), "{}").await.is_problem(403, "role");
    // The session is known to every process.
    let other = Router::new().nest("/ops", Api::new(guarded.app.engine.client()).keys().router());
    ask(&other, with("GET", "/runs"), "").await.ok();
    // A key that is shown counts more than a cookie.
    let both = with("GET", "/session").header("authorization", format!("Bearer {}", guarded.keys[0]));
    assert_eq!(ask(&router, both, "").await.ok()["who"], "viewer");

    ask(&router, with("DELETE", "/session"), "{}").await.is_problem(403, "csrf");
    let out = with("DELETE", "/session").header("x-windlass-csrf", "1").body(Body::empty())?;
    let out = router.clone().oneshot(out).await?;
    assert_eq!(out.status(), 204);
    assert!(out.headers()["set-cookie"].to_str()?.starts_with("windlass_session=; Path=/ops; Max-Age=0;"));
    ask(&router, with("GET", "/runs"), "").await.is_problem(401, "not_logged_in");
    lab.advance(Duration::from_secs(3)).await;
    ask(&other, with("GET", "/runs"), "").await.is_problem(401, "not_logged_in");
    Ok(())
}

#[windlass::test]
async fn a_browser_is_logged_out_with_its_key_and_after_twelve_hours(lab: Lab) -> Result<()> {
    let guarded = Guarded::new(&lab).await?;
    let log_in = async || {
        let body = json!({"key": guarded.keys[0]}).to_string();
        let answer = guarded
            .app
            .router
            .clone()
            .oneshot(request("POST", "/api/v1/session").body(Body::from(body)).unwrap())
            .await;
        let cookie = answer.unwrap().headers()["set-cookie"].to_str().unwrap().to_owned();
        cookie.split(';').next().unwrap().to_owned()
    };
    let look = async |cookie: &str| {
        ask(&guarded.app.router, request("GET", "/api/v1/runs").header("cookie", cookie), "").await
    };
    let cookie = log_in().await;
    lab.advance(Duration::from_secs(12 * 3600 - 1)).await;
    look(&cookie).await.ok();
    lab.advance(Duration::from_secs(1)).await;
    look(&cookie).await.is_problem(401, "not_logged_in");
    let cookie = log_in().await;
    guarded.ask("DELETE", "/api/v1/keys/viewer", &guarded.keys[2]).await.ok();
    look(&cookie).await.is_problem(401, "not_logged_in");
    Ok(())
}

#[windlass::test]
async fn where_nobody_is_asked_everybody_is_an_admin_and_a_program_may_say_who_it_is(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    assert_eq!(app.get("/session").await.ok(), json!({"who": null, "role": "admin"}));
    let known = Caller::new("ann", Role::Viewer);
    for router in [app.router.clone(), Api::new(app.engine.client()).keys().router()] {
        let router = router.layer(axum::Extension(known.clone()));
        assert_eq!(
            ask(&router, request("GET", "/api/v1/session"), "").await.ok(),
            json!({"who": "ann", "role": "viewer"})
        );
        ask(&router, request("GET", "/api/v1/runs"), "").await.ok();
        ask(&router, request("DELETE", "/api/v1/queues/mail"), "").await.is_problem(403, "role");
    }
    Ok(())
}
