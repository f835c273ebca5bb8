//! Who asks.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::{Extensions, StatusCode, request::Parts},
};

use crate::{Problem, Role, secret::Digest};

/// Who asks, and what they may do.
///
/// A program that knows its users says it of each request, in a layer before the router; then no key is asked for:
///
/// ```
/// use axum::{Extension, Router};
/// use windlass::prelude::*;
/// use windlass_server::{Caller, Role};
///
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// # let engine = Engine::open("sqlite::memory:").launch().await?;
/// let api = windlass_server::router(engine.client());
/// // Here everybody is the same; a layer of yours would look at the request.
/// let app: Router = Router::new().nest("/windlass", api.layer(Extension(Caller::new("ann", Role::Operator))));
/// # drop(app);
/// # engine.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Caller {
    pub(crate) who: Option<String>,
    pub(crate) role: Role,
    pub(crate) by: By,
    /// Where from, if the program says so.
    pub(crate) place: Option<String>,
}

/// How somebody showed who they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// The program said it, or nobody asked.
    Program,
    Key(Digest),
    Session(Digest),
}

impl Caller {
    /// Somebody of this name.
    #[must_use]
    pub fn new(who: impl Into<String>, role: Role) -> Self {
        Self { who: Some(who.into()), role, by: By::Program, place: None }
    }

    /// Where they ask from, for the record of changes. Default: the address, if the server says it
    /// ([`into_make_service_with_connect_info`](axum::Router::into_make_service_with_connect_info)).
    #[must_use]
    pub fn at(self, place: impl Into<String>) -> Self {
        Self { place: Some(place.into()), ..self }
    }

    /// Whoever it may be, where nobody is asked.
    pub(crate) const fn anybody() -> Self {
        Self { who: None, role: Role::Admin, by: By::Program, place: None }
    }

    /// Refuses what needs a stronger role.
    pub(crate) fn must_be(&self, needed: Role) -> Result<(), Problem> {
        if self.role >= needed {
            return Ok(());
        }
        let who = self.who.as_deref().unwrap_or_default();
        let detail = format!("this needs the role {needed}, and `{who}` has {}", self.role);
        Err(Problem::new(StatusCode::FORBIDDEN, "role", detail))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(Problem::not_logged_in)
    }
}

/// Where a request comes from, as far as the server that took it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin(Option<IpAddr>);

impl Origin {
    pub(crate) fn of(extensions: &Extensions) -> Self {
        let address = extensions.get::<ConnectInfo<SocketAddr>>();
        Self(address.map(|ConnectInfo(address)| address.ip().to_canonical()))
    }

    pub(crate) fn words(self) -> Option<String> {
        self.0.map(|address| address.to_string())
    }

    /// Whoever has one address of a network may well have all.
    pub(crate) fn network(self) -> Self {
        Self(self.0.map(|address| match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_one_address_or_half_of_a_long_one() {
        let network = |address: &str| {
            let mut extensions = Extensions::new();
            extensions.insert(ConnectInfo(address.parse::<SocketAddr>().unwrap()));
            Origin::of(&extensions).network()
        };
        assert_eq!(network("[2001:db8::1]:1"), network("[2001:db8::ffff:2]:2"));
        assert_ne!(network("[2001:db8::1]:1"), network("[2001:db8:0:1::1]:1"));
        assert_ne!(network("192.0.2.1:1"), network("192.0.2.2:1"));
        assert_eq!(network("[::ffff:192.0.2.1]:1"), network("192.0.2.1:1"));
    }
}
