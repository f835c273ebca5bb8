//! Word that something has changed.

use std::{pin::Pin, time::Duration};

use axum::{
    body::{Body, BodyDataStream},
    http::Request,
};
use futures_core::Stream;
use tower::ServiceExt;
use windlass::{prelude::*, testing::Lab};

use crate::app::App;

async fn listen(app: &App) -> BodyDataStream {
    let request = Request::builder().uri("/api/v1/live").body(Body::empty()).unwrap();
    app.router.clone().oneshot(request).await.unwrap().into_body().into_data_stream()
}

async fn word(words: &mut BodyDataStream) -> String {
    let next = std::future::poll_fn(|cx| Pin::new(&mut *words).poll_next(cx)).await;
    String::from_utf8(next.unwrap().unwrap().to_vec()).unwrap()
}

#[windlass::test]
async fn whoever_listens_hears_of_changes_at_most_once_a_second(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let mut words = listen(&app).await;
    let mut others = listen(&app).await;
    assert_eq!(word(&mut words).await, "event: changed\ndata: {}\n\n", "the first comes at once");
    word(&mut others).await;
    app.completed().await;
    word(&mut words).await;
    let heard = app.engine.now();
    for _ in 0..3 {
        app.failed(&lab).await;
    }
    word(&mut words).await;
    assert!(app.engine.now().since(heard) >= Duration::from_secs(1), "{heard}");
    word(&mut others).await;
    Ok(())
}
