//! The HTTP API of Windlass: an axum router over a [`Client`](windlass::Client), which any program mounts.
//!
//! ```
//! use windlass::prelude::*;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<()> {
//! let engine = Engine::open("sqlite::memory:").launch().await?;
//! let app: axum::Router = axum::Router::new().nest("/windlass", windlass_server::router(engine.client()));
//! # drop(app);
//! # engine.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`router`] is for a program that has a server, and decides who may reach it. [`serve`] is a server of its own, for this
//! machine alone. What can be asked is described by the document that [`openapi`] gives, and that is answered at
//! `/api/v1/openapi.json`.

mod arrival;
#[cfg(doctest)]
mod doc_tests;
mod filter;
mod guard;
mod problem;
mod route;
mod serve;
mod view;

pub use problem::Problem;
pub use route::{openapi, router};
pub use serve::{ServeError, Served, serve};
