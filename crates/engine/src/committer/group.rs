//! Units that are written in one transaction.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{SemaphorePermit, oneshot};
use windlass_core::{NodeId, batch::Origin};
use windlass_store::{StoreError, Unit};

use super::{Committer, Fate, HERE, Lane, Lost, Reply, has_key, queue::Replier};
use crate::Error;

/// The answers to a group, until all are there.
struct Gathering {
    fates: Vec<Option<Fate>>,
    left: usize,
    then: Option<Box<dyn FnOnce(Vec<Fate>) + Send>>,
}

impl Gathering {
    /// Takes one answer. The last one gives all of them back, with whoever waits for them.
    fn take(&mut self, at: usize, fate: Fate) -> Option<impl FnOnce() + use<>> {
        self.fates[at] = Some(fate);
        self.left -= 1;
        if self.left > 0 {
            return None;
        }
        let missing = || Err(Lost::Failed(StoreError::Closed));
        let fates: Vec<Fate> = self.fates.drain(..).map(|fate| fate.unwrap_or_else(missing)).collect();
        let then = self.then.take()?;
        Some(move || then(fates))
    }
}

impl Committer {
    /// Hands in units of several runs that are written in one transaction, or not at all, in the name of a node.
    pub(crate) fn submit_group(
        &self,
        node: NodeId,
        units: Vec<Unit>,
        then: impl FnOnce(Vec<Fate>) + Send + 'static,
    ) {
        let speaks_for = Some(node);
        if self.identity.is(node) {
            return self.push_group(units, speaks_for, Box::new(then));
        }
        // As for a single unit: it could only wait to hear that it is too late.
        then(units.iter().map(|_| Err(Lost::Fenced)).collect());
    }

    /// Writes units in one transaction for a caller, who waits when too many wait already, and for their fates.
    pub(crate) async fn write_group(&self, units: Vec<Unit>) -> Result<Vec<Fate>, Error> {
        let (sender, fates) = oneshot::channel();
        // The semaphore is never closed.
        self.callers.acquire().await.map(SemaphorePermit::forget).ok();
        // A caller who went away does not want to know.
        self.push_group(units, None, Box::new(move |fates| drop(sender.send(fates))));
        fates.await.map_err(|_| Error::Stopped)
    }

    /// The same for items of batches, which are made with numbers in the order in which they are written: that is how a
    /// repeat of one is known, which is written when an answer was lost.
    pub(crate) async fn write_items(
        &self,
        make: impl FnOnce(&mut dyn FnMut() -> Origin) -> Vec<Unit>,
    ) -> Result<Vec<Fate>, Error> {
        let (answer, fates) = oneshot::channel();
        self.callers.acquire().await.map(SemaphorePermit::forget).ok();
        {
            let (sender, sent) = (self.sent.0, &mut *self.sent.1.lock());
            let units = make(&mut || {
                *sent += 1;
                Origin { sender, number: *sent }
            });
            self.push_group(units, None, Box::new(move |fates| drop(answer.send(fates))));
        }
        fates.await.map_err(|_| Error::Stopped)
    }

    fn push_group(
        &self,
        units: Vec<Unit>,
        speaks_for: Option<NodeId>,
        then: Box<dyn FnOnce(Vec<Fate>) + Send>,
    ) {
        let lane = self.lane_of_group(&units);
        let fates = units.iter().map(|_| None).collect();
        let gathering = Gathering { fates, left: units.len(), then: Some(then) };
        let gathering = Arc::new(Mutex::new(gathering));
        let group = units.into_iter().enumerate().map(|(at, unit)| {
            let gathering = Arc::clone(&gathering);
            let reply = Reply::Then(Box::new(move |fate, _| {
                let complete = gathering.lock().take(at, fate);
                if let Some(complete) = complete {
                    complete();
                }
            }));
            // A caller has one turn for all of them.
            let is_caller = at == 0 && speaks_for.is_none();
            (unit, Replier { reply, speaks_for, holder: None, is_caller, is_bound: false })
        });
        match lane.queue.push_all(group.collect()) {
            Ok(true) => {
                HERE.set(false);
                lane.submitted.notify_one();
            }
            Ok(false) => {}
            Err(repliers) => {
                repliers
                    .into_iter()
                    .for_each(|replier| replier.reply.refuse(Lost::Failed(StoreError::Closed)));
            }
        }
    }

    /// The last of several lanes is for groups with keys: nobody but the engine uses those, so they do not wait behind a key
    /// of the user's that a stranger's transaction has taken. Other groups go where their last run's other units go.
    fn lane_of_group(&self, units: &[Unit]) -> &Lane {
        match units.last() {
            Some(own) if !units.iter().any(has_key) => self.lane_of(own),
            _ => &self.lanes[self.lanes.len() - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use tokio::runtime::Handle;
    use windlass_core::RunId;
    use windlass_store::{Act, NewMessage};

    use super::*;
    use crate::identity::Identity;

    fn message(key: Option<&str>) -> Unit {
        let (topic, body, key) = ("paid".to_owned(), "1".into(), key.map(str::to_owned));
        Unit { run: RunId::new(), act: Act::Send(NewMessage { topic, body, key }) }
    }

    #[tokio::test]
    async fn a_key_that_a_stranger_has_taken_holds_up_no_group() {
        let committer = Committer::new(3, Arc::new(Identity::unjoined()), Handle::current());
        let (keyed, plain) = (message(Some("K")), message(None));
        let users = committer.lane_of(&keyed);
        assert!(ptr::eq(committer.lane_of_group(&[message(None), plain.clone()]), committer.lane_of(&plain)));
        assert!(!ptr::eq(committer.lane_of(&plain), users));
        let own = committer.lane_of_group(&[keyed.clone(), plain.clone()]);
        assert!(!ptr::eq(own, users) && !ptr::eq(own, committer.lane_of(&plain)));
        let single = Committer::new(1, Arc::new(Identity::unjoined()), Handle::current());
        assert!(ptr::eq(single.lane_of(&keyed), single.lane_of_group(&[keyed, plain])));
    }
}
