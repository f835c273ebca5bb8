//! A batch that is a transaction by itself, sent from its beginning to its commit in one round trip.

use tokio_postgres::types::ToSql;
use windlass_core::{NodeId, Time};

use super::{
    Batch, LOCK, Letter, Outcome, TELL, beginning,
    kind::PART,
    statements::{
        CHECKED_SAVED, CHECKED_SPREAD, DECLARE, FORGET, GIVEN, KEYS, STARTS, TAGS, TAKE_KEYS, WRITE_ENDS,
        WRITE_STARTS, WRITE_STEPS,
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
        if session.commits_by_statements()
            && let Some(kind) = self.only_kind()
        {
            return self.write_kind(session, node, kind).await;
        }
        let opening = session.opening(node).await?;
        let node = node.map(column::node);
        let (steps, ends, starts, keys) = (&self.steps, &self.known_ends, &self.starts, &self.keys);
        let parents: [&(dyn ToSql + Sync); 1] = [&self.children.parent];
        let locked = Letter::of(session, LOCK, self.children.parent.is_empty(), &parents).await?;
        let rows = steps.written(PART, false);
        let rows = rows.params();
        let steps = Letter::of(session, WRITE_STEPS, steps.run.is_empty(), &rows).await?;
        let rows = self.children.columns();
        let told = Letter::of(session, TELL, self.children.parent.is_empty(), &rows).await?;
        let rows = ends.written(PART, false);
        let rows = rows.params();
        let ended = Letter::of(session, WRITE_ENDS, ends.run.is_empty(), &rows).await?;
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
        let fresh = starts.written(PART, node, false);
        let fresh = fresh.params();
        let fresh = Letter::of(session, WRITE_STARTS, !is_fresh || starts.id.is_empty(), &fresh).await?;
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
            spread,
            ended,
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
            spread.rows(),
            ended.rows(),
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
        for written in [locked, steps, told, spread, ended, saved, taken] {
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
