//! Tasks whose writes and record are committed together.

#[cfg(feature = "postgres")]
mod conflict;
#[cfg(feature = "postgres")]
mod database;
mod functions;
#[cfg(feature = "postgres")]
mod leaves_nothing;
#[cfg(feature = "postgres")]
mod lost_answer;
#[cfg(feature = "postgres")]
mod proxy;
#[cfg(feature = "postgres")]
mod race;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "postgres")]
mod together;
