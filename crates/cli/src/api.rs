//! The way to a database or a server: the HTTP API, asked with or without a network.
//!
//! So what `--json` prints is what the API answers, and both refuse the same things in the same words.

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    http::{Method, Request, Response, header::CONTENT_TYPE},
};
use serde_json::Value;
use tower::ServiceExt;
use windlass::{Client, Encrypted};
use windlass_server::{Caller, Role};

use crate::{remote::Remote, trouble::Trouble};

/// An API over a database, or that of a server.
#[derive(Clone)]
pub(crate) enum Api {
    Here(Router),
    There(Box<Remote>),
}

impl Api {
    /// Opens a database, or finds the way to a server.
    pub(crate) async fn open(url: &str, key: Option<&str>) -> Result<Self, Trouble> {
        match is_server(url) {
            true => Ok(Self::There(Box::new(Remote::new(url, key)?))),
            false => Ok(Self::over(connect(&as_it_is(url)).await?)),
        }
    }

    pub(crate) fn over(client: Client) -> Self {
        let router = windlass_server::router(client);
        // Whoever can open the database may do everything, and is asked for nothing.
        Self::Here(router.layer(Extension(Caller::new(somebody(), Role::Admin))))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Trouble> {
        self.read(self.ask(Method::GET, path, Body::empty()).await?).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Result<Value, Trouble> {
        self.read(self.ask(Method::POST, path, Body::from(body.to_string())).await?).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Result<Value, Trouble> {
        self.read(self.ask(Method::PUT, path, Body::from(body.to_string())).await?).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Trouble> {
        self.read(self.ask(Method::DELETE, path, Body::empty()).await?).await
    }

    /// An answer that comes bit by bit.
    pub(crate) async fn stream(&self, path: &str) -> Result<Body, Trouble> {
        let response = self.ask(Method::GET, path, Body::empty()).await?;
        match response.status().is_success() {
            true => Ok(response.into_body()),
            false => Err(problem(&self.read_body(response).await?)),
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Body) -> Result<Response<Body>, Trouble> {
        let request = Request::builder().method(method).header(CONTENT_TYPE, "application/json");
        let request = request.uri(format!("{}/api/v1{path}", self.base())).body(body);
        let request = request.map_err(|why| Trouble::Database(why.to_string()))?;
        match self {
            Self::There(remote) => remote.ask(request).await,
            Self::Here(router) => match router.clone().oneshot(request).await {
                Ok(response) => Ok(response),
                Err(never) => match never {},
            },
        }
    }

    /// What stands before every path.
    fn base(&self) -> &str {
        match self {
            Self::Here(_) => "",
            Self::There(remote) => remote.base(),
        }
    }

    async fn read(&self, response: Response<Body>) -> Result<Value, Trouble> {
        let is_done = response.status().is_success();
        let body = self.read_body(response).await?;
        if is_done { Ok(body) } else { Err(problem(&body)) }
    }

    async fn read_body(&self, response: Response<Body>) -> Result<Value, Trouble> {
        let (status, unreadable) = (response.status(), |why| format!("the answer cannot be read: {why}"));
        let body = to_bytes(response.into_body(), usize::MAX).await;
        let body = body.map_err(|why| Trouble::Database(unreadable(why.to_string())))?;
        if body.is_empty() && status.is_success() {
            return Ok(Value::Object(serde_json::Map::new()));
        }
        let read: Result<Value, _> = serde_json::from_slice(&body);
        match (read, self) {
            (Ok(read), _) if status.is_success() || read["code"].is_string() => Ok(read),
            (_, Self::There(remote)) => Err(remote.is_no_windlass(status)),
            (read, Self::Here(_)) => {
                Err(Trouble::Database(unreadable(read.err().map(|why| why.to_string()).unwrap_or_default())))
            }
        }
    }
}

/// Whether a URL names a server, and no database.
pub(crate) fn is_server(url: &str) -> bool {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// Who types, as far as the operating system says so.
fn somebody() -> String {
    let names = ["USER", "LOGNAME", "USERNAME"].into_iter();
    names
        .filter_map(|name| std::env::var(name).ok())
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| "somebody".to_owned())
}

/// Connects to a database. Whoever has the keys in the environment reads what is encrypted.
pub(crate) async fn connect(url: &str) -> Result<Client, Trouble> {
    let client = match Encrypted::from_env().map_err(|error| Trouble::Url(error.to_string()))? {
        Some(codec) => Client::connect_with(url, codec).await,
        None => Client::connect(url).await,
    };
    client.map_err(|error| Trouble::Database(error.to_string()))
}

fn problem(body: &Value) -> Trouble {
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    match body["status"].as_u64().unwrap_or(500) {
        401 => Trouble::Key { code: text("code"), detail: text("detail") },
        404 => Trouble::Unknown { code: text("code"), detail: text("detail") },
        500.. => Trouble::Failed { code: text("code"), detail: text("detail") },
        _ => Trouble::Refused { code: text("code"), detail: text("detail") },
    }
}

/// The URL of a database that is not made or migrated by looking at it: a path that is misspelt is an error.
pub(crate) fn as_it_is(url: &str) -> String {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    let option = match scheme {
        "sqlite" if url.contains(":memory:") || url.contains("mode=") => return url.to_owned(),
        "sqlite" => "mode=rw",
        "postgres" | "postgresql" if !url.contains("migrate=") => "migrate=no",
        // A plain path is a file.
        "" => return format!("sqlite://{url}?mode=rw"),
        _ => return url.to_owned(),
    };
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}{option}")
}

/// Text as a part of a path or query.
pub(crate) fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_not_made_by_looking_at_it() {
        assert_eq!(as_it_is("sqlite://app.db"), "sqlite://app.db?mode=rw");
        assert_eq!(as_it_is("app.db"), "sqlite://app.db?mode=rw");
        assert_eq!(as_it_is("sqlite://app.db?synchronous=full"), "sqlite://app.db?synchronous=full&mode=rw");
        assert_eq!(as_it_is("sqlite::memory:"), "sqlite::memory:");
        assert_eq!(as_it_is("postgres://h/d"), "postgres://h/d?migrate=no");
        assert_eq!(as_it_is("postgres://h/d?migrate=yes"), "postgres://h/d?migrate=yes");
    }

    #[test]
    fn text_is_escaped_byte_by_byte() {
        assert_eq!(escape("a b/ü"), "a%20b%2F%C3%BC");
    }
}
