//! Drawing what happens to published attempts.

use std::sync::Arc;

use windlass_core::{ClaimId, NodeId, RunId};

use super::{
    Dice,
    arena::World,
    ask::Ask,
    draw::{QUEUES, TIGHT, claim_id, payload},
};
use crate::{Act, NewSpread, Place, Reach, RunImage, SpreadClaim, SpreadKey};

impl World {
    pub(super) fn claim_tasks(&self, dice: &mut Dice, node: NodeId) -> Ask {
        if dice.chance(15)
            && let Some(again) = &self.last_tasks
            && !self.killed.contains(&again.node)
        {
            return Ask::ClaimTasks(again.clone());
        }
        let room = |dice: &mut Dice| dice.one([0, 1, 2, 1000, 1000]);
        let mut names = dice.some(&QUEUES, 80);
        names.extend(dice.chance(80).then_some(TIGHT));
        let queues = names.into_iter().map(|queue| (queue.into(), room(dice))).collect();
        let published = self.images.iter().flat_map(|image| &image.published);
        let free: Vec<_> = published.filter(|row| row.holder.is_none()).cloned().collect();
        // Something that is there, or whatever comes.
        let workflows = match dice.pick(&free).filter(|_| dice.chance(70)) {
            Some(row) => vec![(row.workflow, row.definition)],
            None => self.some_versions(dice),
        };
        Ask::ClaimTasks(SpreadClaim {
            node,
            claim: claim_id(dice),
            room: room(dice),
            queues,
            workflows,
            suspect_after: dice.one([0, 1, 1, 5]),
            suspects: dice.one([0, 1, 1000]),
        })
    }

    pub(super) fn publish(&self, dice: &mut Dice, claim: ClaimId) -> Act {
        let definition = dice.pick(&self.versions).map_or(crate::DefinitionId(1), |(_, id)| id);
        // A key declares the queue, and most are to be left undeclared.
        let holds = |image: &&RunImage| matches!(image.standing.place, Place::Owned { claim: held, .. } if held == claim);
        let has_key = self.images.iter().find(holds).is_some_and(|image| image.run.queue_key.is_some());
        let is_tight = dice.chance(if has_key { 98 } else { 20 });
        let queue: Arc<str> = if is_tight { TIGHT } else { dice.one(QUEUES) }.into();
        let tasks = spread_keys(dice).into_iter().map(|key| NewSpread { key, queue: Arc::clone(&queue) });
        Act::Publish { claim, definition, tasks: tasks.collect() }
    }

    pub(super) fn has_free_tasks(&self) -> bool {
        self.images.iter().flat_map(|image| &image.published).any(|row| row.holder.is_none())
    }

    /// A node that holds published attempts.
    pub(super) fn executor(&self, dice: &mut Dice) -> Option<NodeId> {
        let published = self.images.iter().flat_map(|image| &image.published);
        dice.pick(&published.filter_map(|row| row.holder).collect::<Vec<_>>()).map(|(node, _)| node)
    }

    /// A run that a node holds and that has something published.
    pub(super) fn publisher(&self, dice: &mut Dice, node: Option<NodeId>) -> Option<(ClaimId, RunId)> {
        let publishers = self.images.iter().filter(|image| !image.published.is_empty());
        let mine = publishers.filter_map(|image| match image.standing.place {
            Place::Owned { node: holder, claim } if Some(holder) == node => Some((claim, image.run.id)),
            _ => None,
        });
        dice.pick(&mine.collect::<Vec<_>>())
    }

    pub(super) fn withdraw(&self, dice: &mut Dice, run: RunId, claim: ClaimId) -> Act {
        let image = self.images.iter().find(|image| image.run.id == run);
        let published: Vec<_> =
            image.into_iter().flat_map(|image| &image.published).map(|row| row.key.clone()).collect();
        let mut tasks = dice.some(&published, 70);
        if tasks.is_empty() || dice.chance(30) {
            tasks.extend(spread_keys(dice));
        }
        Act::Withdraw { claim, tasks, reach: dice.one([Reach::Unclaimed, Reach::All]) }
    }

    /// What somebody says of a published attempt: mostly the one who holds it.
    pub(super) fn task_of(&self, dice: &mut Dice, node: Option<NodeId>) -> (RunId, Act) {
        let published = self.images.iter().flat_map(|image| &image.published);
        let mine = published.filter(|row| row.holder.is_some_and(|(holder, _)| Some(holder) == node));
        let mine: Vec<_> = mine.cloned().collect();
        let Some(row) = dice.pick(&mine) else { return (self.run(dice), self.spread_act(dice)) };
        let claim = row.holder.map_or_else(|| claim_id(dice), |(_, claim)| claim);
        (row.run, spread_act(dice, claim, row.key))
    }

    pub(super) fn spread_act(&self, dice: &mut Dice) -> Act {
        let claim = dice.pick(&self.task_claims).unwrap_or_else(|| claim_id(dice));
        let key = spread_key(dice);
        spread_act(dice, claim, key)
    }
}

fn spread_act(dice: &mut Dice, claim: ClaimId, task: SpreadKey) -> Act {
    match dice.chance(70) {
        true => Act::Deliver { claim, task, outcome: payload(dice) },
        false => Act::SaveSpread { claim, task, value: payload(dice) },
    }
}

fn spread_keys(dice: &mut Dice) -> Vec<SpreadKey> {
    (0..dice.below(4)).map(|_| spread_key(dice)).collect()
}

fn spread_key(dice: &mut Dice) -> SpreadKey {
    SpreadKey { step: dice.one(["a", "b", "d[0]", "d[10]"]).into(), attempt: dice.one([1, 1, 2]) }
}
