//! Handing out runs.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use windlass_core::{RunId, RunState, Time};

use super::state::{Kept, State};
use crate::{Claim, Claimed, DefinitionId, Looked, Place, RunImage, StoreError};

impl State {
    pub(super) fn claim(&mut self, request: &Claim) -> Result<Claimed, StoreError> {
        self.fence(request.node)?;
        let now = self.now;
        for run in self.open_where(|kept| kept.wait().is_some_and(|wait| wait.is_due(now))) {
            self.make_ready(run);
        }
        if request.free_own {
            self.free_own(&request.versions());
        }

        let held = (request.node, request.claim);
        let mut taken = self.open_where(|kept| kept.holder() == Some(held));
        self.most_urgent_first(&mut taken);
        if taken.is_empty() {
            taken = self.take(request);
        }

        let (left, next) = self.on_offer(request, 1);
        Ok(Claimed {
            now,
            runs: taken.iter().map(|run| self.runs[run].image.clone()).collect(),
            next_due: self.next_due().into_iter().chain(next).min(),
            more: request.room > 0 && left.iter().any(|stream| !stream.is_empty()),
            limited: self.is_limited(request),
        })
    }

    pub(super) fn look(&self, request: &Claim) -> Looked {
        let next_due = self.next_due();
        let is_due = next_due.is_some_and(|due| due <= self.now);
        let (offer, next) = self.on_offer(request, 1);
        Looked {
            now: self.now,
            next_due: next_due.into_iter().chain(next).min(),
            work: is_due || offer.iter().any(|stream| !stream.is_empty()),
            own_blocked: !self.own_blocked(&request.versions()).is_empty(),
            limited: self.is_limited(request),
        }
    }

    /// Whether one of the queues was declared.
    fn is_limited(&self, request: &Claim) -> bool {
        request.queues.iter().any(|(queue, _)| self.queues.contains_key(queue))
    }

    /// What a request with so much room might get: one stream for all queues that were not declared, and one for each that
    /// was, and when the rate of one lets the next be taken.
    fn on_offer(&self, request: &Claim, room: usize) -> (Vec<VecDeque<RunId>>, Option<Time>) {
        let is_plain = |run: &RunId| !self.queues.contains_key(&self.runs[run].image.run.queue);
        let mut streams = vec![self.claimable(request).into_iter().filter(is_plain).collect()];
        let mut next = None;
        for (queue, limit) in request.queues.iter().filter(|(queue, _)| self.queues.contains_key(queue)) {
            let turn = self.turn(request, queue, room.min(*limit));
            streams.push(turn.runs);
            next = next.into_iter().chain(turn.next).min();
        }
        (streams, next)
    }

    fn next_due(&self) -> Option<Time> {
        self.open.iter().filter_map(|run| self.runs[run].wait()?.until).min()
    }

    fn free_own(&mut self, workflows: &[(Arc<str>, DefinitionId)]) {
        self.own_blocked(workflows).into_iter().for_each(|run| self.make_ready(run));
    }

    /// The runs that are recorded under one of these very versions, and were blocked by another.
    fn own_blocked(&self, workflows: &[(Arc<str>, DefinitionId)]) -> Vec<RunId> {
        self.open_where(|kept| {
            kept.wait().is_some_and(|wait| {
                let is_own = |(workflow, version): &(Arc<str>, DefinitionId)| {
                    *workflow == kept.image.run.workflow
                        && kept.image.standing.definition == Some(*version)
                        && wait.blocked_by != Some(*version)
                };
                wait.state == RunState::Blocked && workflows.iter().any(is_own)
            })
        })
    }

    pub(super) fn unblock(
        &mut self,
        node: windlass_core::NodeId,
        workflows: &[(Arc<str>, DefinitionId)],
    ) -> Result<usize, StoreError> {
        self.fence(node)?;
        let blocked = self.open_where(|kept| {
            kept.wait().is_some_and(|wait| {
                let may_agree = |(workflow, version): &(Arc<str>, DefinitionId)| {
                    *workflow == kept.image.run.workflow && wait.blocked_by != Some(*version)
                };
                wait.state == RunState::Blocked && workflows.iter().any(may_agree)
            })
        });
        for &run in &blocked {
            self.make_ready(run);
        }
        Ok(blocked.len())
    }

    /// Takes what the request has room for.
    fn take(&mut self, request: &Claim) -> Vec<RunId> {
        let mut room: HashMap<_, _> = request.queues.iter().cloned().collect();
        let versions: HashMap<_, _> = request.workflows.iter().cloned().collect();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let mut streams = self.on_offer(request, request.room).0;
        while let Some(run) = self.next_of(&mut streams) {
            if taken.len() == request.room || (bytes >= request.bytes && !taken.is_empty()) {
                break;
            }
            let image = &mut self.kept(run).image;
            let room = room.get_mut(&image.run.queue).expect("claimable runs are in these queues");
            if *room == 0 {
                continue;
            }
            *room -= 1;
            bytes += payload(image);
            image.standing.place = Place::Owned { node: request.node, claim: request.claim };
            image.standing.definition.get_or_insert(versions[&image.run.workflow]);
            taken.push(run);
        }
        self.seat(request.node, &taken);
        self.most_urgent_first(&mut taken);
        taken
    }

    /// The most urgent of those that come next.
    fn next_of(&self, streams: &mut [VecDeque<RunId>]) -> Option<RunId> {
        let urgency = |run: &RunId| (self.urgency(&self.runs[run].image.run.queue, self.waiter(*run)), *run);
        let heads =
            streams.iter().enumerate().filter_map(|(at, stream)| Some((urgency(stream.front()?), at)));
        let (_, at) = heads.min()?;
        streams[at].pop_front()
    }

    /// The ready runs that the request may have, in the order in which it would get them.
    pub(super) fn claimable(&self, request: &Claim) -> Vec<RunId> {
        let mut runs = self.open_where(|kept| {
            let run = &kept.image.run;
            kept.image.standing.place == Place::Ready
                && request.queues.iter().any(|(queue, room)| *queue == run.queue && *room > 0)
                && request.workflows.iter().any(|(workflow, _)| *workflow == run.workflow)
        });
        self.most_urgent_first(&mut runs);
        runs
    }

    fn most_urgent_first(&self, runs: &mut [RunId]) {
        runs.sort_by_key(|run| (self.runs[run].image.run.priority, *run));
    }
}

impl Kept {
    pub(super) fn is_held_by(&self, node: windlass_core::NodeId) -> bool {
        self.holder().is_some_and(|(holder, _)| holder == node)
    }
}

/// About how many bytes a claim carries for this run.
fn payload(image: &RunImage) -> usize {
    let size = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    let steps: usize = image.steps.iter().map(|step| size(&step.output) + size(&step.detail)).sum();
    let inbox: usize = image.inbox.iter().map(|row| row.body.len()).sum();
    image.run.input.len() + size(&image.run.context) + steps + inbox
}
