//! Drawing the next operation: mostly one that makes sense, now and then one that must be refused.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use windlass_core::{ClaimId, NodeId, RunId, RunState, StepKind, Time, VERDICT};

use super::{
    Dice,
    arena::{KEYS, WORKFLOWS, World},
    ask::Ask,
};
use crate::{
    Act, Aged, Claim, Death, Discard, Idle, KeyConflict, KeyLife, Keyed, NewEnd, NewKey, NewMessage, NewNode,
    NewRun, OUTCOME, Owner, Parent, Place, Query, QueueChange, QueueLimits, Rate, Replace, RunImage, STOPS,
    StepRow, Unit, Wait, conformance::TestClock,
};

pub(super) const QUEUES: [&str; 2] = ["default", "slow"];
/// The queue that has limits.
pub(super) const TIGHT: &str = "tight";
const TOPICS: [&str; 6] = ["paid", STOPS[0], "go", OUTCOME, ">a", ">b"];
const CHILDREN: [&str; 2] = [">a", ">b"];
const CELLS: [&str; 2] = ["stripe", "bank"];
const TAGS: [&str; 2] = ["eu", "vip"];
const STALE_AFTER: Duration = Duration::from_secs(30);

impl World {
    /// The next operation.
    pub(super) fn draw(&self, dice: &mut Dice) -> Ask {
        let node = self.node(dice);
        // Few runs publish: what they do is taken before they end, and whoever took it dies now and then.
        if self.has_free_tasks() && dice.chance(20) {
            return self.claim_tasks(dice, node);
        }
        if let Some(executor) = self.executor(dice).filter(|_| dice.chance(10)) {
            return match dice.below(3) {
                0 => Ask::Advance(STALE_AFTER + Duration::from_micros(1)),
                1 => Ask::DeclareDead(node, executor, Death::Stale),
                _ => Ask::Sweep(node),
            };
        }
        match dice.below(100) {
            0..8 => Ask::Advance(span(dice)),
            8..16 => self.join(dice),
            16..24 => Ask::Heartbeat(node, 7),
            24..26 => Ask::Leave(node),
            26..30 => {
                let why = dice.one([Death::Stale, Death::Stale, Death::Gone]);
                let condemned = dice.pick(&self.nodes).unwrap_or(node);
                Ask::DeclareDead(node, condemned, why)
            }
            30..34 => Ask::Sweep(node),
            34..47 => self.claim(dice, node),
            47..52 => self.claim_tasks(dice, node),
            52..55 => Ask::Unblock(node, self.some_versions(dice)),
            55..58 => Ask::Find(self.query(dice)),
            58..60 => change_queue(dice),
            62..64 => Ask::Aged(self.aged(dice)),
            64..68 => self.discard(dice),
            68..69 => Ask::Cell(dice.one(CELLS).into()),
            69..71 => {
                let node = dice.chance(70).then_some(node);
                Ask::SwapCell(node, dice.one(CELLS).into(), dice.one([0, 0, 1, 2, 3]), payload(dice))
            }
            60..62 if self.kills => Ask::Kill(node),
            _ => self.commit(dice),
        }
    }

    /// Takes note of what an operation names, and answers the runs that it may change.
    pub(super) fn remember(&mut self, ask: &Ask) -> Vec<RunId> {
        match ask {
            Ask::Join(node) if !self.nodes.contains(&node.id) => self.nodes.push(node.id),
            Ask::Kill(node) => self.killed.push(*node),
            Ask::Claim(claim) => self.last_claim = Some(claim.clone()),
            Ask::ClaimTasks(claim) => {
                self.task_claims.push(claim.claim);
                self.last_tasks = Some(claim.clone());
            }
            Ask::Discard(request) => return request.runs.iter().map(|(run, _)| *run).collect(),
            Ask::Commit(node, batch) => {
                self.last_commit = Some((*node, batch.clone()));
                for unit in batch {
                    if !self.runs.contains(&unit.run) {
                        self.runs.push(unit.run);
                    }
                }
                return batch
                    .iter()
                    .flat_map(|unit| [Some(unit.run), self.parent_of(unit)])
                    .flatten()
                    .collect();
            }
            _ => {}
        }
        Vec::new()
    }

    /// The run that hears of it when the run of this unit ends.
    fn parent_of(&self, unit: &Unit) -> Option<RunId> {
        let known = self.images.iter().find(|image| image.run.id == unit.run);
        let parent = match (&unit.act, known) {
            (_, Some(image)) => image.run.parent.as_ref(),
            (Act::Start(new), None) => new.parent.as_ref(),
            _ => None,
        };
        parent.map(|parent| parent.run)
    }

