//! The HTTP API and the web page of Windlass: an axum router over a [`Client`](windlass::Client), which any program mounts.
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
//! [`router`] is for a program that has a server, and decides who may reach it; [`Api`] for one that has keys asked for, or
//! says more. [`serve`] is a server of its own. What can be asked is described by the document that [`openapi`] gives, and
//! that is answered at `/api/v1/openapi.json`.

mod api;
mod arrival;
mod audit;
mod bucket;
mod caller;
mod deed;
#[cfg(doctest)]
mod doc_tests;
mod door;
mod filter;
mod guard;
mod hooks;
mod keys;
mod limits;
mod metrics;
mod page;
mod problem;
mod redaction;
mod ring;
mod role;
mod route;
mod secret;
mod serve;
mod shared;
mod view;
mod way;

pub use api::{Api, router};
pub use caller::Caller;
pub use keys::{KeyError, KeyInfo, Keys, NewKey};
pub use metrics::{MetricsError, record_metrics};
pub use problem::Problem;
pub use role::Role;
pub use route::openapi;
pub use serve::{ServeError, Served, serve};
