//! The HTTP API as a program of its own.

use std::{future::IntoFuture, net::SocketAddr};

use clap::Args;
use serde_json::json;
use windlass_server::{Api, MetricsError, ServeError, record_metrics};

use crate::{
    Output,
    api::{as_it_is, connect},
    trouble::Trouble,
    watch::Form,
};

/// How the API is served.
#[derive(Args)]
pub(crate) struct Serve {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:7070")]
    address: SocketAddr,
    /// Hide more fields of payloads and log lines: those whose names end with one of these, such as iban,phone
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    redact: Vec<String>,
    /// Show no payloads, and no fields of log lines
    #[arg(long)]
    hide_payloads: bool,
}

impl Serve {
    /// Serves until somebody interrupts it.
    pub(crate) async fn listen(self, url: &str, form: Form, output: &mut Output) -> Result<(), Trouble> {
        measure()?;
        let api = Api::new(connect(&as_it_is(url)).await?).redact(self.redact);
        let api = if self.hide_payloads { api.hide_payloads() } else { api };
        let server = api.serve(self.address).await.map_err(refused)?;
        let place = format!("http://{}/api/v1/", server.address());
        output.line(&match form {
            Form::Json => json!({"url": place}).to_string(),
            Form::ForPeople => place,
        })?;
        tokio::select! {
            served = server.into_future() => served.map_err(refused),
            stopped = tokio::signal::ctrl_c() => Ok(stopped?),
        }
    }
}

/// Records the metrics of this process, so that the API answers them.
pub(crate) fn measure() -> Result<(), Trouble> {
    let refused =
        |why: MetricsError| Trouble::Refused { code: "metrics".to_owned(), detail: why.to_string() };
    record_metrics().map_err(refused)
}

pub(crate) fn refused(why: ServeError) -> Trouble {
    Trouble::Refused { code: "serve".to_owned(), detail: why.to_string() }
}
