//! A server of its own, for this machine alone.

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

use crate::{Problem, router};

/// Why the API is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Others could reach the address, and nothing would ask who they are.
    #[error(
        "{0} can be reached from other machines, and whoever reaches this API may do everything: it would need keys, which \
         it does not have; use a loopback address such as 127.0.0.1:7070, or mount `router` in a server that knows its users"
    )]
    NotLoopback(SocketAddr),
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

/// Listens for requests from this machine. Port 0 is any that is free.
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
/// [`ServeError::NotLoopback`] when others could reach the address, and when it cannot be listened on.
pub async fn serve(client: Client, address: SocketAddr) -> Result<Served, ServeError> {
    if !address.ip().to_canonical().is_loopback() {
        return Err(ServeError::NotLoopback(address));
    }
    let failed = |why| ServeError::Listen { address, why };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let serving = axum::serve(listener, local(router(client))).into_future();
    Ok(Served { address, serving: Box::pin(serving) })
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
    async fn an_address_that_others_reach_is_refused() {
        let client = windlass::Engine::open("sqlite::memory:").launch().await.unwrap();
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "[::ffff:192.0.2.1]:80"] {
            let refused = serve(client.client(), address.parse().unwrap()).await.unwrap_err();
            assert!(matches!(refused, ServeError::NotLoopback(_)), "{refused}");
            assert!(refused.to_string().contains("keys"), "{refused}");
        }
        client.stop().await.unwrap();
    }
}