    /// A node that joined at some time (a killed process asks nothing), or one that never did.
    fn node(&self, dice: &mut Dice) -> NodeId {
        let acting: Vec<_> = self.nodes.iter().copied().filter(|node| !self.killed.contains(node)).collect();
        let recent = &acting[acting.len().saturating_sub(4)..];
        match dice.below(100) {
            0..2 => None,
            2..10 => dice.pick(&acting),
            _ => dice.pick(recent),
        }
        .unwrap_or_else(|| NodeId::from_bytes(bytes16(dice)))
    }

    fn join(&self, dice: &mut Dice) -> Ask {
        let known = dice.chance(10);
        Ask::Join(NewNode {
            id: if known { self.node(dice) } else { NodeId::from_bytes(bytes16(dice)) },
            name: dice.one([None, None, Some("web-1".into()), Some("web-2".into())]),
            version: dice.one(["1.0".into(), "1.1".into()]),
            queues: dice.some(&QUEUES.map(String::from), 80),
            stale_after: STALE_AFTER,
        })
    }

    fn claim(&self, dice: &mut Dice, node: NodeId) -> Ask {
        if dice.chance(15)
            && let Some(again) = &self.last_claim
            && !self.killed.contains(&again.node)
        {
            return Ask::Claim(again.clone());
        }
        let room = |dice: &mut Dice| dice.one([0, 1, 2, 3, 1000]);
        let mut names = dice.some(&QUEUES, 80);
        names.extend(dice.chance(80).then_some(TIGHT));
        let queues = names.into_iter().map(|queue| (queue.into(), room(dice))).collect();
        let workflows = self.some_versions(dice);
        let mut kept = self.some_versions(dice);
        kept.retain(|(name, _)| workflows.iter().any(|(known, _)| known == name));
        Ask::Claim(Claim {
            node,
            claim: claim_id(dice),
            room: room(dice),
            queues,
            workflows,
            kept,
            // Anything between would depend on how a store counts.
            bytes: dice.one([usize::MAX, usize::MAX, 0]),
            free_own: dice.chance(30),
        })
    }

    pub(super) fn some_versions(&self, dice: &mut Dice) -> Vec<(Arc<str>, crate::DefinitionId)> {
        let workflows = dice.some(&WORKFLOWS, 80);
        let versions_of = |workflow: &str| -> Vec<_> {
            self.versions.iter().filter(|(name, _)| &**name == workflow).cloned().collect()
        };
        workflows.into_iter().filter_map(|workflow| dice.pick(&versions_of(workflow))).collect()
    }

    fn query(&self, dice: &mut Dice) -> Query {
        let mut maybe = |percent| dice.chance(percent);
        let (workflow, queue, tag, key, after) = (maybe(40), maybe(30), maybe(20), maybe(10), maybe(30));
        let (since, until, without) = (maybe(20), maybe(20), maybe(20));
        Query {
            workflow: workflow.then(|| dice.one(WORKFLOWS).into()),
            without: without.then(|| dice.one(WORKFLOWS)[..2].into()),
            states: dice.some(&RunState::ALL, 30),
            queue: queue.then(|| dice.one(QUEUES).into()),
            tag: tag.then(|| dice.one(TAGS).into()),
            key: key.then(|| dice.one(KEYS).into()),
            since: since.then(|| some_time(dice)),
            until: until.then(|| some_time(dice)),
            after: after.then(|| self.run(dice)),
            limit: dice.one([0, 1, 2, 5, 100]),
            look: usize::MAX,
        }
    }

    fn commit(&self, dice: &mut Dice) -> Ask {
        if dice.chance(8)
            && let Some((node, batch)) = &self.last_commit
            && node.is_none_or(|node| !self.killed.contains(&node))
        {
            return Ask::Commit(*node, batch.clone());
        }
        let holders: Vec<_> = self.holders().map(|(node, ..)| node).collect();
        let node = match dice.below(100) {
            0..15 => None,
            15..70 => Some(dice.pick(&holders).unwrap_or_else(|| self.node(dice))),
            _ => Some(self.node(dice)),
        };
        // A store may write the rows of a large batch in another way than those of a small one.
        let most = dice.one([4, 4, 4, 80]);
        let count = 1 + dice.below(most);
        let mut batch = Vec::new();
        for _ in 0..count {
            let unit = match dice.pick(&batch) {
                Some(earlier) if dice.chance(35) => self.sequel(dice, &earlier),
                _ => self.unit(dice, node),
            };
            batch.push(unit);
        }
        Ask::Commit(node, batch)
    }

