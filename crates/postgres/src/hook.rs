//! What tests want of every commit.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use windlass_store::CommitMoment;

/// What is to be called around commits, if anything.
#[derive(Clone, Default)]
pub(crate) struct Hook {
    call: Option<Arc<dyn Fn(CommitMoment) + Send + Sync>>,
    commits: Arc<AtomicU64>,
    /// Whether no batch is one statement.
    pub(crate) in_parts: bool,
}

impl Hook {
    /// Calls this around commits.
    pub(crate) fn set(&mut self, call: impl Fn(CommitMoment) + Send + Sync + 'static) {
        self.call = Some(Arc::new(call));
    }

    /// Makes a commit, and tells of it.
    pub(crate) async fn around<T, E>(&self, commit: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let Some(call) = &self.call else { return commit.await };
        let number = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        call(CommitMoment::Before(number));
        let committed = commit.await?;
        call(CommitMoment::After(number));
        Ok(committed)
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hook").field(&self.call.is_some()).finish()
    }
}
