//! Who is there, and the acts that they bring.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use windlass_core::{ClaimId, NodeId, RunId, RunState};
use windlass_store::{
    Act, Claim, DefinitionId, DefinitionRow, Idle, KeyConflict, KeyLife, NewEnd, NewKey, NewMessage, NewNode,
    NewRun, NewSpread, Owner, Parent, Reach, Replace, SpreadClaim, SpreadKey, StepRow, Unit, Wait,
};

use crate::{ask::Ask, common};

pub const STALE: Duration = Duration::from_secs(30);
pub const ONE: NodeId = NodeId::from_bytes([1; 16]);
pub const TWO: NodeId = NodeId::from_bytes([2; 16]);
pub const THREE: NodeId = NodeId::from_bytes([3; 16]);
/// Runs by age.
pub const FIRST: RunId = RunId::from_bytes([1; 16]);
pub const SECOND: RunId = RunId::from_bytes([2; 16]);
pub const NEW: RunId = RunId::from_bytes([8; 16]);
pub const NEWER: RunId = RunId::from_bytes([9; 16]);
pub const LATER: [RunId; 9] = [
    RunId::from_bytes([10; 16]),
    RunId::from_bytes([11; 16]),
    RunId::from_bytes([12; 16]),
    RunId::from_bytes([13; 16]),
    RunId::from_bytes([14; 16]),
    RunId::from_bytes([15; 16]),
    RunId::from_bytes([16; 16]),
    RunId::from_bytes([17; 16]),
    RunId::from_bytes([18; 16]),
];
pub const V1: DefinitionId = DefinitionId(1);
pub const V2: DefinitionId = DefinitionId(2);
/// The claim under which a run is held.
pub const HELD: ClaimId = ClaimId(1);

pub fn claim_of(node: NodeId, claim: u64) -> Ask {
    Ask::Claim(Claim {
        node,
        claim: ClaimId(claim),
        room: 1000,
        queues: vec![("default".into(), 1000)],
        workflows: vec![(etl(), V1)],
        bytes: usize::MAX,
        kept: Vec::new(),
        free_own: false,
    })
}

/// The claim under which a published attempt is held.
pub const TAKEN: ClaimId = ClaimId(50);

pub fn tasks_of(node: NodeId, claim: u64) -> Ask {
    Ask::ClaimTasks(SpreadClaim {
        node,
        claim: ClaimId(claim),
        room: 1000,
        queues: vec![("default".into(), 1000)],
        workflows: vec![(etl(), V1)],
        suspect_after: 100,
        suspects: 0,
    })
}

pub fn publish(tasks: &[&str]) -> Act {
    let tasks = tasks.iter().map(|step| NewSpread { key: task(step), queue: "default".into() }).collect();
    Act::Publish { claim: HELD, definition: V1, tasks }
}

pub fn withdraw(tasks: &[&str], reach: Reach) -> Act {
    Act::Withdraw { claim: HELD, tasks: tasks.iter().map(|step| task(step)).collect(), reach }
}

pub fn deliver(step: &str) -> Act {
    Act::Deliver { claim: TAKEN, task: task(step), outcome: bytes("done") }
}

pub fn task(step: &str) -> SpreadKey {
    SpreadKey { step: step.into(), attempt: 1 }
}

pub fn node_of(id: NodeId) -> NewNode {
    NewNode { id, name: None, version: "1.0".into(), queues: vec!["default".into()], stale_after: STALE }
}

pub fn definition(version: &str) -> DefinitionRow {
    DefinitionRow { workflow: etl(), version: version.into(), body: bytes("{}") }
}

pub fn new_run() -> NewRun {
    NewRun { input: bytes("{}"), owner: None, ..common::new_run(ClaimId(0), V1) }
}

pub fn start(new: NewRun) -> Act {
    Act::Start(Box::new(new))
}

pub fn owned(claim: u64) -> Act {
    start(NewRun { owner: Some(Owner { claim: ClaimId(claim), definition: V1 }), ..new_run() })
}

pub fn keyed(key: &str, digest: u8) -> Act {
    let (life, conflict) = (KeyLife::Kept, KeyConflict::Refuse);
    start(NewRun { key: Some(NewKey { key: key.into(), digest: [digest; 16], life, conflict }), ..new_run() })
}

/// A start that looks at the run that has its key, if one has.
pub fn taking(conflict: KeyConflict) -> Act {
    let key = NewKey { key: "k".into(), digest: [1; 16], life: KeyLife::Kept, conflict };
    start(NewRun { key: Some(key), ..new_run() })
}

pub fn replacing() -> KeyConflict {
    let end = NewEnd { state: RunState::Cancelled, output: None, failure: None };
    let order = NewMessage { topic: "!cancel".into(), body: bytes("replaced"), key: None };
    KeyConflict::Replace(Box::new(Replace { end, order }))
}

/// A run with a key of its queue.
pub fn lined_up(key: &str) -> Act {
    start(NewRun { queue_key: Some(key.into()), ..new_run() })
}

pub fn message(topic: &str, key: Option<&str>) -> Act {
    Act::Send(NewMessage { topic: topic.into(), body: bytes(topic), key: key.map(Into::into) })
}

pub fn record(consumed: Vec<i64>) -> Act {
    Act::Record { claim: HELD, steps: vec![step("extract")], consumed, forget: false }
}

pub fn forget() -> Act {
    Act::Record { claim: HELD, steps: vec![step("lap")], consumed: Vec::new(), forget: true }
}

pub fn park(claim: ClaimId, consumed: Vec<i64>, wait: Wait) -> Act {
    Act::Park { claim, steps: vec![step("park")], consumed, wait }
}

pub fn end() -> Act {
    let end = NewEnd { state: RunState::Completed, output: Some(bytes("42")), failure: None };
    Act::End { claim: HELD, steps: vec![step("last")], end }
}

/// The claim under which children are held, and the topic under which their parent hears of them.
pub const CARED_FOR: ClaimId = ClaimId(70);
pub const CHILD: &str = ">child";

/// More urgent than its parent, so that a claim that gets one of the two gets a known one.
pub fn child_of(parent: RunId) -> Act {
    let parent = Some(Parent { run: parent, topic: CHILD.into() });
    start(NewRun { parent, priority: 4, ..new_run() })
}

pub fn end_child() -> Act {
    match end() {
        Act::End { steps, end, .. } => Act::End { claim: CARED_FOR, steps, end },
        other => unreachable!("{other:?}"),
    }
}

pub fn end_idle(only: Idle) -> Act {
    Act::EndIdle { only, end: NewEnd { state: RunState::Cancelled, output: None, failure: None } }
}

pub fn wait_for(topic: &str) -> Wait {
    Wait {
        state: RunState::Suspended,
        until: None,
        topics: vec![topic.into()],
        reason: None,
        blocked_by: None,
    }
}

pub fn step(name: &str) -> StepRow {
    StepRow { output: Some(bytes(name)), ..common::step(name) }
}

pub fn units(acts: Vec<(RunId, Act)>) -> Arc<Vec<Unit>> {
    Arc::new(acts.into_iter().map(|(run, act)| Unit { run, act }).collect())
}

pub fn etl() -> Arc<str> {
    "etl".into()
}

pub fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
