//! What keeps the pages of strangers from writing here.
//!
//! A browser sends requests to this machine on behalf of any page that is open in it. A page of a stranger cannot say that
//! its body is JSON without asking first, and it is never answered. So whatever changes something has to say so.

use axum::{
    extract::Request,
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN, REFERRER_POLICY,
            X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
        },
    },
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::Problem;

/// What every answer says to browsers, unless it says otherwise itself.
const HEADERS: [(HeaderName, &str); 6] = [
    (CACHE_CONTROL, "no-store"),
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (REFERRER_POLICY, "no-referrer"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
];

/// Lets a request through unless a stranger's page may have sent it, and makes the answer safe to show.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let mut response = match refuse_strangers(request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in HEADERS {
        // The page says of itself what is more or less strict.
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn refuse_strangers(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    if is_cross_site(uri, headers) {
        let detail =
            "the request comes from a page of another site: only pages of this host may change anything";
        return Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail));
    }
    match is_json(headers) {
        true => Ok(()),
        false => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "media_type",
            "a request that changes something needs `content-type: application/json`, with or without a body",
        )),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let said = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = said.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

fn is_cross_site(uri: &Uri, headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        return true;
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    // With HTTP/2 the host is in the request line.
    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    let host = host.or_else(|| uri.authority().map(|authority| authority.as_str().as_bytes()));
    let origin = origin.as_bytes();
    let bare = [&b"http://"[..], b"https://"].iter().find_map(|scheme| origin.strip_prefix(*scheme));
    !bare.zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(method: Method, headers: &[(&'static str, &'static str)]) -> Option<u16> {
        let pairs = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let headers: HeaderMap = pairs.collect();
        let answer = refuse_strangers(&method, &Uri::from_static("/"), &headers);
        answer.err().map(|problem| problem.into_response().status().as_u16())
    }

    #[test]
    fn reading_needs_nothing() {
        assert_eq!(refused(Method::GET, &[("origin", "https://elsewhere.example")]), None);
    }

    #[test]
    fn writing_needs_to_say_that_it_is_json() {
        assert_eq!(refused(Method::POST, &[]), Some(415));
        assert_eq!(refused(Method::DELETE, &[("content-type", "text/plain")]), Some(415));
        assert_eq!(refused(Method::PUT, &[("content-type", "application/jsonp")]), Some(415));
        assert_eq!(refused(Method::POST, &[("content-type", "Application/JSON; charset=utf-8")]), None);
    }

    #[test]
    fn a_page_of_another_host_or_port_or_of_none_writes_nothing() {
        let from = |origin| {
            refused(
                Method::POST,
                &[("content-type", "application/json"), ("host", "localhost:7070"), ("origin", origin)],
            )
        };
        assert_eq!(from("http://localhost:7070"), None);
        assert_eq!(from("https://LOCALHOST:7070"), None);
        for stranger in
            ["http://localhost:8080", "http://localhost", "null", "", "http://localhost:7070.evil"]
        {
            assert_eq!(from(stranger), Some(403), "{stranger}");
        }
    }

    #[test]
    fn a_page_of_a_neighbour_site_writes_nothing() {
        let from =
            |site| refused(Method::POST, &[("content-type", "application/json"), ("sec-fetch-site", site)]);
        assert_eq!((from("same-origin"), from("none")), (None, None));
        assert_eq!((from("cross-site"), from("same-site")), (Some(403), Some(403)));
    }
}
