//! The record of a step that goes along in a transaction of the application's.

use windlass_core::{ClaimId, NodeId, RunId};

use crate::StepRow;

/// The record of a step, to be written in the transaction that holds what the step itself wrote.
#[derive(Clone, Debug)]
pub struct Along {
    /// The node that acts.
    pub node: NodeId,
    /// The run.
    pub run: RunId,
    /// The claim that the node holds it under.
    pub claim: ClaimId,
    /// The record.
    pub step: StepRow,
}

/// What became of a transaction that took a record along. Whatever it wrote shares the fate of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is committed.
    Committed,
    /// It is rolled back, because of another transaction or a lost connection. Done again, it may go well.
    Again(String),
    /// It is rolled back, because of what it wrote.
    RolledBack(String),
    /// It is rolled back: the node does not hold the run under that claim any more, the run has ended, or the record was
    /// there already.
    NotYours,
    /// Its commit was sent and not answered. It has to be asked about before anything is done again.
    Unknown(String),
}
