//! Columns as the types of the store, both ways.

use std::time::Duration;

use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::{ClaimId, NodeId, RunId, RunState, StepKind, Time};
use windlass_store::StepRow;

use crate::error::Fault;

/// A span as microseconds; one that is too long becomes the longest there is.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Microseconds as a span; a negative one becomes none.
pub(crate) fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

pub(crate) const fn run(id: RunId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

pub(crate) const fn node(id: NodeId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

/// A claim as a column. Claims have 63 bits; one that has more keeps its bits.
pub(crate) const fn claim(claim: ClaimId) -> i64 {
    claim.0.cast_signed()
}

/// A list as JSON text; `None` when it is empty.
pub(crate) fn list(items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| serde_json::Value::from(items.to_vec()).to_string())
}

/// A count, which is never so large that it does not fit.
pub(crate) fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// What tells the starts of one attempt apart: see the table.
pub(crate) fn started_in(step: &StepRow) -> i32 {
    if step.kind == StepKind::Started { count(step.epoch) } else { -1 }
}

pub(crate) fn run_id(row: &Row, index: usize) -> Result<RunId, Fault> {
    Ok(RunId::from_bytes(row.try_get::<_, Uuid>(index)?.into_bytes()))
}

pub(crate) fn node_id(row: &Row, index: usize) -> Result<NodeId, Fault> {
    Ok(NodeId::from_bytes(row.try_get::<_, Uuid>(index)?.into_bytes()))
}

pub(crate) fn claim_id(row: &Row, index: usize) -> Result<ClaimId, Fault> {
    Ok(ClaimId(row.try_get::<_, i64>(index)?.cast_unsigned()))
}

pub(crate) fn time(row: &Row, index: usize) -> Result<Time, Fault> {
    Ok(Time(row.try_get(index)?))
}

pub(crate) fn bytes(row: &Row, index: usize) -> Result<Bytes, Fault> {
    Ok(Bytes::copy_from_slice(row.try_get(index)?))
}

pub(crate) fn maybe_bytes(row: &Row, index: usize) -> Result<Option<Bytes>, Fault> {
    Ok(row.try_get::<_, Option<&[u8]>>(index)?.map(Bytes::copy_from_slice))
}

/// A count that was never negative.
pub(crate) fn number(row: &Row, index: usize) -> Result<u32, Fault> {
    let number: i32 = row.try_get(index)?;
    u32::try_from(number).map_err(|_| Fault::unreadable(row, index))
}

pub(crate) fn priority(row: &Row, index: usize) -> Result<u8, Fault> {
    let number: i16 = row.try_get(index)?;
    u8::try_from(number).map_err(|_| Fault::unreadable(row, index))
}

pub(crate) fn run_state(row: &Row, index: usize) -> Result<RunState, Fault> {
    let code: i16 = row.try_get(index)?;
    let state = u8::try_from(code).ok().and_then(RunState::from_code);
    state.ok_or_else(|| Fault::unreadable(row, index))
}

pub(crate) fn step_kind(row: &Row, index: usize) -> Result<StepKind, Fault> {
    let code: i16 = row.try_get(index)?;
    let kind = u8::try_from(code).ok().and_then(StepKind::from_code);
    kind.ok_or_else(|| Fault::unreadable(row, index))
}

/// What [`list`] wrote.
pub(crate) fn items(row: &Row, index: usize) -> Result<Vec<String>, Fault> {
    let Some(text) = row.try_get::<_, Option<&str>>(index)? else { return Ok(Vec::new()) };
    serde_json::from_str(text).map_err(|_| Fault::unreadable(row, index))
}
