//! Columns as the types of the store, both ways.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::{
    Row,
    types::{FromSqlError, Type},
};
use serde::de::DeserializeOwned;
use windlass_core::{ClaimId, NodeId, RunId, RunState, StepKind};

/// A span as microseconds; one that is too long becomes the longest there is.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Microseconds as a span; a negative one becomes none.
pub(crate) fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// A claim as a column. Claims have 63 bits; one that has more keeps its bits.
pub(crate) const fn claim(claim: ClaimId) -> i64 {
    claim.0.cast_signed()
}

/// A list as JSON text; `None` when it is empty.
pub(crate) fn list(items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| serde_json::Value::from(items.to_vec()).to_string())
}

pub(crate) fn run_id(row: &Row<'_>, index: usize) -> rusqlite::Result<RunId> {
    row.get(index).map(RunId::from_bytes)
}

pub(crate) fn node_id(row: &Row<'_>, index: usize) -> rusqlite::Result<NodeId> {
    row.get(index).map(NodeId::from_bytes)
}

pub(crate) fn bytes(row: &Row<'_>, index: usize) -> rusqlite::Result<Bytes> {
    maybe_bytes(row, index)?.ok_or_else(|| unreadable(index, Type::Blob, FromSqlError::InvalidType))
}

pub(crate) fn maybe_bytes(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<Bytes>> {
    let blob = row.get_ref(index)?.as_blob_or_null();
    Ok(blob.map_err(|error| unreadable(index, Type::Blob, error))?.map(Bytes::copy_from_slice))
}

pub(crate) fn run_state(row: &Row<'_>, index: usize) -> rusqlite::Result<RunState> {
    let code = row.get::<_, u8>(index)?;
    RunState::from_code(code).ok_or_else(|| out_of_range(index, code))
}

pub(crate) fn step_kind(row: &Row<'_>, index: usize) -> rusqlite::Result<StepKind> {
    let code = row.get::<_, u8>(index)?;
    StepKind::from_code(code).ok_or_else(|| out_of_range(index, code))
}

/// What [`list`] wrote.
pub(crate) fn items<T: DeserializeOwned + Default>(row: &Row<'_>, index: usize) -> rusqlite::Result<T> {
    match row.get_ref(index)?.as_str_or_null().map_err(|error| unreadable(index, Type::Text, error))? {
        None => Ok(T::default()),
        Some(text) => serde_json::from_str(text).map_err(|error| unreadable(index, Type::Text, error)),
    }
}

fn out_of_range(index: usize, code: u8) -> rusqlite::Error {
    unreadable(index, Type::Integer, FromSqlError::OutOfRange(i64::from(code)))
}

fn unreadable(
    index: usize,
    kind: Type,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(index, kind, Box::new(error))
}
