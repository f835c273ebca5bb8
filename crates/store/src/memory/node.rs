//! Joining, living, dying.

use std::collections::BTreeMap;

use windlass_core::{NodeId, RunId};

use super::state::State;
use crate::{Death, Heartbeat, InboxRow, Joined, NewNode, NodeRow, Pulse, StoreError, Swept};

impl State {
    /// Refuses a node that may change nothing.
    pub(super) fn fence(&self, node: NodeId) -> Result<(), StoreError> {
        if self.nodes.get(&node).is_some_and(|row| !row.dead) { Ok(()) } else { Err(StoreError::Fenced) }
    }

    pub(super) fn join(&mut self, node: NewNode) -> Result<Joined, StoreError> {
        if self.nodes.contains_key(&node.id) {
            self.fence(node.id)?;
            self.row(node.id).heartbeat_at = self.now;
            return Ok(Joined { now: self.now, fenced: Vec::new() });
        }
        let namesakes = self.nodes.values_mut().filter(|row| !row.dead && row.name == node.name);
        let fenced = match node.name {
            Some(_) => namesakes.map(|row| (row.dead = true, row.id).1).collect(),
            None => Vec::new(),
        };
        let row = NodeRow {
            id: node.id,
            name: node.name,
            pid: std::process::id(),
            host: "memory".into(),
            version: node.version,
            queues: node.queues,
            started_at: self.now,
            heartbeat_at: self.now,
            stale_after: node.stale_after,
            dead: false,
            running: 0,
            ended: BTreeMap::new(),
        };
        self.nodes.insert(row.id, row);
        Ok(Joined { now: self.now, fenced })
    }

    pub(super) fn heartbeat(&mut self, node: NodeId, pulse: Pulse) -> Result<Heartbeat, StoreError> {
        self.fence(node)?;
        let now = self.now;
        let row = self.row(node);
        row.heartbeat_at = now;
        row.running = pulse.running;
        row.ended = pulse.ended;

        let others: Vec<_> = self.nodes.values().filter(|row| row.id != node).cloned().collect();
        let gone = others.iter().filter(|row| !row.dead && self.gone.contains(&row.id)).map(|row| row.id);
        Ok(Heartbeat {
            now,
            gone: gone.collect(),
            others,
            inbox: self.inbox(node, None),
            strangers: Vec::new(),
        })
    }

    pub(super) fn inbox(&self, node: NodeId, only: Option<&[RunId]>) -> Vec<InboxRow> {
        let asked = self.open.iter().filter(|run| only.is_none_or(|only| only.contains(run)));
        let held = asked.map(|run| &self.runs[run]).filter(|kept| kept.is_held_by(node));
        let mut inbox: Vec<_> = held.flat_map(|kept| kept.image.inbox.iter().cloned()).collect();
        inbox.sort_by_key(|row| row.seq);
        inbox
    }

    pub(super) fn leave(&mut self, node: NodeId) -> Result<(), StoreError> {
        self.fence(node)?;
        for run in self.open_where(|kept| kept.is_held_by(node)) {
            self.make_ready(run);
        }
        self.free_tasks(node, usize::MAX, 0);
        self.nodes.remove(&node);
        Ok(())
    }

    pub(super) fn declare_dead(
        &mut self,
        judge: NodeId,
        condemned: NodeId,
        why: Death,
    ) -> Result<bool, StoreError> {
        self.fence(judge)?;
        let (now, gone) = (self.now, self.gone.contains(&condemned));
        let Some(row) = self.nodes.get_mut(&condemned) else { return Ok(true) };
        row.dead |= match why {
            Death::Stale => now.since(row.heartbeat_at) > row.stale_after,
            Death::Gone => gone,
        };
        Ok(row.dead)
    }

    pub(super) fn sweep(&mut self, judge: NodeId, limit: usize) -> Result<Swept, StoreError> {
        self.fence(judge)?;
        let mut orphans =
            self.open_where(|kept| kept.holder().is_some_and(|(node, _)| self.fence(node).is_err()));
        let left = orphans.split_off(limit.min(orphans.len()));
        for &run in &orphans {
            self.kept(run).image.standing.recoveries += 1;
            self.make_ready(run);
        }
        let dead: Vec<NodeId> = self.nodes.values().filter(|row| row.dead).map(|row| row.id).collect();
        let mut tasks = 0;
        for &node in &dead {
            tasks += self.free_tasks(node, limit - tasks, 1);
        }
        let mut busy: Vec<_> =
            left.iter().filter_map(|run| self.runs[run].holder()).map(|(node, _)| node).collect();
        busy.extend(dead.into_iter().filter(|node| !self.held_tasks(*node).is_empty()));
        self.nodes.retain(|id, row| !row.dead || busy.contains(id));
        Ok(Swept { released: orphans.len(), tasks, more: !busy.is_empty() })
    }

    fn row(&mut self, node: NodeId) -> &mut NodeRow {
        self.nodes.get_mut(&node).expect("the fence found it")
    }
}
