//! What is the engine's own.

use windlass_core::RunId;

use crate::Error;

/// What the names of the engine's own workflows begin with. Their runs are no business of the user's: they are not
/// listed, and nobody starts them by name.
pub(crate) const RESERVED: &str = "windlass.";

/// The place in an id, and what is there when the run is the engine's own.
const MARK: (usize, [u8; 2]) = (9, [0x57, 0x4c]);

/// Whether a workflow of this name is the engine's own.
pub(crate) fn is_reserved(workflow: &str) -> bool {
    workflow.starts_with(RESERVED)
}

/// A fresh id for a run of the engine's own.
#[cfg(feature = "schedule")]
pub(crate) fn own_id() -> RunId {
    let (mut bytes, (place, mark)) = (*RunId::new().as_bytes(), MARK);
    bytes[place..place + mark.len()].copy_from_slice(&mark);
    RunId::from_bytes(bytes)
}

/// Whether a run may be the engine's own, by its id. One of many thousand others looks so too: then its workflow says it.
/// So nobody who steers runs has to load them first.
pub(crate) fn may_be_own(run: RunId) -> bool {
    let (place, mark) = MARK;
    run.as_bytes()[place..place + mark.len()] == mark
}

/// Refuses to steer a run of the engine's own by its id, and says what to use instead.
pub(crate) fn refuse_steering(run: RunId, workflow: &str, key: Option<&str>) -> Result<(), Error> {
    let Some(own) = workflow.strip_prefix(RESERVED) else { return Ok(()) };
    let name = key.unwrap_or_default();
    let instead = match own.strip_prefix("trigger.") {
        Some(name) => format!("it keeps trigger `{name}`; use `triggers().get(\"{name}\")`"),
        None if own == "batch" => format!("it keeps batch `{name}`; use `batches().get(\"{name}\")`"),
        None => format!("it keeps schedule `{name}`; use `schedules().get(\"{name}\")`"),
    };
    Err(Error::Invalid(format!("run {run} is the engine's own: {instead}")))
}

/// Why nothing may be said of a queue of this name, or put into it, if so: the engine's own runs have one.
pub(crate) fn wrong_queue(queue: &str) -> Option<String> {
    match queue {
        "" => Some("a queue needs a name".to_owned()),
        "windlass" => Some(format!("the queue `{queue}` is the engine's own: choose another name")),
        _ => None,
    }
}