    /// Something that happens to a run of which the same batch has told before.
    fn sequel(&self, dice: &mut Dice, earlier: &Unit) -> Unit {
        let Unit { run, act } = earlier;
        let claim = match act {
            Act::Start(new) => new.owner.as_ref().map(|owner| owner.claim),
            act => act.holder(),
        };
        let claim = claim.unwrap_or_else(|| claim_id(dice));
        let consumed = Vec::new();
        let act = match dice.below(100) {
            0..10 => act.clone(),
            10..15 => Act::Start(Box::new(self.new_run(dice))),
            15..32 => record(dice, claim, 1, consumed),
            32..36 => self.publish(dice, claim),
            36..38 => self.withdraw(dice, *run, claim),
            38..40 => self.spread_act(dice),
            40..45 => Act::Save { claim, step: dice.one(["a", "b"]).into(), value: payload(dice) },
            45..60 => Act::End { claim, steps: steps(dice, 1), end: new_end(dice) },
            60..68 => Act::Park { claim, steps: steps(dice, 1), consumed, wait: self.wait(dice) },
            68..73 => Act::Release { claim },
            73..83 => Act::Send(message(dice)),
            83..92 => Act::EndIdle { only: dice.one([Idle::NeverClaimed, Idle::Any]), end: new_end(dice) },
            _ => Act::Reopen { after: dice.one([1, 1, 1, 2]) },
        };
        Unit { run: *run, act }
    }

    fn unit(&self, dice: &mut Dice, node: Option<NodeId>) -> Unit {
        // Few runs publish, so that little would be withdrawn while a node holds it.
        if let Some((claim, run)) = self.publisher(dice, node)
            && dice.chance(8)
        {
            return Unit { run, act: self.withdraw(dice, run, claim) };
        }
        let (claim, held) = self.holding(dice, node);
        let image = self.images.iter().find(|image| image.run.id == held);
        let generation = image.map_or(1, |image| image.standing.generation);
        let consumed = image.map_or_else(Vec::new, |image| consumed(dice, image));
        let (run, act) = match dice.below(100) {
            0..28 => (self.start_id(dice), Act::Start(Box::new(self.new_run(dice)))),
            28..36 => (held, record(dice, claim, generation, consumed)),
            36..42 => (held, self.publish(dice, claim)),
            42..44 => (held, self.withdraw(dice, held, claim)),
            44..48 => self.task_of(dice, node),
            48..53 => {
                let step = dice.one(["a", "b"]).into();
                (held, Act::Save { claim, step, value: payload(dice) })
            }
            53..62 => (held, Act::End { claim, steps: steps(dice, generation), end: new_end(dice) }),
            62..74 => {
                let wait = self.wait(dice);
                (held, Act::Park { claim, steps: steps(dice, generation), consumed, wait })
            }
            74..78 => (held, Act::Release { claim }),
            78..90 => (self.run(dice), Act::Send(message(dice))),
            90..95 => {
                let only = dice.one([Idle::NeverClaimed, Idle::Any]);
                (self.run(dice), Act::EndIdle { only, end: new_end(dice) })
            }
            _ => self.reopen(dice),
        };
        Unit { run, act }
    }

    fn holders(&self) -> impl Iterator<Item = (NodeId, ClaimId, RunId)> {
        self.images.iter().filter_map(|image| match image.standing.place {
            Place::Owned { node, claim } if !self.killed.contains(&node) => Some((node, claim, image.run.id)),
            _ => None,
        })
    }

    /// A claim and the run held under it: mostly one that the node has now, else any that ever was.
    fn holding(&self, dice: &mut Dice, node: Option<NodeId>) -> (ClaimId, RunId) {
        let mine: Vec<_> = self.holders().filter(|(holder, ..)| Some(*holder) == node).collect();
        let from = if dice.chance(85) { &mine } else { &self.held };
        match dice.pick(from) {
            Some((_, claim, run)) => (claim, run),
            None => (claim_id(dice), self.run(dice)),
        }
    }

    pub(super) fn run(&self, dice: &mut Dice) -> RunId {
        let known = if dice.chance(97) { dice.pick(&self.runs) } else { None };
        known.unwrap_or_else(|| RunId::from_bytes(bytes16(dice)))
    }

    fn start_id(&self, dice: &mut Dice) -> RunId {
        if dice.chance(8) { self.run(dice) } else { RunId::from_bytes(bytes16(dice)) }
    }

