//! The Rust blocks of the page about the API, run as doc tests.

#[doc = include_str!("../../../docs/http-api.md")]
struct HttpApi;
