//! Names that are the engine's own.

/// What the names of the engine's own workflows begin with. Their runs are no business of the user's: they are not
/// listed, and nobody starts them by name.
pub(crate) const RESERVED: &str = "windlass.";

/// Whether a workflow of this name is the engine's own.
pub(crate) fn is_reserved(workflow: &str) -> bool {
    workflow.starts_with(RESERVED)
}