    fn new_run(&self, dice: &mut Dice) -> NewRun {
        let version = dice.pick(&self.versions);
        let owner = version.as_ref().filter(|_| dice.chance(50));
        let owner = owner.map(|(_, id)| Owner { claim: claim_id(dice), definition: *id });
        let is_tight = dice.chance(30);
        let queue_key = is_tight && dice.chance(70);
        NewRun {
            workflow: version.map_or_else(|| WORKFLOWS[0].into(), |(workflow, _)| workflow),
            queue: if is_tight { TIGHT.into() } else { dice.one(QUEUES).into() },
            queue_key: queue_key.then(|| dice.one(["a", "b", ""]).into()),
            priority: dice.one([0, 5, 5, 9]),
            delay: dice.chance(20).then(|| span(dice)),
            timeout: dice.chance(20).then(|| span(dice)),
            input: payload(dice),
            context: dice.chance(30).then(|| payload(dice)),
            key: dice.chance(30).then(|| key(dice)),
            tags: dice.some(&TAGS.map(String::from), 30),
            forked_from: dice.chance(10).then(|| self.run(dice)),
            trace: dice.chance(10).then(|| "00-trace".into()),
            parent: dice.chance(25).then(|| self.parent(dice)),
            steps: if dice.chance(20) { given(dice) } else { Vec::new() },
            owner,
        }
    }

    fn parent(&self, dice: &mut Dice) -> Parent {
        let topic = if dice.chance(97) { dice.one(CHILDREN) } else { "paid" };
        Parent { run: self.run(dice), topic: topic.into() }
    }

    fn wait(&self, dice: &mut Dice) -> Wait {
        let waiting = [
            RunState::Suspended,
            RunState::Suspended,
            RunState::Paused,
            RunState::Blocked,
            RunState::Undoing,
        ];
        let blocked_by = dice.pick(&self.versions).map(|(_, id)| id).filter(|_| dice.chance(70));
        Wait {
            state: if dice.chance(97) { dice.one(waiting) } else { dice.one(RunState::ALL) },
            until: dice.chance(50).then(|| some_time(dice)),
            topics: dice.some(&TOPICS.map(String::from), 40),
            reason: dice.chance(20).then(|| "why not".into()),
            blocked_by,
        }
    }

    fn reopen(&self, dice: &mut Dice) -> (RunId, Act) {
        let (run, after) = self.ended(dice);
        (run, Act::Reopen { after })
    }

    /// Mostly a run that has ended, and its generation.
    fn ended(&self, dice: &mut Dice) -> (RunId, u32) {
        let ended: Vec<_> = self
            .images
            .iter()
            .filter(|image| matches!(image.standing.place, Place::Ended(_)))
            .map(|image| (image.run.id, image.standing.generation))
            .collect();
        let (run, generation) = dice.pick(&ended).unwrap_or_else(|| (self.run(dice), 1));
        (run, if dice.chance(90) { generation } else { generation + 1 })
    }

    fn discard(&self, dice: &mut Dice) -> Ask {
        let node = dice.chance(70).then(|| self.node(dice));
        let count = 1 + dice.below(4);
        let ended = |dice: &mut Dice| if dice.chance(90) { self.ended(dice) } else { (self.run(dice), 1) };
        let runs = (0..count).map(|_| ended(dice)).collect();
        let keyed = dice.one([Keyed::Stays, Keyed::Goes]);
        Ask::Discard(Discard { node, runs, keyed, within: Duration::MAX })
    }

    fn aged(&self, dice: &mut Dice) -> Aged {
        Aged {
            after: dice.chance(40).then(|| (dice.one(WORKFLOWS).into(), self.run(dice))),
            before: if dice.chance(30) { self.run(dice) } else { RunId::LAST },
            limit: dice.one([0, 1, 2, 100]),
        }
    }
}

fn bytes16(dice: &mut Dice) -> [u8; 16] {
    let (high, low) = (u128::from(dice.roll()), u128::from(dice.roll()));
    ((high << 64) | low).to_be_bytes()
}

pub(super) fn claim_id(dice: &mut Dice) -> ClaimId {
    ClaimId(dice.roll() >> 1)
}

/// Mostly short; sometimes long enough for a silent node to become stale.
fn span(dice: &mut Dice) -> Duration {
    let most = dice.one([1, 1_000, 5_000_000, 5_000_000, 35_000_000]);
    Duration::from_micros(dice.below(most))
}

/// A time about which something may be due.
fn some_time(dice: &mut Dice) -> Time {
    TestClock::START + Duration::from_micros(dice.below(120_000_000))
}

