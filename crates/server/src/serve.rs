//! A server of its own.

use std::{
    future::{Future, IntoFuture},
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
};

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, Uri, header::HOST},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use tokio::net::TcpListener;
use windlass::Client;

use crate::{Api, KeyError, Keys, Problem};

/// Why the API is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Others could reach the address, and nothing would ask who they are.
    #[error(
        "{0} can be reached from other machines, and this database has no keys, so that whoever comes may do everything: \
         make one with `windlass keys create NAME --role admin`, or use a loopback address such as 127.0.0.1:7070"
    )]
    NoKeys(SocketAddr),
    /// Whether there are keys cannot be found out.
    #[error("whether this database has keys cannot be found out: {0}")]
    Keys(#[from] KeyError),
    /// The address cannot be used.
    #[error("{address} cannot be listened on: {why}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        why: io::Error,
    },
    /// It was served, and is no longer.
    #[error("the server stopped: {0}")]
    Stopped(io::Error),
}

/// A server that listens. It answers while it is awaited, and until it is dropped.
#[must_use = "nothing is answered before this is awaited"]
pub struct Served {
    address: SocketAddr,
    serving: Pin<Box<dyn Future<Output = io::Result<()>> + Send>>,
}

/// Listens for requests, without keys if there are none and they can come from this machine alone: see [`Api::serve`].
///
/// ```
/// use windlass::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// let engine = Engine::open("sqlite::memory:").launch().await?;
/// let server = windlass_server::serve(engine.client(), ([127, 0, 0, 1], 0).into()).await?;
/// println!("http://{}/api/v1/runs", server.address());
/// let serving = tokio::spawn(server.into_future());
/// # serving.abort();
/// # engine.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Those of [`Api::serve`].
pub async fn serve(client: Client, address: SocketAddr) -> Result<Served, ServeError> {
    Api::new(client).serve(address).await
}

impl Api {
    /// Listens for requests. Port 0 is any that is free.
    ///
    /// An address that only this machine can reach needs no keys, and then requests have to name this machine; as soon as
    /// the database has keys, they are demanded. Every other address is refused unless there are keys.
    ///
    /// # Errors
    ///
    /// [`ServeError::NoKeys`] when others could reach the address and there are no keys, and when it cannot be listened on.
    pub async fn serve(self, address: SocketAddr) -> Result<Served, ServeError> {
        let is_local = address.ip().to_canonical().is_loopback();
        if !is_local && Keys::new(&self.client).list().await?.is_empty() {
            return Err(ServeError::NoKeys(address));
        }
        let router = if is_local { local(self.keys_if_any().router()) } else { self.keys().router() };
        let failed = |why| ServeError::Listen { address, why };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        Ok(Served { address, serving: Box::pin(axum::serve(listener, service).into_future()) })
    }
}

impl Served {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served").field("address", &self.address).finish_non_exhaustive()
    }
}

impl IntoFuture for Served {
    type Output = Result<(), ServeError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.serving.await.map_err(ServeError::Stopped) })
    }
}

/// A router that answers only to the names of this machine: a stranger may have a name that leads here, and then the
/// stranger's page and this API seem to be of one site.
fn local(router: Router) -> Router {
    router.layer(middleware::from_fn(async |request: Request, next: Next| -> Response {
        match names_this_machine(&request) {
            true => next.run(request).await,
            false => {
                let detail = "this server answers to `localhost` and loopback addresses only";
                Problem::new(StatusCode::MISDIRECTED_REQUEST, "host", detail).into_response()
            }
        }
    }))
}

fn names_this_machine(request: &Request) -> bool {
    let said = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let said: Option<Uri> =
        said.or_else(|| Some(request.uri().authority()?.as_str())).and_then(|said| said.parse().ok());
    let Some(name) = said.as_ref().and_then(Uri::host) else { return false };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = bare.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    is_loopback || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered_to() {
        let answers = |host: &str| {
            names_this_machine(&Request::builder().header(HOST, host).body(Body::empty()).unwrap())
        };
        for name in ["localhost", "LOCALHOST:7070", "127.0.0.1:7070", "[::1]:7070", "127.8.9.1"] {
            assert!(answers(name), "{name}");
        }
        for name in
            ["evil.example", "evil.example:7070", "127.0.0.1.evil.example", "10.0.0.1", "", "localhost.evil"]
        {
            assert!(!answers(name), "{name}");
        }
        assert!(!names_this_machine(&Request::new(Body::empty())));
    }

    #[tokio::test]
    async fn an_address_that_others_reach_needs_keys() {
        let engine = windlass::Engine::open("sqlite::memory:").launch().await.unwrap();
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "[::ffff:192.0.2.1]:80"] {
            let refused = serve(engine.client(), address.parse().unwrap()).await.unwrap_err();
            assert!(matches!(refused, ServeError::NoKeys(_)), "{refused}");
            assert!(refused.to_string().contains("windlass keys create"), "{refused}");
        }
        Keys::new(&engine.client()).create("one", crate::Role::Viewer, None).await.unwrap();
        drop(serve(engine.client(), "0.0.0.0:0".parse().unwrap()).await.unwrap());
        engine.stop().await.unwrap();
    }
}
