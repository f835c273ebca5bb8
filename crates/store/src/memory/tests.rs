//! What is the model's own: its handles, its faults and its hints.

use std::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicI64, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use windlass_core::{ClaimId, RunState};

use super::*;
use crate::{Act, NewEnd, NewMessage, NewRun, Place, Wait};

fn memory() -> Memory {
    Memory::new(|| Time(1_000))
}

/// The answer of a call, which must be there at once; `None` when it never comes.
fn now<T>(answer: Answer<'_, T>) -> Option<Result<T, StoreError>> {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn done<T>(answer: Answer<'_, T>) -> T {
    now(answer).expect("an answer at the first poll").expect("a success")
}

fn join(memory: &Memory) -> NodeId {
    let id = NodeId::new();
    let stale_after = Duration::from_secs(30);
    done(memory.join(NewNode { id, name: None, version: "1".into(), queues: vec![], stale_after }));
    id
}

fn starting(run: RunId) -> Arc<Vec<Unit>> {
    let new = NewRun {
        workflow: "etl".into(),
        queue: "default".into(),
        queue_key: None,
        priority: 5,
        delay: None,
        timeout: None,
        input: Bytes::new(),
        context: None,
        key: None,
        tags: vec![],
        forked_from: None,
        trace: None,
        parent: None,
        steps: vec![],
        owner: None,
    };
    Arc::new(vec![Unit { run, act: Act::Start(Box::new(new)) }])
}

fn one(run: RunId, act: Act) -> Arc<Vec<Unit>> {
    Arc::new(vec![Unit { run, act }])
}

/// A node that holds a run, and both.
fn held(memory: &Memory) -> (NodeId, ClaimId, RunId) {
    let (node, run) = (join(memory), RunId::new());
    done(memory.commit(None, starting(run)));
    let definition = done(memory.define(DefinitionRow {
        workflow: "etl".into(),
        version: "1".into(),
        body: Bytes::new(),
    }));
    let request = Claim {
        node,
        claim: ClaimId::new(),
        room: 1,
        queues: vec![("default".into(), 1)],
        workflows: vec![("etl".into(), definition)],
        bytes: 1,
        kept: Vec::new(),
        free_own: false,
    };
    let claim = request.claim;
    assert_eq!(done(memory.claim(request)).runs.len(), 1);
    (node, claim, run)
}

fn heard(hints: &mut broadcast::Receiver<Hint>) -> Vec<Hint> {
    std::iter::from_fn(|| hints.try_recv().ok()).collect()
}

#[test]
fn a_clock_that_goes_back_is_held() {
    static CLOCK: AtomicI64 = AtomicI64::new(1_000);
    let memory = Memory::new(|| Time(CLOCK.load(Ordering::SeqCst)));
    let node = join(&memory);
    CLOCK.store(500, Ordering::SeqCst);
    assert_eq!(done(memory.heartbeat(node, 0.into())).now, Time(1_000));
    CLOCK.store(1_001, Ordering::SeqCst);
    assert_eq!(done(memory.heartbeat(node, 0.into())).now, Time(1_001));
}

#[test]
fn dropping_an_answer_does_not_withdraw_what_was_asked() {
    let memory = memory();
    let run = RunId::new();
    drop(memory.commit(None, starting(run)));
    assert!(done(memory.load(run)).is_some());
}

#[test]
fn a_failed_commit_writes_nothing_and_a_lost_answer_hides_what_was_written() {
    for (side, written) in [(Side::Before, false), (Side::After, true)] {
        let memory = memory();
        memory.on_call(move |moment| match moment.call {
            Call::Commit if moment.side == side => Verdict::Unavailable,
            _ => Verdict::Proceed,
        });
        let run = RunId::new();
        let answer = now(memory.commit(None, starting(run))).expect("an answer");
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        assert_eq!(done(memory.load(run)).is_some(), written);
    }
}

#[test]
fn a_silent_call_is_never_answered_and_others_go_on() {
    for (side, written) in [(Side::Before, false), (Side::After, true)] {
        let memory = memory();
        memory.on_call(move |moment| match moment.call {
            Call::Commit if moment.side == side => Verdict::Silent,
            _ => Verdict::Proceed,
        });
        let run = RunId::new();
        assert!(now(memory.commit(None, starting(run))).is_none());
        assert_eq!(done(memory.load(run)).is_some(), written);
    }
}

