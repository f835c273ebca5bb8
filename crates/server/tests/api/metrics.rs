//! Metrics, as Prometheus reads them.

use std::{collections::BTreeSet, fs, path::Path};

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
    app.engine.start(crate::app::letters::workflow(), "hello".to_owned()).queue("lonely").await?;
    lab.advance(std::time::Duration::from_secs(90)).await;
    let request = Request::get("/api/v1/metrics").body(Body::empty())?;
    let answer = app.router.clone().oneshot(request).await?;
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = String::from_utf8(to_bytes(answer.into_body(), usize::MAX).await?.to_vec())?;
    for line in [
        "windlass_runs_started_total{workflow=\"letters\"} 2",
        "windlass_runs_ended_total{workflow=\"letters\",state=\"completed\"} 1",
        "windlass_attempts_total{workflow=\"letters\",task=\"write\",outcome=\"completed\"} 1",
        "windlass_attempt_seconds_count{workflow=\"letters\",task=\"write\"} 1",
        "# TYPE windlass_runs_held gauge",
        "windlass_queue_waiting{queue=\"lonely\"} 1",
        "windlass_queue_oldest_seconds{queue=\"lonely\"} 90",
        "windlass_lateness_seconds 0",
        "windlass_nodes{health=\"alive\"}",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    Ok(())
}

fn page(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path)).unwrap()
}

/// The metrics that a text names. What a histogram is asked for ends in its own way.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let names = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let names = names.filter(|name| name.starts_with("windlass_"));
    names
        .map(|name| name.trim_end_matches("_bucket").trim_end_matches("_count").trim_end_matches("_sum"))
        .collect()
}

#[test]
fn the_dashboard_shows_every_metric_that_is_documented_and_no_other() {
    let observing = page("observing.md");
    let rows: String = observing.lines().filter(|line| line.starts_with("| `windlass_")).collect();
    let dashboard = page("grafana/windlass.json");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let asked: Vec<&str> = dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    assert_eq!(metrics_in(&asked.join("\n")), metrics_in(&rows));
}
