//! Metrics, as Prometheus reads them.

use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use tower::ServiceExt;
use windlass::{prelude::*, testing::Lab};

use crate::app::App;

#[windlass::test]
async fn metrics_are_answered_when_the_program_records_them(lab: Lab) -> Result<()> {
    App::new(&lab).await.get("/metrics").await.is_problem(404, "no_metrics");
    windlass_server::record_metrics()?;
    assert!(windlass_server::record_metrics().is_err(), "there is one recorder in a program");
    let app = App::new(&lab).await;
    app.completed().await;
    let request = Request::get("/api/v1/metrics").body(Body::empty())?;
    let answer = app.router.clone().oneshot(request).await?;
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = String::from_utf8(to_bytes(answer.into_body(), usize::MAX).await?.to_vec())?;
    for line in [
        "windlass_runs_started_total{workflow=\"letters\"} 1",
        "windlass_runs_ended_total{workflow=\"letters\",state=\"completed\"} 1",
        "windlass_attempts_total{workflow=\"letters\",task=\"write\",outcome=\"completed\"} 1",
        "windlass_attempt_seconds_count{workflow=\"letters\",task=\"write\"} 1",
        "# TYPE windlass_runs_held gauge",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    Ok(())
}
