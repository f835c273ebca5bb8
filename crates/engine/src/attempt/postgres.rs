//! Executing one attempt of a task with a transaction on PostgreSQL.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tracing::Instrument;
use windlass_core::Failure;
use windlass_postgres::{Isolation, Postgres, Transaction};
use windlass_store::{Along, Fate, Refusal, StoreError};

use super::{Guarded, Held, Job, within};
use crate::{Call, Cx, Done, OnPostgres, committer::Lost, node::Node};

/// How many times a transaction is done again at once because of another one, or of a lost connection, before it is a
/// failed attempt.
pub(crate) const AGAIN: u32 = 5;

/// How long to wait before the server is asked again, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// What became of a body.
enum Executed {
    /// It has a result, and its transaction is open.
    Done(Done, Box<Transaction>),
    /// Its transaction is rolled back, and may go well when it is done again.
    Again(Failure),
}

impl Job {
    /// Goes through the whole attempt: the body, then the commit of what it wrote together with its record.
    pub(super) async fn transact(mut self, isolation: Isolation, body: OnPostgres, call: Call) {
        let Some(held) = self.take_slot().await else { return };
        let mut held = match held {
            Ok(held) => held,
            Err(failure) => return self.report(Err(failure)),
        };
        for left in (0..=AGAIN).rev() {
            let executed = Box::pin(self.execute(isolation, &body, &call));
            let why = match within(executed, self.host.node(), &self.cx).await {
                Err(failure) => {
                    drop(held);
                    return self.report(Err(failure));
                }
                Ok(Executed::Again(failure)) => failure,
                Ok(Executed::Done(done, transaction)) => {
                    // Nobody can stop this any more: what is committed has happened, whatever comes meanwhile.
                    let commit = self.commit(done, *transaction, held).in_current_span();
                    let Ok(Some((job, seat, why))) = tokio::spawn(commit).await else { return };
                    (self, held) = (job, seat);
                    why
                }
            };
            tracing::debug!(run = %self.cx.run_id(), step = %self.cx.step(), left, %why, "the transaction is done again");
            if left == 0 {
                drop(held);
                return self.report(Err(why));
            }
            if self.cx.is_cancelled() || !self.host.node().may_act(self.host.subject().holder) {
                // Dropped, it says that it was cut off.
                return;
            }
        }
    }

    /// Runs the body in a transaction.
    async fn execute(
        &self,
        isolation: Isolation,
        body: &OnPostgres,
        call: &Call,
    ) -> Result<Executed, Failure> {
        let transaction = Arc::new(begin(self.host.node(), &self.cx, isolation).await?);
        let outcome = match Guarded::new(|| body(call.clone(), Arc::clone(&transaction))) {
            Ok(running) => running.await,
            Err(failure) => Err(failure),
        };
        let transaction = Arc::into_inner(transaction).ok_or_else(|| {
            Failure::permanent("the body has returned, and its transaction is still in use")
        })?;
        match outcome {
            Ok(done) => Ok(Executed::Done(done, Box::new(transaction))),
            Err(failure) if transaction.may_go_well_again() => Ok(Executed::Again(failure)),
            Err(failure) => Err(transaction.hung().map_or(failure, Failure::new)),
        }
    }

    /// Commits what the body wrote together with its record, and says so. Gives the attempt back, with the reason, when
    /// nothing was committed and it may go well again.
    async fn commit(
        mut self,
        done: Done,
        transaction: Transaction,
        mut held: Held,
    ) -> Option<(Self, Held, Failure)> {
        // Its code has ended in time.
        held._watched = None;
        let (along, record) = match self.home().record(&self.cx, self.lane, &done, self.started_at()) {
            Ok(both) => both,
            Err(failure) => {
                self.report(Err(failure));
                return None;
            }
        };
        self.committing = true;
        let fate = settle(self.host.node(), transaction, along).await;
        self.committing = false;
        let uncommitted = |why| Failure::new(format!("its transaction could not be committed: {why}"));
        if let Ok(Fate::Again(why)) = fate {
            return Some((self, held, uncommitted(why).transient()));
        }
        // First the slot, then the word: what follows may need it.
        drop(held);
        match fate {
            Ok(Fate::Committed) => self.report_recorded(done, record),
            Ok(Fate::RolledBack(why) | Fate::Again(why)) => self.report(Err(uncommitted(why))),
            Ok(Fate::Unknown(why)) => self.lose(Lost::Failed(StoreError::Unavailable(why))),
            Ok(Fate::NotYours) => self.lose(Lost::Refused(Refusal::NotYours)),
            Err(StoreError::Fenced) => self.lose(Lost::Fenced),
            Err(error) => self.lose(Lost::Failed(error)),
        }
        None
    }
}

/// Begins a transaction, however long the server is out of reach.
pub(crate) async fn begin(node: &Node, cx: &Cx, isolation: Isolation) -> Result<Transaction, Failure> {
    let postgres =
        postgres(node).ok_or_else(|| Failure::permanent("the engine's store is not on PostgreSQL"))?;
    let (mut pause, most) = PAUSES;
    loop {
        match postgres.begin(isolation).await {
            Ok(transaction) => return Ok(transaction),
            Err(error) if error.is_temporary() => {
                tracing::warn!(step = %cx.step(), %error, "no transaction can begin; trying again");
                sleep(pause).await;
                pause = (pause * 2).min(most);
            }
            Err(error) => return Err(Failure::new(error.to_string())),
        }
    }
}

fn postgres(node: &Node) -> Option<&Postgres> {
    node.hub.store.itself().and_then(|store| store.downcast_ref())
}

/// Commits. When the answer is lost, finds out what became of it, for as long as this node has its lease.
pub(crate) async fn settle(node: &Node, transaction: Transaction, along: Along) -> Result<Fate, StoreError> {
    let holder = along.node;
    let mut fate = transaction.settle(along.clone()).await;
    let (mut pause, most) = PAUSES;
    loop {
        let why = match fate {
            Ok(Fate::Unknown(why)) => why,
            Err(error) if error.is_temporary() => error.to_string(),
            known => return known,
        };
        tracing::warn!(run = %along.run, step = %along.step.name, why, "finding out whether a commit arrived");
        tokio::select! {
            () = sleep(pause) => {}
            () = node.hub.identity.lost(Some(holder)) => return Err(StoreError::Fenced),
            () = node.hub.closed.cancelled() => return Err(StoreError::Closed),
        }
        pause = (pause * 2).min(most);
        fate = match postgres(node) {
            Some(postgres) => postgres.fate(along.clone()).await,
            None => Err(StoreError::Broken("the engine's store is not on PostgreSQL".to_owned())),
        };
    }
}
