//! The metrics of this process, as Prometheus reads them.

use std::{io, sync::OnceLock, thread, time::Duration};

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// How often what was measured is summed up, whether or not anybody asks for it.
const UPKEEP: Duration = Duration::from_secs(5);

/// The upper bounds of what is counted together, in seconds.
const SECONDS: [f64; 14] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0];

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

/// Why metrics are not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// Another recorder is installed, or this one cannot be.
    #[error("metrics cannot be recorded: {0}")]
    Recorder(#[from] BuildError),
    /// The thread that sums them up cannot be started.
    #[error("metrics cannot be summed up: {0}")]
    Thread(#[from] io::Error),
}

/// Records the metrics of this process, so that `GET /metrics` answers them. Call it before the engine is launched, and not
/// in a program that has a recorder of its own.
///
/// # Errors
///
/// When a recorder is installed already, or no thread can be started.
pub fn record_metrics() -> Result<(), MetricsError> {
    let builder =
        PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?;
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    ::metrics::set_global_recorder(recorder).map_err(BuildError::from)?;
    let summing = handle.clone();
    thread::Builder::new().name("windlass-metrics".to_owned()).spawn(move || {
        loop {
            thread::sleep(UPKEEP);
            summing.run_upkeep();
        }
    })?;
    HANDLE.get_or_init(|| handle);
    Ok(())
}

/// The metrics, if they are recorded.
pub(crate) fn rendered() -> Option<String> {
    HANDLE.get().map(PrometheusHandle::render)
}