#[test]
fn a_hook_is_asked_before_and_after_each_call_and_belongs_to_its_handle() {
    let memory = memory();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    memory.on_call(move |moment| {
        log.lock().push(*moment);
        Verdict::Proceed
    });
    let node = join(&memory.clone());
    done(memory.process().heartbeat(node, 0.into()));
    let moment = |side| Moment { call: Call::Join, node: Some(node), side };
    assert_eq!(*asked.lock(), [moment(Side::Before), moment(Side::After)]);
}

#[test]
fn after_a_crash_a_handle_does_and_answers_nothing_more() {
    let memory = memory();
    let other = memory.process();
    let (judge, node) = (join(&other), join(&memory));
    let mut hints = other.hints();
    memory.on_call(|moment| match (moment.call, moment.side) {
        (Call::Commit, Side::After) => Verdict::Crash,
        _ => Verdict::Proceed,
    });
    let (run, late) = (RunId::new(), RunId::new());
    assert!(now(memory.commit(Some(node), starting(run))).is_none());
    assert!(now(memory.commit(None, starting(late))).is_none());
    assert!(now(memory.clone().load(run)).is_none(), "a clone is the same process");

    assert!(done(other.load(run)).is_some(), "the crash came after the commit");
    assert!(done(other.load(late)).is_none());
    assert!(heard(&mut hints).contains(&Hint::Gone(node)));
    assert_eq!(done(other.heartbeat(judge, 0.into())).gone, [node]);
    assert!(done(other.declare_dead(judge, node, Death::Gone)));
}

#[test]
fn a_crash_before_a_commit_leaves_nothing() {
    let memory = memory();
    memory.on_call(|moment| match moment.call {
        Call::Commit => Verdict::Crash,
        _ => Verdict::Proceed,
    });
    let run = RunId::new();
    assert!(now(memory.commit(None, starting(run))).is_none());
    assert!(done(memory.process().load(run)).is_none());
}

#[test]
fn a_killed_node_is_gone_and_its_neighbours_on_the_handle_live() {
    let memory = memory();
    let (judge, node) = (join(&memory), join(&memory));
    let mut hints = memory.hints();
    memory.kill(node);
    assert_eq!(heard(&mut hints), [Hint::Gone(node)]);
    let run = RunId::new();
    assert!(now(memory.heartbeat(node, 0.into())).is_none());
    assert!(now(memory.commit(Some(node), starting(run))).is_none());
    assert!(done(memory.load(run)).is_none());
    assert_eq!(done(memory.heartbeat(judge, 0.into())).gone, [node]);
}

#[test]
fn everybody_hears_of_what_made_a_run_ready_sent_to_it_or_ended_it() {
    let memory = memory();
    let mut hints = memory.process().hints();
    let (node, claim, run) = held(&memory);
    assert_eq!(heard(&mut hints), [Hint::Changed], "of the start, not of the claim");

    let record = Act::Record { claim, steps: vec![], consumed: vec![], forget: false };
    done(memory.commit(Some(node), one(run, record)));
    assert_eq!(heard(&mut hints), [], "a record is nobody else's business");

    let send = Act::Send(NewMessage { topic: "go".into(), body: Bytes::new(), key: None });
    done(memory.commit(None, one(run, send)));
    assert_eq!(heard(&mut hints), [Hint::Changed]);

    let wait = Wait {
        state: RunState::Suspended,
        until: Some(Time(5_000)),
        topics: vec![],
        reason: None,
        blocked_by: None,
    };
    done(memory.commit(Some(node), one(run, Act::Park { claim, steps: vec![], consumed: vec![], wait })));
    assert_eq!(heard(&mut hints), [Hint::Changed], "others may have to wake for it");

    let end = NewEnd { state: RunState::Cancelled, output: None, failure: None };
    done(memory.commit(None, one(run, Act::EndIdle { only: crate::Idle::Any, end })));
    assert_eq!(heard(&mut hints), [Hint::Changed]);
}

#[test]
fn everybody_hears_of_runs_that_a_leaving_or_dead_node_held() {
    let memory = memory();
    let (node, _, run) = held(&memory);
    let mut hints = memory.hints();
    done(memory.leave(node));
    assert_eq!(heard(&mut hints), [Hint::Changed]);
    assert_eq!(done(memory.load(run)).unwrap().standing.place, Place::Ready);

    let judge = join(&memory);
    done(memory.leave(judge));
    assert_eq!(heard(&mut hints), [], "a node that held nothing leaves quietly");

    let (judge, (dead, ..)) = (join(&memory), held(&memory));
    memory.kill(dead);
    assert!(done(memory.declare_dead(judge, dead, Death::Gone)));
    heard(&mut hints);
    assert_eq!(done(memory.sweep(judge, 10)).released, 1);
    assert_eq!(heard(&mut hints), [Hint::Changed]);
}
