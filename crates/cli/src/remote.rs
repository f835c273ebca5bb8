//! A Windlass server, reached over the network.

use std::{error::Error, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, Request, Response, StatusCode, Uri, header::AUTHORIZATION},
};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};

use crate::trouble::Trouble;

/// How long it may take to be connected.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server, and what opens it.
#[derive(Clone)]
pub(crate) struct Remote {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    /// Where its page is, without the slash at the end.
    base: String,
    key: Option<HeaderValue>,
}

impl Remote {
    pub(crate) fn new(url: &str, key: Option<&str>) -> Result<Self, Trouble> {
        let base = url.trim_end_matches('/').trim_end_matches("/api/v1").trim_end_matches('/').to_owned();
        let uri: Result<Uri, _> = base.parse();
        if !uri.is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some() && uri.query().is_none()) {
            return Err(Trouble::Url(format!(
                "`{url}` is not the address of a server, such as https://host/windlass"
            )));
        }
        let key = key.map(|key| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.trim()));
            value.iter_mut().for_each(|value| value.set_sensitive(true));
            value.map_err(|_| Trouble::Url("the key has letters that no key has: is it whole?".to_owned()))
        });
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(PATIENCE));
        let tls = HttpsConnectorBuilder::new().with_tls_config(tls(&base)?).https_or_http().enable_http1();
        let client = Client::builder(TokioExecutor::new()).build(tls.wrap_connector(connector));
        Ok(Self { client, base, key: key.transpose()? })
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) async fn ask(&self, mut request: Request<Body>) -> Result<Response<Body>, Trouble> {
        if let Some(key) = &self.key {
            request.headers_mut().insert(AUTHORIZATION, key.clone());
        }
        match self.client.request(request).await {
            Ok(response) => Ok(response.map(Body::new)),
            Err(why) => Err(Trouble::Database(format!(
                "no server answers at {}: {}; is the address right, and `windlass serve` or your program running?",
                self.base,
                deepest(&why)
            ))),
        }
    }

    /// That something else answers.
    pub(crate) fn is_no_windlass(&self, status: StatusCode) -> Trouble {
        Trouble::Database(format!(
            "what answers at {} is not a Windlass server (it said {status}): is a path missing, under which the API is mounted?",
            self.base
        ))
    }
}

/// Trusts whom the system trusts, where there is something to trust.
fn tls(base: &str) -> Result<ClientConfig, Trouble> {
    let broken = |why: String| Trouble::Database(format!("no encrypted connection can be made: {why}"));
    let config = ClientConfig::builder_with_provider(default_provider().into());
    let config = config.with_safe_default_protocol_versions().map_err(|why| broken(why.to_string()))?;
    let config = match base.starts_with("http://") {
        true => config.with_root_certificates(RootCertStore::empty()),
        false => config.with_native_roots().map_err(|why| broken(why.to_string()))?,
    };
    Ok(config.with_no_client_auth())
}

/// What it all came from.
fn deepest(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
