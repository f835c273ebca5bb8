//! Attempts that any node may execute.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use windlass_core::{ClaimId, NodeId, RunId, Time};

use super::state::State;
use crate::{
    DefinitionId, NewMessage, NewSpread, OUTCOME, Reach, SpreadClaim, SpreadClaimed, SpreadKey, SpreadRow,
    StoreError, Written, lane,
};

impl State {
    pub(super) fn publish(&mut self, run: RunId, definition: DefinitionId, tasks: &[NewSpread]) {
        let at = self.now;
        let queue_key = self.runs[&run].image.run.queue_key.clone();
        let lane: Arc<str> = lane(queue_key.as_deref()).into();
        for NewSpread { queue, .. } in tasks.iter().filter(|_| queue_key.is_some()) {
            self.queues.entry(queue.clone()).or_default();
        }
        for NewSpread { key, queue } in tasks {
            if self.has_outcome(run, key) {
                continue;
            }
            let image = &mut self.kept(run).image;
            match image.published.binary_search_by(|row| row.key.cmp(key)) {
                Ok(place) => image.published[place].definition = definition,
                Err(place) => image.published.insert(
                    place,
                    SpreadRow {
                        run,
                        key: key.clone(),
                        generation: image.standing.generation,
                        workflow: image.run.workflow.clone(),
                        definition,
                        queue: queue.clone(),
                        lane: Arc::clone(&lane),
                        priority: image.run.priority,
                        at,
                        deaths: 0,
                        holder: None,
                    },
                ),
            }
        }
        self.changed = true;
    }

    pub(super) fn withdraw(&mut self, run: RunId, tasks: &[SpreadKey], reach: Reach) -> Written {
        self.kept(run).image.published.retain(|row| {
            let stays = row.holder.is_some() && reach == Reach::Unclaimed;
            stays || !tasks.contains(&row.key)
        });
        self.changed = true;
        let published = &self.runs[&run].image.published;
        let is_out =
            |task: &&SpreadKey| published.iter().any(|row| row.key == **task) || self.has_outcome(run, task);
        Written::Withdrawn { at: self.now, out: tasks.iter().filter(is_out).cloned().collect() }
    }

    pub(super) fn deliver(
        &mut self,
        node: Option<NodeId>,
        run: RunId,
        claim: ClaimId,
        task: &SpreadKey,
        outcome: &Bytes,
    ) -> Written {
        let Some(generation) = self.holds_task(node, run, claim, task) else { return Written::TooLate };
        let image = &mut self.kept(run).image;
        image.published.retain(|row| row.key != *task);
        let key = Some(task.message_key(generation));
        let message = NewMessage { topic: OUTCOME.into(), body: outcome.clone(), key };
        self.send(run, &message).expect("a run with published attempts has not ended");
        Written::Done { at: self.now }
    }

    pub(super) fn save_spread(
        &mut self,
        node: Option<NodeId>,
        run: RunId,
        claim: ClaimId,
        task: &SpreadKey,
        value: &Bytes,
    ) -> Written {
        if self.holds_task(node, run, claim, task).is_none() {
            return Written::TooLate;
        }
        self.kept(run).save(&task.step, value);
        Written::Done { at: self.now }
    }

    /// The generation of an attempt that a node holds under a claim.
    fn holds_task(&self, node: Option<NodeId>, run: RunId, claim: ClaimId, task: &SpreadKey) -> Option<u32> {
        let published = &self.runs.get(&run)?.image.published;
        let row = published.iter().find(|row| row.key == *task)?;
        (row.holder == Some((node?, claim))).then_some(row.generation)
    }

    fn has_outcome(&self, run: RunId, task: &SpreadKey) -> bool {
        let kept = &self.runs[&run];
        let key = task.message_key(kept.image.standing.generation);
        kept.messages.contains_key(&(OUTCOME.to_owned(), key))
    }

    pub(super) fn claim_tasks(&mut self, request: &SpreadClaim) -> Result<SpreadClaimed, StoreError> {
        self.fence(request.node)?;
        let holder = Some((request.node, request.claim));
        let mut tasks = self.tasks_where(|row| row.holder == holder);
        if tasks.is_empty() {
            let streams = self.tasks_on_offer(request, request.room).0;
            tasks = request.choose(streams, |row| self.urgency(&row.queue, row.waiter()));
            self.note_tasks(request.node, &tasks);
            for row in &mut tasks {
                row.holder = holder;
                self.hold_task(row, holder, 0);
            }
            tasks.sort_by(SpreadRow::by_urgency);
        }
        let (left, next) = self.tasks_on_offer(request, 1);
        let more = request.room > 0 && left.iter().any(|stream| !stream.is_empty());
        let limited = request.queues.iter().any(|(queue, _)| self.queues.contains_key(queue));
        Ok(SpreadClaimed { now: self.now, tasks, more, next, limited })
    }

    /// What a request with so much room might get: one stream for all queues that were not declared, and one for each that
    /// was, and when the rate of one lets the next be taken.
    fn tasks_on_offer(&self, request: &SpreadClaim, room: usize) -> (Vec<VecDeque<SpreadRow>>, Option<Time>) {
        let is_plain = |row: &SpreadRow| !self.queues.contains_key(&row.queue);
        let mut streams = vec![self.claimable_tasks(request).into_iter().filter(is_plain).collect()];
        let mut next = None;
        for (queue, limit) in request.queues.iter().filter(|(queue, _)| self.queues.contains_key(queue)) {
            let (turn, when) = self.task_turn(request, queue, room.min(*limit).min(request.room));
            streams.push(turn);
            next = next.into_iter().chain(when).min();
        }
        (streams, next)
    }

    pub(super) fn held_tasks(&self, node: NodeId) -> Vec<SpreadRow> {
        self.tasks_where(|row| row.holder.is_some_and(|(holder, _)| holder == node))
    }

    /// Frees some of the attempts of a node.
    pub(super) fn free_tasks(&mut self, node: NodeId, limit: usize, deaths: u32) -> usize {
        let held: Vec<_> = self.held_tasks(node).into_iter().take(limit).collect();
        for row in &held {
            self.hold_task(row, None, deaths);
        }
        self.changed |= !held.is_empty();
        held.len()
    }

    pub(super) fn claimable_tasks(&self, request: &SpreadClaim) -> Vec<SpreadRow> {
        self.tasks_where(|row| row.holder.is_none() && request.is_for(row))
    }

    /// The published attempts for which `wanted` holds, by urgency.
    pub(super) fn tasks_where(&self, wanted: impl Fn(&SpreadRow) -> bool) -> Vec<SpreadRow> {
        let published = self.open.iter().flat_map(|run| &self.runs[run].image.published);
        let mut tasks: Vec<_> = published.filter(|row| wanted(row)).cloned().collect();
        tasks.sort_by(SpreadRow::by_urgency);
        tasks
    }

    fn hold_task(&mut self, task: &SpreadRow, holder: Option<(NodeId, ClaimId)>, deaths: u32) {
        let published = &mut self.kept(task.run).image.published;
        for row in published.iter_mut().filter(|row| row.key == task.key) {
            row.holder = holder;
            row.deaths += deaths;
        }
    }
}
