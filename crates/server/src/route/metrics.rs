//! Metrics.

use axum::http::{HeaderName, StatusCode, header::CONTENT_TYPE};

use crate::{Problem, metrics};

/// Gives the metrics of this process, in the text format of Prometheus.
#[utoipa::path(
    get, path = "/api/v1/metrics", tag = "health", operation_id = "metrics",
    responses(
        (status = 200, body = String, content_type = "text/plain"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn metrics() -> Result<([(HeaderName, &'static str); 1], String), Problem> {
    let text = metrics::rendered().ok_or_else(|| {
        let detail = "this program records no metrics for us: it calls `windlass_server::record_metrics()` before it \
                      launches its engine, or has a recorder of its own, which knows where they are";
        Problem::new(StatusCode::NOT_FOUND, "no_metrics", detail)
    })?;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}
