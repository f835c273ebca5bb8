//! Code that cannot be stopped, counted.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// How many there are of something that nobody can stop.
#[derive(Debug, Default)]
pub(crate) struct Busy(Arc<AtomicUsize>);

impl Busy {
    /// Counts one more, until it is dropped.
    pub(crate) fn token(&self) -> Token {
        self.0.fetch_add(1, Ordering::Relaxed);
        Token(Arc::clone(&self.0))
    }

    /// Whether there is none. What they did before they were dropped is seen after this.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Token(Arc<AtomicUsize>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_empty_when_the_last_one_is_gone() {
        let busy = Busy::default();
        assert!(busy.is_empty());
        let (one, other) = (busy.token(), busy.token());
        drop(one);
        assert!(!busy.is_empty());
        drop(other);
        assert!(busy.is_empty());
    }
}
