//! The web page, which is built from `ui/` and is a part of this program.

use std::{io::Write, sync::OnceLock};

use axum::{
    body::Bytes,
    extract::{OriginalUri, Request},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method,
        header::{
            ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY,
        },
    },
    response::{IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};

use crate::Problem;

/// What `cargo xtask ui` has made: names, and what is in the files.
const FILES: &[(&str, &[u8])] = include!("../dist/files.rs");

/// What the page may do. Everything it needs comes from here, and nothing of it is written into HTML.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Files whose names change with what is in them.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// Answers what is not of the API: the page, and what belongs to it.
pub(crate) async fn page(OriginalUri(asked): OriginalUri, request: Request) -> Response {
    let path = request.uri().path();
    let of_api = path == "/api" || path.starts_with("/api/");
    if of_api || !matches!(*request.method(), Method::GET | Method::HEAD) {
        let detail = "nothing is here: /api/v1/openapi.json says what can be asked";
        return Problem::unknown("not_found", detail).into_response();
    }
    if path.starts_with("/assets/") {
        return match FILES.iter().position(|(name, _)| *name == &path[1..]) {
            Some(file) => answer(file, request.headers()),
            None => Problem::unknown("not_found", "the page has no such file: load it again").into_response(),
        };
    }
    index(&above(path, asked.path()))
}

/// Where the page stands, seen from a path below it: `../` for `/runs/7`. What is mounted at `/windlass` is asked for as that,
/// and as `/`: from there it is `./windlass/`.
fn above(path: &str, asked: &str) -> String {
    match asked.rsplit('/').next() {
        Some(last) if path == "/" && !last.is_empty() => format!("./{last}/"),
        _ => match path.matches('/').count() {
            0 | 1 => "./".to_owned(),
            depth => "../".repeat(depth - 1),
        },
    }
}

/// The page itself. It is answered under the path of each of its views, and refers to its files from there, so that it needs
/// not know where it is mounted, or what a proxy makes of its path.
fn index(above: &str) -> Response {
    let html = FILES.iter().find(|(name, _)| *name == "index.html").map_or(&b""[..], |(_, html)| html);
    let html = String::from_utf8_lossy(html).replace("\"./", &format!("\"{above}"));
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
    ];
    (headers, html).into_response()
}

fn answer(file: usize, asked: &HeaderMap) -> Response {
    let (name, plain) = FILES[file];
    let mut headers = HeaderMap::new();
    let fixed: [(HeaderName, &'static str); 4] = [
        (CONTENT_TYPE, kind(name)),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, FOR_EVER),
        (VARY, "accept-encoding"),
    ];
    headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    match takes_gzip(asked) {
        true => {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            (headers, packed(file)).into_response()
        }
        false => (headers, plain).into_response(),
    }
}

/// A file in fewer bytes, packed once, when it is first asked for.
fn packed(file: usize) -> Bytes {
    static PACKED: [OnceLock<Bytes>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];
    let pack = || {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let done = gzip.write_all(FILES[file].1).and_then(|()| gzip.finish());
        done.expect("memory takes what is written to it").into()
    };
    PACKED[file].get_or_init(pack).clone()
}

fn takes_gzip(asked: &HeaderMap) -> bool {
    let said = asked.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    said.flat_map(|value| value.split(',')).any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let refused = weight.split_once('=').is_some_and(|(_, q)| q.trim().parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("md") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_whoever_takes_it() {
        let takes = |said: &'static str| {
            takes_gzip(&HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(said))]))
        };
        for said in ["gzip", "br, gzip", "deflate,GZIP;q=0.5"] {
            assert!(takes(said), "{said}");
        }
        for said in ["", "br", "identity", "gzip;q=0", "x-gzip, gzip; q=0.0"] {
            assert!(!takes(said), "{said}");
        }
    }

    #[test]
    fn the_page_is_found_from_every_path_below_it() {
        let seen = [
            ("/", "/"),
            ("/runs", "/runs"),
            ("/runs/7", "/w/runs/7"),
            ("/runs/", "/w/runs/"),
            ("/", "/ops/w"),
            ("/", "/w/"),
        ];
        let above = seen.map(|(path, asked)| above(path, asked));
        assert_eq!(above, ["./", "./", "../", "../", "./w/", "./"]);
    }

    #[test]
    fn every_file_has_a_kind_that_browsers_know() {
        for (name, _) in FILES.iter().filter(|(name, _)| *name != "index.html") {
            assert_ne!(kind(name), "application/octet-stream", "{name}");
        }
    }

    #[test]
    fn the_first_view_is_small() {
        let html = String::from_utf8_lossy(FILES.iter().find(|(name, _)| *name == "index.html").unwrap().1);
        let first: Vec<usize> = (0..FILES.len()).filter(|file| html.contains(FILES[*file].0)).collect();
        let bytes: usize = first.iter().map(|file| packed(*file).len()).sum();
        assert!(first.len() > 2 && bytes < 300_000, "{} files of {bytes} bytes", first.len());
    }
}
