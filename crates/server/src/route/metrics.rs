//! Metrics.

use std::fmt::Write;

use axum::{
    extract::State,
    http::{HeaderName, StatusCode, header::CONTENT_TYPE},
};
use windlass::{Client, Error, QueueLoad};

use super::health::count_nodes;
use crate::{Problem, metrics};

/// Gives the metrics of this process, and some of the database, in the text format of Prometheus.
#[utoipa::path(
    get, path = "/api/v1/metrics", tag = "health", operation_id = "metrics",
    responses(
        (status = 200, body = String, content_type = "text/plain"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn metrics(
    State(client): State<Client>,
) -> Result<([(HeaderName, &'static str); 1], String), Problem> {
    let mut text = metrics::rendered().ok_or_else(|| {
        let detail = "this program records no metrics for us: it calls `windlass_server::record_metrics()` before it \
                      launches its engine, or has a recorder of its own, which knows where they are";
        Problem::new(StatusCode::NOT_FOUND, "no_metrics", detail)
    })?;
    match of_database(&client).await {
        Ok(gauges) => text.push_str(&gauges),
        // What this process knows by itself says more than nothing.
        Err(error) => tracing::warn!(%error, "the metrics are without those of the database"),
    }
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}

/// What is the same whoever is asked.
async fn of_database(client: &Client) -> Result<String, Error> {
    let overview = client.overview().await?;
    let nodes = count_nodes(&client.nodes().await?, client.now());
    let mut text = String::new();
    let of_queues = |value: fn(&QueueLoad) -> f64| {
        overview.queues.iter().map(move |queue| (label("queue", &queue.name), value(queue)))
    };
    gauge(&mut text, "windlass_queue_waiting", of_queues(|queue| queue.waiting as f64));
    gauge(&mut text, "windlass_queue_running", of_queues(|queue| queue.running as f64));
    let oldest = |queue: &QueueLoad| queue.oldest.unwrap_or_default().as_secs_f64();
    gauge(&mut text, "windlass_queue_oldest_seconds", of_queues(oldest));
    gauge(&mut text, "windlass_lateness_seconds", [(String::new(), overview.lateness.as_secs_f64())]);
    let healths = [("alive", nodes.alive), ("stale", nodes.stale), ("dead", nodes.dead)];
    let healths = healths.map(|(health, count)| (label("health", health), count as f64));
    gauge(&mut text, "windlass_nodes", healths);
    Ok(text)
}

fn gauge(text: &mut String, name: &str, values: impl IntoIterator<Item = (String, f64)>) {
    let mut values = values.into_iter().peekable();
    if values.peek().is_some() {
        // A string takes whatever is written.
        writeln!(text, "# TYPE {name} gauge").ok();
        for (labels, value) in values {
            writeln!(text, "{name}{labels} {value}").ok();
        }
    }
}

fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!("{{{name}=\"{value}\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_its_label() {
        assert_eq!(label("queue", "a\"b\\c\nd"), r#"{queue="a\"b\\c\nd"}"#);
    }
}
