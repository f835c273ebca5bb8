//! The Rust blocks of the pages about the API, run as doc tests.

#[doc = include_str!("../../../docs/http-api.md")]
struct HttpApi;

#[doc = include_str!("../../../docs/page.md")]
struct Page;

#[doc = include_str!("../../../docs/safety.md")]
struct Safety;
