//! What a batch writes of one kind: a part of a transaction, or all of it.

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;
use windlass_core::{ClaimId, NodeId, RunId, Time};

use super::{
    Batch, Begun, KnownEnds, Outcome, Starts, Steps,
    statements::{WRITE_END, WRITE_ENDS, WRITE_START, WRITE_STARTS, WRITE_STEP, WRITE_STEPS},
};
use crate::{column, error::Fault, session::Session};

/// What a batch may be all of.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Steps,
    Ends,
    Starts,
}

/// What makes a statement a transaction by itself: its fence, and rows of `holding` that go with it.
#[derive(Clone, Copy)]
pub(super) struct Own<'b> {
    share: Option<i64>,
    node: Option<Uuid>,
    empty: Option<&'b [i64]>,
}

/// A part of a transaction that has begun.
pub(super) const PART: Own<'static> = Own { share: None, node: None, empty: None };

/// What a statement is given.
pub(super) struct Values<'p> {
    values: Vec<Box<dyn ToSql + Sync + Send + 'p>>,
    /// Whether each list is of one, and given as what it has.
    is_one: bool,
}

impl<'p> Values<'p> {
    fn of(own: Own<'p>, is_one: bool) -> Self {
        Self { values: vec![Box::new(own.share), Box::new(own.node), Box::new(own.empty)], is_one }
    }

    fn with(mut self, value: impl ToSql + Sync + Send + 'p) -> Self {
        self.values.push(Box::new(value));
        self
    }

    fn with_list<T: ToSql + Sync + Send>(self, list: &'p [T]) -> Self {
        if self.is_one { self.with(list.first()) } else { self.with(list) }
    }

    /// A list of which one stands for all, if all are the same.
    fn with_alike<T: ToSql + Sync + Send + PartialEq>(self, list: &'p [T]) -> Self {
        let is_alike =
            list.split_first().is_some_and(|(first, rest)| rest.iter().all(|other| other == first));
        self.with_list(if is_alike { &list[..1] } else { list })
    }

    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
    }
}

impl Batch<'_> {
    /// The kind of all that there is to write, if it is one that needs nothing beside it.
    pub(super) fn only_kind(&self) -> Option<Kind> {
        let Self { steps, known_ends, starts, keys, given, children, .. } = self;
        let needs_more = [
            children.parent.is_empty(),
            known_ends.left.is_empty(),
            keys.run.is_empty(),
            starts.declared.run.is_empty(),
            starts.tag.is_empty(),
            given.run.is_empty(),
        ]
        .contains(&false);
        match (!steps.run.is_empty(), !known_ends.run.is_empty(), !starts.id.is_empty()) {
            _ if needs_more => None,
            (true, false, false) => Some(Kind::Steps),
            (false, true, false) => Some(Kind::Ends),
            (false, false, true) => Some(Kind::Starts),
            _ => None,
        }
    }

    /// Writes all of it with one statement, which is sent and answered in one message.
    pub(super) async fn write_kind(
        &self,
        session: &Session,
        node: Option<NodeId>,
        kind: Kind,
    ) -> Result<(Time, Outcome), Fault> {
        let share = node.map(|node| session.lock_of(node.as_bytes()));
        let node = node.map(column::node);
        let empty = (!self.empty.is_empty()).then_some(&*self.empty);
        let own = Own { share, node, empty };
        let is_one = self.steps.run.len() + self.known_ends.run.len() + self.starts.id.len() == 1;
        let (sql, values) = match kind {
            Kind::Steps if is_one => (WRITE_STEP, self.steps.written(own, true)),
            Kind::Steps => (WRITE_STEPS, self.steps.written(own, false)),
            Kind::Ends if is_one => (WRITE_END, self.known_ends.written(own, true)),
            Kind::Ends => (WRITE_ENDS, self.known_ends.written(own, false)),
            Kind::Starts if is_one => (WRITE_START, self.starts.written(own, node, true)),
            Kind::Starts => (WRITE_STARTS, self.starts.written(own, node, false)),
        };
        let row = session.commit_by(sql, &values.params()).await?;
        let begun = match kind {
            Kind::Starts => self.starts.begun(&row)?,
            Kind::Steps | Kind::Ends => Vec::new(),
        };
        let (keys, sent, delivered) = Default::default();
        Ok((column::time(&row, 0)?, Outcome { standings: None, begun, keys, sent, delivered }))
    }
}

impl Steps<'_> {
    /// For [`WRITE_STEPS`], or for [`WRITE_STEP`] if it is one.
    pub(super) fn written<'p>(&'p self, own: Own<'p>, is_one: bool) -> Values<'p> {
        Values::of(own, is_one)
            .with_list(&self.run)
            .with_alike(&self.generation)
            .with_alike(&self.name)
            .with_alike(&self.attempt)
            .with_alike(&self.started_in)
            .with_alike(&self.epoch)
            .with_alike(&self.kind)
            .with_list(&self.started_at)
            .with_list(&self.ended_at)
            .with_alike(&self.output)
            .with_alike(&self.detail)
    }
}

impl KnownEnds<'_> {
    /// For [`WRITE_ENDS`], or for [`WRITE_END`] if it is one.
    pub(super) fn written<'p>(&'p self, own: Own<'p>, is_one: bool) -> Values<'p> {
        Values::of(own, is_one)
            .with_alike(&self.workflow)
            .with_list(&self.run)
            .with_alike(&self.generation)
            .with_alike(&self.state)
            .with_alike(&self.claim)
            .with_alike(&self.definition)
            .with_alike(&self.output)
            .with_alike(&self.failure)
            .with_alike(&self.step_name)
            .with_alike(&self.step_attempt)
            .with_alike(&self.step_epoch)
            .with_list(&self.step_started_at)
            .with_list(&self.step_ended_at)
            .with_alike(&self.step_output)
    }
}

impl Starts<'_> {
    /// For [`WRITE_STARTS`], or for [`WRITE_START`] if it is one; `holder` is the node that some of them may be held by.
    pub(super) fn written<'p>(&'p self, own: Own<'p>, holder: Option<Uuid>, is_one: bool) -> Values<'p> {
        Values::of(own, is_one)
            .with(holder)
            .with_list(&self.id)
            .with_alike(&self.workflow)
            .with_alike(&self.queue)
            .with_alike(&self.priority)
            .with_alike(&self.delay)
            .with_alike(&self.timeout)
            .with_alike(&self.input)
            .with_alike(&self.context)
            .with_alike(&self.tags)
            .with_alike(&self.forked_from)
            .with_alike(&self.trace)
            .with_list(&self.parent)
            .with_list(&self.parent_topic)
            .with_list(&self.queue_key)
            .with_alike(&self.claim)
            .with_alike(&self.definition)
            .with_alike(&self.line)
            .with_list(&self.line_queue)
            .with_list(&self.line_workflow)
    }

    /// How they began, from the answer to [`WRITE_STARTS`].
    pub(super) fn begun(&self, row: &Row) -> Result<Vec<Begun>, Fault> {
        let (busy, no): (Vec<i32>, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
        let begun = self.id.iter().zip(&self.claim).zip(&self.line).map(|((id, claim), line)| {
            let claim = claim.filter(|_| !busy.contains(line)).map(|claim| ClaimId(claim.cast_unsigned()));
            Begun { run: RunId::from_bytes(id.into_bytes()), held: claim.zip(no) }
        });
        Ok(begun.collect())
    }
}
