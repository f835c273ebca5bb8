//! What a store on a database tells a crash test of its commits.

/// A moment of a commit. Transactions are numbered from 1 since the opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitMoment {
    /// Everything of the transaction with this number is asked for, and nothing is committed.
    Before(u64),
    /// The transaction with this number is committed, and nobody has been answered.
    After(u64),
}
