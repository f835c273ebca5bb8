//! A batch that is a transaction by itself, sent from its beginning to its commit in one round trip.

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::{ClaimId, NodeId, RunId, Time};

use super::{
    Batch, Begun, LOCK, Letter, Outcome, TELL, beginning,
    statements::{
        CHECKED_INBOX, CHECKED_SAVED, CHECKED_SPREAD, CHECKED_STEPS, DECLARE, FORGET, FRESH, GIVEN, KEYS,
        KNOWN_ENDS, STARTS, TAGS, TAKE_KEYS,
    },
};
use crate::{column, error::Fault, session::Session};

impl Batch<'_> {
    /// Writes it all if everything is as it should be, and nothing else. Answers the time of the transaction.
    ///
    /// Everything is sent before the first answer is there, in this order; so all of it is prepared before. When
    /// anything fails, the server rolls back what it is then told to commit.
    pub(crate) async fn write_alone(
        &self,
        session: &Session,
        node: Option<NodeId>,
    ) -> Result<(Time, Outcome), Fault> {
        let opening = session.opening(node).await?;
        let node = node.map(column::node);
        let (steps, ends, starts, keys) = (&self.steps, &self.known_ends, &self.starts, &self.keys);
        let parents: [&(dyn ToSql + Sync); 1] = [&self.children.parent];
        let locked = Letter::of(session, LOCK, self.children.parent.is_empty(), &parents).await?;
        let rows = steps.columns();
        let steps = Letter::of(session, CHECKED_STEPS, steps.run.is_empty(), &rows).await?;
        let rows = self.children.columns();
        let told = Letter::of(session, TELL, self.children.parent.is_empty(), &rows).await?;
        let rows = ends.columns();
        let ended = Letter::of(session, KNOWN_ENDS, ends.run.is_empty(), &rows).await?;
        let gone: [&(dyn ToSql + Sync); 1] = [&ends.run];
        let inbox = Letter::of(session, CHECKED_INBOX, ends.run.is_empty(), &gone).await?;
        let left: [&(dyn ToSql + Sync); 1] = [&ends.left];
        let spread = Letter::of(session, CHECKED_SPREAD, ends.left.is_empty(), &left).await?;
        let saved = Letter::of(session, CHECKED_SAVED, ends.left.is_empty(), &left).await?;
        let taken = keys.taken();
        let taken = Letter::of(session, TAKE_KEYS, keys.run.is_empty(), &taken).await?;
        let kept = keys.kept();
        let kept = Letter::of(session, KEYS, keys.run.is_empty(), &kept).await?;
        let declared = starts.declared.columns();
        let declared = Letter::of(session, DECLARE, starts.declared.run.is_empty(), &declared).await?;
        let is_fresh = keys.run.is_empty();
        let fresh = starts.fresh_columns(&node);
        let fresh = Letter::of(session, FRESH, !is_fresh || starts.id.is_empty(), &fresh).await?;
        let new = starts.columns(&node);
        let begun = Letter::of(session, STARTS, is_fresh || starts.id.is_empty(), &new).await?;
        let tags = starts.tagged();
        let tags = Letter::of(session, TAGS, starts.tag.is_empty(), &tags).await?;
        let given = self.given.columns();
        let given = Letter::of(session, GIVEN, self.given.run.is_empty(), &given).await?;
        let forgotten: [&(dyn ToSql + Sync); 1] = [&self.empty];
        let forgotten = Letter::of(session, FORGET, self.empty.is_empty(), &forgotten).await?;

        let (
            now,
            locked,
            steps,
            told,
            ended,
            spread,
            inbox,
            saved,
            taken,
            kept,
            declared,
            fresh,
            begun,
            tags,
            given,
            forgotten,
            closed,
        ) = tokio::join!(
            opening.send(),
            locked.rows(),
            steps.rows(),
            told.rows(),
            ended.rows(),
            spread.rows(),
            inbox.rows(),
            saved.rows(),
            taken.rows(),
            kept.rows(),
            declared.rows(),
            fresh.rows(),
            begun.rows(),
            tags.rows(),
            given.rows(),
            forgotten.rows(),
            session.commit(),
        );
        // The first that failed is to blame for the others.
        let now = now?;
        for written in [locked, steps, told, ended, spread, inbox, saved, taken] {
            written?;
        }
        let keys = keys.facts(&kept?)?;
        declared?;
        let mut all = match fresh?.first() {
            Some(row) => starts.begun(row)?,
            None => Vec::new(),
        };
        for row in begun? {
            all.push(beginning(&row)?);
        }
        for written in [tags, given, forgotten] {
            written?;
        }
        closed?;
        let (sent, delivered) = Default::default();
        Ok((now, Outcome { standings: None, begun: all, keys, sent, delivered }))
    }
}

impl super::KnownEnds<'_> {
    fn columns(&self) -> [&(dyn ToSql + Sync); 14] {
        [
            &self.workflow,
            &self.run,
            &self.generation,
            &self.state,
            &self.claim,
            &self.definition,
            &self.output,
            &self.failure,
            &self.step_name,
            &self.step_attempt,
            &self.step_epoch,
            &self.step_started_at,
            &self.step_ended_at,
            &self.step_output,
        ]
    }
}

impl super::Starts<'_> {
    fn fresh_columns<'p>(&'p self, node: &'p Option<Uuid>) -> [&'p (dyn ToSql + Sync); 20] {
        [
            &self.id,
            &self.workflow,
            &self.queue,
            &self.priority,
            &self.delay,
            &self.timeout,
            &self.input,
            &self.context,
            &self.tags,
            &self.forked_from,
            &self.trace,
            &self.claim,
            &self.definition,
            &self.line,
            &self.line_queue,
            &self.line_workflow,
            node,
            &self.parent,
            &self.parent_topic,
            &self.queue_key,
        ]
    }

    /// How they began, from the answer to [`FRESH`].
    fn begun(&self, row: &Row) -> Result<Vec<Begun>, Fault> {
        let (busy, no): (Vec<i32>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        let begun = self.id.iter().zip(&self.claim).zip(&self.line).map(|((id, claim), line)| {
            let claim = claim.filter(|_| !busy.contains(line)).map(|claim| ClaimId(claim.cast_unsigned()));
            Begun { run: RunId::from_bytes(id.into_bytes()), held: claim.zip(no) }
        });
        Ok(begun.collect())
    }
}
