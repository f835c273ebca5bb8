//! What has come of the doings of somebody else.

use windlass_core::RunId;

/// What has come of the doings of somebody else, so that others need not look for everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Whether a run may be ready that was not, or due sooner.
    pub runs: bool,
    /// Whether attempts were published, freed or taken back.
    pub tasks: bool,
    /// Runs that were sent something.
    pub mail: Vec<RunId>,
    /// Runs that ended.
    pub ended: Vec<RunId>,
}

impl News {
    /// That runs may be ready.
    #[must_use]
    pub fn of_runs() -> Self {
        Self { runs: true, ..Self::default() }
    }

    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Notes that a run was sent something. It may have waited for that.
    pub fn sent_to(&mut self, run: RunId) {
        self.runs = true;
        // Many things that are sent in one transaction are mostly for one run.
        if self.mail.last() != Some(&run) {
            self.mail.push(run);
        }
    }

    /// Notes that the outcome of a published attempt came to a run.
    pub fn outcome_of(&mut self, run: RunId) {
        self.tasks = true;
        self.sent_to(run);
    }

    /// Adds what somebody else did, or the same later.
    pub fn add(&mut self, other: &Self) {
        self.runs |= other.runs;
        self.tasks |= other.tasks;
        let is_known = self.mail.last().is_some_and(|last| other.mail.first() == Some(last));
        self.mail.extend(&other.mail[usize::from(is_known)..]);
        self.ended.extend(&other.ended);
    }
}
