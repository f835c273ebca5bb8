//! Tells a crash test of every commit.

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
}

impl Hook {
    pub(crate) fn new(call: impl Fn(CommitMoment) + Send + Sync + 'static) -> Self {
        Self { call: Some(Arc::new(call)), commits: Arc::default() }
    }

    /// Makes a commit, and tells of it.
    pub(crate) async fn around<E>(&self, commit: impl Future<Output = Result<(), E>>) -> Result<(), E> {
        let Some(call) = &self.call else { return commit.await };
        let number = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        call(CommitMoment::Before(number));
        commit.await?;
        call(CommitMoment::After(number));
        Ok(())
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hook").field(&self.call.is_some()).finish()
    }
}
