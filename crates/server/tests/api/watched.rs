//! What it costs that many look.

use std::{pin::Pin, sync::Arc, time::Duration};

use axum::{
    body::{Body, BodyDataStream},
    http::Request,
};
use futures_core::Stream;
use tokio::{task::JoinSet, time::Instant};
use tower::ServiceExt;
use windlass::{prelude::*, testing::Lab};

use crate::app::{App, approval, with_workflows};

/// Does a little all the time.
#[flow]
async fn busy(cx: &Flow) -> Result<()> {
    for _ in 0..1_000 {
        cx.step("work", || async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok::<_, Failure>(())
        })
        .await?;
    }
    Ok(())
}

/// How often the database is read in ten seconds while so many do this. They have ten seconds to come.
async fn reads<F: Future<Output = ()> + Send + 'static>(
    many: usize,
    watch: impl Fn(Arc<App>, String) -> F,
) -> usize {
    let lab = Lab::new();
    let engine = with_workflows(lab.engine()).workflow(busy::workflow()).launch().await.unwrap();
    let app = App { router: windlass_server::router(engine.client()), engine };
    let run = app.engine.start(busy::workflow(), ()).await.unwrap().id().to_string();
    let app = Arc::new(app);
    let mut watchers = JoinSet::new();
    for _ in 0..many {
        watchers.spawn(watch(Arc::clone(&app), run.clone()));
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = lab.reads();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(watchers.len(), many);
    assert!(watchers.try_join_next().is_none(), "all still watch");
    let read = lab.reads() - before;
    drop(watchers);
    app.engine.stop_now().await.unwrap();
    read
}

async fn stream(app: &App, path: &str) -> BodyDataStream {
    let request = Request::builder().uri(format!("/api/v1{path}")).body(Body::empty()).unwrap();
    app.router.clone().oneshot(request).await.unwrap().into_body().into_data_stream()
}

async fn event(events: &mut BodyDataStream) -> String {
    let next = std::future::poll_fn(|cx| Pin::new(&mut *events).poll_next(cx)).await;
    String::from_utf8(next.unwrap().unwrap().to_vec()).unwrap()
}

async fn look(app: &App, path: &str, fresh: bool) -> serde_json::Value {
    let age = if fresh { "no-cache" } else { "max-age=1" };
    let request = Request::builder().uri(format!("/api/v1{path}")).header("cache-control", age);
    app.ask(request.body(Body::empty()).unwrap()).await.ok()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_watchers_of_a_run_cost_what_one_costs() -> Result<()> {
    let none = reads(0, |_, _| async {}).await;
    let watch = |app: Arc<App>, run: String| async move {
        let mut events = stream(&app, &format!("/runs/{run}/watch")).await;
        loop {
            event(&mut events).await;
        }
    };
    let one = reads(1, watch).await;
    assert!((5..=15).contains(&(one - none)), "one of them: {one} reads, and {none} without");
    let thousand = reads(1_000, watch).await;
    assert!(thousand.abs_diff(one) <= 3, "a thousand of them: {thousand} reads, and {one} for one");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_thousand_listeners_who_look_again_cost_what_one_costs() -> Result<()> {
    let listen = |app: Arc<App>, run: String| async move {
        let mut words = stream(&app, "/live").await;
        loop {
            event(&mut words).await;
            for path in ["/overview", "/runs?limit=8", "/runs/counts", &format!("/runs/{run}")] {
                look(&app, path, false).await;
            }
        }
    };
    let one = reads(1, listen).await;
    let thousand = reads(1_000, listen).await;
    assert!(one > 50, "it looks once a second: {one} reads");
    assert!(thousand.abs_diff(one) <= one / 10, "a thousand of them: {thousand} reads, and {one} for one");
    Ok(())
}

#[windlass::test]
async fn the_end_of_a_run_is_said_at_once_though_its_steps_are_gathered(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let id = app.waiting(&lab).await;
    let mut events = stream(&app, &format!("/runs/{id}/watch")).await;
    while !event(&mut events).await.contains("suspended") {}
    app.post(&format!("/runs/{id}/events"), serde_json::json!({"name": "approved", "payload": "yes"}))
        .await
        .ok();
    let sent = Instant::now();
    while !event(&mut events).await.contains("event: ended") {}
    assert!(sent.elapsed() < Duration::from_millis(500), "{:?}", sent.elapsed());
    Ok(())
}

#[windlass::test]
async fn whoever_heard_of_a_change_or_made_one_sees_it(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let mut words = stream(&app, "/live").await;
    event(&mut words).await;
    let count = |shown: &serde_json::Value| shown["runs"].as_array().unwrap().len();
    assert_eq!(count(&look(&app, "/runs", false).await), 0);
    for runs in 1..5 {
        app.engine.start(approval::workflow(), 7).await.unwrap();
        assert_eq!(count(&look(&app, "/runs", true).await), runs, "who does not say so gets no old answer");
        event(&mut words).await;
        assert_eq!(count(&look(&app, "/runs", false).await), runs);
    }
    // What is refused is nobody else's answer.
    let request = || Request::builder().uri("/api/v1/runs?limit=x").header("cache-control", "max-age=1");
    for _ in 0..2 {
        app.ask(request().body(Body::empty()).unwrap()).await.is_problem(400, "malformed_range");
    }
    Ok(())
}
