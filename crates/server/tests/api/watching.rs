//! Following a run.

use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass::{prelude::*, testing::Lab};

use crate::app::{Answer, App};

/// An event, as it came.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    id: Option<String>,
    name: String,
    data: Value,
}

fn request(id: &str, last: Option<&str>) -> Request<Body> {
    let request = Request::get(format!("/api/v1/runs/{id}/watch"));
    let request = last.into_iter().fold(request, |request, last| request.header("last-event-id", last));
    request.body(Body::empty()).unwrap()
}

/// Everything until the end of the run.
async fn events(app: &App, id: &str, last: Option<&str>) -> Vec<Seen> {
    let response = app.router.clone().oneshot(request(id, last)).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    text.split_terminator("\n\n").filter(|block| !block.starts_with(':')).map(read).collect()
}

fn read(block: &str) -> Seen {
    let field = |name: &str| block.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
    Seen {
        id: field("id:"),
        name: field("event:").expect("every event has a name"),
        data: serde_json::from_str(&field("data:").expect("every event has data")).unwrap(),
    }
}

fn steps(events: &[Seen]) -> Vec<&str> {
    events.iter().filter(|seen| seen.name == "step").filter_map(|seen| seen.data["name"].as_str()).collect()
}

#[windlass::test]
async fn a_watcher_gets_every_step_and_the_end(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.failed(&lab).await;
    let seen = events(&app, &id, None).await;
    assert_eq!(steps(&seen), ["write", "post", "apologize"]);
    let last = seen.last().unwrap();
    assert_eq!((&*last.name, &last.data["state"]), ("ended", &json!("failed")));
    assert_eq!(last.data["verdict"]["failure"]["message"], "the box is full");
    Ok(())
}

#[windlass::test]
async fn a_watcher_sees_what_happens_after_it_came(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.waiting(&lab).await;
    let watching = events(&app, &id, None);
    let acting = async {
        lab.advance(std::time::Duration::from_secs(1)).await;
        app.post(&format!("/runs/{id}/events"), json!({"name": "approved", "payload": "yes"})).await.ok();
    };
    let (seen, ()) = tokio::join!(watching, acting);
    assert_eq!(seen[0].data, json!({"state": "suspended"}));
    assert_eq!(seen[0].id, None, "a state is said again to whoever comes back");
    assert!(steps(&seen).contains(&"approved"), "{seen:?}");
    assert_eq!(seen.last().unwrap().name, "ended");
    Ok(())
}

#[windlass::test]
async fn whoever_was_cut_off_goes_on_after_the_last_event(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.failed(&lab).await;
    let all = events(&app, &id, None).await;
    let recorded: Vec<&Seen> = all.iter().filter(|seen| seen.id.is_some()).collect();
    for (number, seen) in recorded.iter().enumerate().take(recorded.len() - 1) {
        let rest = events(&app, &id, seen.id.as_deref()).await;
        assert_eq!(rest.iter().collect::<Vec<_>>(), recorded[number + 1..]);
    }
    // A browser asks again after the end, unless it is told to stop.
    let end = recorded.last().unwrap().id.as_deref();
    let answer = Answer::read(app.router.clone().oneshot(request(&id, end)).await.unwrap()).await;
    assert_eq!(answer.status, 204);
    app.post(&format!("/runs/{id}/retry"), json!({})).await.ok();
    let again = events(&app, &id, end).await;
    assert_eq!(again.last().unwrap().data["state"], "completed");
    Ok(())
}

#[windlass::test]
async fn an_event_id_that_is_none_is_refused(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.completed().await;
    for last in ["7", "end.", "end.soon", "xyzxyzxyzxyzxyzx", "\u{e9}"] {
        app.ask(request(&id, Some(last))).await.is_problem(400, "malformed_id");
    }
    assert!(!events(&app, &id, Some("")).await.is_empty());
    Ok(())
}
