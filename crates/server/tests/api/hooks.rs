//! Runs that other programs start by sending something, signed.

use std::time::Duration;

use axum::{body::Body, http::Request};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac_sha256::HMAC;
use serde_json::{Value, json};
use windlass::{prelude::*, testing::Lab};
use windlass_server::Api;

use crate::app::{Answer, App};

/// What somebody sends to a hook.
struct Sent<'a> {
    secret: &'a str,
    id: &'a str,
    at: i64,
    body: &'a str,
}

impl Sent<'_> {
    fn signature(&self) -> String {
        let key = STANDARD.decode(self.secret.strip_prefix("whsec_").unwrap()).unwrap();
        let content = format!("{}.{}.{}", self.id, self.at, self.body);
        format!("v1,{}", STANDARD.encode(HMAC::mac(content, key)))
    }

    async fn to(&self, app: &App, hook: &str) -> Answer {
        self.signed(app, hook, &self.signature()).await
    }

    async fn signed(&self, app: &App, hook: &str, signature: &str) -> Answer {
        let request = Request::post(format!("/api/v1/hooks/{hook}"))
            .header("content-type", "application/json")
            .header("webhook-id", self.id)
            .header("webhook-timestamp", self.at.to_string())
            .header("webhook-signature", signature);
        app.ask(request.body(Body::from(self.body.to_owned())).unwrap()).await
    }
}

/// An API that asks for keys, one that does not, and the secret of the hook `letters`.
async fn hooked(lab: &Lab) -> (App, App, String) {
    let open = App::new(lab).await;
    let secret = open.post("/hooks", json!({"name": "box", "workflow": "letters"})).await.ok();
    let router = Api::new(open.engine.client()).keys().router();
    let guarded = App { engine: open.engine.clone(), router };
    (guarded, open, secret["secret"].as_str().unwrap().to_owned())
}

fn seconds(app: &App) -> i64 {
    app.engine.client().now().0 / 1_000_000
}

#[windlass::test]
async fn what_is_signed_starts_one_run_with_its_body_however_often_it_is_sent(lab: Lab) -> Result<()> {
    let (app, open, secret) = hooked(&lab).await;
    let sent = Sent { secret: &secret, id: "m1", at: seconds(&app), body: "\"a letter\"" };
    let first = sent.to(&app, "box").await;
    assert_eq!(first.status, 202, "{first:?}");
    let first = first.ok();
    assert_eq!(sent.to(&app, "box").await.ok(), first);
    // Another process, and another body under the same id.
    let other = Sent { body: "\"another letter\"", ..sent };
    assert_eq!(other.to(&open, "box").await.ok(), first);
    let document = open.get(&format!("/runs/{}/document", first["id"].as_str().unwrap())).await.ok();
    assert_eq!((&document["input"], &document["workflow"]), (&json!("a letter"), &json!("letters")));
    assert_eq!(open.get("/runs").await.ok()["runs"].as_array().unwrap().len(), 1);
    let change = &open.get("/audit?limit=1").await.ok()["changes"][0];
    assert_eq!((&change["who"], &change["what"]), (&json!("hook box"), &json!("call_hook")));
    Ok(())
}

#[windlass::test]
async fn what_is_not_signed_now_by_who_has_the_secret_starts_nothing(lab: Lab) -> Result<()> {
    let (app, open, secret) = hooked(&lab).await;
    let sent = |id, at, body| Sent { secret: &secret, id, at, body };
    let now = seconds(&app);
    sent("m", now, "1")
        .signed(&app, "box", &sent("m", now, "2").signature())
        .await
        .is_problem(401, "wrong_signature");
    sent("m", now, "1")
        .signed(&app, "box", &sent("n", now, "1").signature())
        .await
        .is_problem(401, "wrong_signature");
    sent("m", now, "1")
        .signed(&app, "box", &sent("m", now - 1, "1").signature())
        .await
        .is_problem(401, "wrong_signature");
    sent("m", now, "1").to(&app, "cabinet").await.is_problem(401, "wrong_signature");
    for at in [now - 301, now + 302, i64::MIN, i64::MAX] {
        sent("m", at, "1").to(&app, "box").await.is_problem(401, "out_of_time");
    }
    sent("m", now, "{").to(&app, "box").await.is_problem(400, "malformed_body");
    let long = "m".repeat(201);
    sent(&long, now, "1").to(&app, "box").await.is_problem(400, "malformed_signature");
    app.post("/hooks/box", json!(1)).await.is_problem(400, "malformed_signature");
    assert_eq!(open.get("/runs").await.ok()["runs"], json!([]));
    // Guesses are counted, and keep nobody out.
    for _ in 0..20 {
        sent("m", now, "1").signed(&app, "box", "v1,AAAA").await;
    }
    sent("m", now, "1").signed(&app, "box", "v1,AAAA").await.is_problem(429, "too_many_attempts");
    sent("m", now, "\"x\"").to(&app, "box").await.ok();
    Ok(())
}

#[windlass::test]
async fn a_secret_is_replaced_while_the_one_before_still_counts(lab: Lab) -> Result<()> {
    let (app, open, old) = hooked(&lab).await;
    let new = open.post("/hooks/box/rotate", json!({"overlap": 60})).await.ok();
    let new = new["secret"].as_str().unwrap().to_owned();
    let send = async |secret: &str, id: &str| {
        Sent { secret, id, at: seconds(&app), body: "\"x\"" }.to(&app, "box").await
    };
    send(&old, "1").await.ok();
    send(&new, "2").await.ok();
    lab.advance(Duration::from_secs(61)).await;
    send(&old, "3").await.is_problem(401, "wrong_signature");
    send(&new, "4").await.ok();
    let newest = open.post("/hooks/box/rotate", json!({"overlap": 0})).await.ok();
    lab.advance(Duration::from_secs(3)).await;
    send(&new, "5").await.is_problem(401, "wrong_signature");
    send(newest["secret"].as_str().unwrap(), "6").await.ok();
    let list = open.get("/hooks").await.ok();
    assert_eq!(
        (&list["hooks"][0]["name"], &list["hooks"][0]["workflow"]),
        (&json!("box"), &json!("letters"))
    );
    assert!(!list.to_string().contains("whsec_"));
    Ok(())
}

#[windlass::test]
async fn hooks_are_made_and_removed_by_name(lab: Lab) -> Result<()> {
    let (_, open, _) = hooked(&lab).await;
    let new = |name: &str, workflow: &str| json!({"name": name, "workflow": workflow});
    open.post("/hooks", new("box", "letters")).await.is_problem(409, "hook_name_taken");
    open.post("/hooks", new("a/b", "letters")).await.is_problem(422, "invalid");
    open.post("/hooks", new("b", "lettres")).await.is_problem(422, "unknown_workflow");
    open.post("/hooks/none/rotate", json!({})).await.is_problem(404, "unknown_hook");
    open.post("/hooks/box/rotate", json!({"overlap": -1})).await.is_problem(422, "invalid");
    open.write(axum::http::Method::DELETE, "/hooks/box", json!({})).await.ok();
    open.write(axum::http::Method::DELETE, "/hooks/box", json!({})).await.is_problem(404, "unknown_hook");
    assert_eq!(open.get("/hooks").await.ok()["hooks"], Value::Array(Vec::new()));
    Ok(())
}
