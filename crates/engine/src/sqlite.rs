//! SQLite: the store itself (see [`windlass_sqlite`]), and steps of durable functions in its transactions.

pub use windlass_sqlite::*;

pub use crate::flow::transaction::sqlite::FlowExt;