pub(super) fn payload(dice: &mut Dice) -> Bytes {
    match dice.below(20) {
        0 => Bytes::from(vec![b'x'; 5_000]),
        1 => Bytes::new(),
        _ => Bytes::from(dice.below(1_000).to_string()),
    }
}

fn key(dice: &mut Dice) -> NewKey {
    NewKey {
        key: dice.one(KEYS).into(),
        digest: dice.one([[1; 16], [1; 16], [2; 16]]),
        life: if dice.chance(50) { KeyLife::Kept } else { KeyLife::For(span(dice)) },
        conflict: conflict(dice),
    }
}

fn conflict(dice: &mut Dice) -> KeyConflict {
    match dice.below(10) {
        0..4 => KeyConflict::Refuse,
        4..7 => KeyConflict::ReturnExisting,
        7 => KeyConflict::Reject,
        8 => KeyConflict::Debounce,
        _ => KeyConflict::Replace(Box::new(Replace { end: new_end(dice), order: message(dice) })),
    }
}

fn change_queue(dice: &mut Dice) -> Ask {
    let queue = if dice.chance(95) { TIGHT } else { dice.one(QUEUES) };
    let limit = |dice: &mut Dice| dice.one([None, None, Some(1), Some(2), Some(3)]);
    let change = match dice.below(10) {
        0 if dice.chance(50) => QueueChange::Removed,
        0..2 => QueueChange::Paused(dice.chance(30)),
        _ => QueueChange::Limits(QueueLimits {
            concurrency: limit(dice),
            per_node: limit(dice),
            per_key: limit(dice),
            rate: limit(dice).map(|count| Rate { count, per: Duration::from_secs(3) }),
            key_rate: limit(dice).map(|count| Rate { count, per: Duration::from_secs(5) }),
            ageing: dice.chance(30).then_some(Duration::from_millis(700)),
            hold: dice.chance(30),
        }),
    };
    Ask::ChangeQueue(queue.into(), change)
}

fn steps(dice: &mut Dice, generation: u32) -> Vec<StepRow> {
    (0..dice.below(4)).map(|_| step(dice, generation)).collect()
}

/// What a run starts with: all but how it ends.
fn given(dice: &mut Dice) -> Vec<StepRow> {
    steps(dice, 1).into_iter().filter(|step| &*step.name != VERDICT).collect()
}

fn step(dice: &mut Dice, generation: u32) -> StepRow {
    StepRow {
        generation: if dice.chance(95) { generation } else { 1 },
        name: if dice.chance(3) { VERDICT } else { dice.one(["a", "b", "c", "d[0]", "d[10]"]) }.into(),
        attempt: dice.one([0, 1, 1, 2]),
        epoch: dice.one([0, 0, 1]),
        kind: dice.one(StepKind::ALL),
        started_at: some_time(dice),
        ended_at: some_time(dice),
        output: dice.chance(60).then(|| payload(dice)),
        detail: dice.chance(30).then(|| payload(dice)),
    }
}

/// Some steps, and now and then nothing of what was before.
fn record(dice: &mut Dice, claim: ClaimId, generation: u32, consumed: Vec<i64>) -> Act {
    let (mut steps, forget) = (steps(dice, generation), dice.chance(20));
    if forget && dice.chance(90) {
        // Mostly one that was not there before.
        let attempt = dice.one([1, 2, 3]);
        steps.insert(0, StepRow { name: "lap".into(), attempt, ..step(dice, generation) });
    }
    Act::Record { claim, steps, consumed, forget }
}

/// Some of what lies in the inbox, and sometimes what does not.
fn consumed(dice: &mut Dice, image: &RunImage) -> Vec<i64> {
    let rows: Vec<_> = image.inbox.iter().map(|row| row.seq).collect();
    let mut consumed = dice.some(&rows, 50);
    if dice.chance(5) {
        consumed.push(-1);
    }
    consumed
}

fn new_end(dice: &mut Dice) -> NewEnd {
    NewEnd {
        state: if dice.chance(97) { dice.one(RunState::TERMINAL) } else { dice.one(RunState::ALL) },
        output: dice.chance(50).then(|| payload(dice)),
        failure: dice.chance(50).then(|| payload(dice)),
    }
}

fn message(dice: &mut Dice) -> NewMessage {
    NewMessage {
        topic: dice.one(TOPICS).into(),
        body: payload(dice),
        key: dice.chance(50).then(|| dice.one(["m1", "m2"]).into()),
    }
}
