//! The situations in which operations meet, and which of them may meet there.

use std::time::Duration;

use windlass_core::{ClaimId, NodeId, RunId, RunState, Time};
use windlass_store::{
    Act, Claim, Discard, Idle, KeyConflict, Keyed, Memory, NewNode, NewRun, OUTCOME, QueueChange,
    QueueLimits, Reach, Store, Wait, conformance::TestClock,
};

use crate::{
    acts::{
        CARED_FOR, CHILD, FIRST, HELD, LATER, NEW, NEWER, ONE, SECOND, STALE, TAKEN, THREE, TWO, V1, V2,
        bytes, child_of, claim_of, definition, deliver, end, end_child, end_idle, etl, forget, keyed,
        lined_up, message, new_run, node_of, owned, park, publish, record, replacing, start, taking, task,
        tasks_of, wait_for, withdraw,
    },
    ask::Ask,
    call::{Call, started},
    database::Database,
};

/// An operation that may meet others in a situation.
#[derive(Clone)]
pub struct Part {
    pub name: &'static str,
    pub ask: Ask,
    /// What the holder of a run writes goes through one lane, so it meets nothing of its own but its own repeat.
    pub is_holders: bool,
}

/// A situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// A node holds a run with a message in its inbox, and another node is there.
    Held,
    /// The same, and the holder was silent for too long.
    Stale,
    /// Two nodes are dead, and each held a run.
    Dead,
    /// A run is ready, and nobody has held it.
    Ready,
    /// A run waits for a topic, and its time has come.
    Due,
    /// Two runs are blocked, by another version than the one they are recorded under.
    Blocked,
    /// A run has ended.
    Ended,
    /// A node holds a run that has published three attempts; another node holds two of them.
    Spread,
    /// The same, and the run waits for their outcomes, held by nobody.
    Parked,
    /// The same, and one of them has come: the run is ready, while the others are under way.
    Stirred,
    /// The same as the first, and the node that holds attempts is dead.
    SpreadDead,
    /// A node holds a run; another one holds two children of it, and a third is ready.
    Family,
    /// The same, and the parent waits for its children, held by nobody, and its time has come.
    Expecting,
    /// A queue has limits, a node holds one of its runs, and more are ready: of the same key, and of others.
    Limited,
    /// The same with slots that are kept, and the run waits.
    Kept,
    /// A delayed run has a key.
    Taken,
    /// The same, and a node holds the run.
    TakenHeld,
    /// There are no runs yet.
    Empty,
}

/// What a situation is made on.
pub enum Stage<'s> {
    Model(&'s Memory, &'s TestClock),
    Tables(&'s Database),
}

impl Stage<'_> {
    fn store(&self) -> &dyn Store {
        match self {
            Self::Model(store, _) => *store,
            Self::Tables(database) => &*database.maker,
        }
    }

    async fn set_clock(&self, now: Time) {
        match self {
            Self::Model(_, clock) => clock.advance(now.since(clock.now())),
            Self::Tables(database) => database.set_clock(now).await,
        }
    }
}

impl World {
    /// Makes the situation on an empty store, and answers what may happen in it.
    pub async fn make(self, stage: &Stage<'_>) -> Vec<Part> {
        let store = stage.store();
        stage.set_clock(TestClock::START).await;
        for version in ["1", "2"] {
            store.define(definition(version)).await.unwrap();
        }
        for node in [ONE, TWO, THREE] {
            store.join(node_of(node)).await.unwrap();
        }
        let later = TestClock::START + STALE + Duration::from_secs(1);
        match self {
            Self::Limited | Self::Kept => {
                let hold = self == Self::Kept;
                put(stage, Ask::ChangeQueue(QueueChange::Limits(QueueLimits { hold, ..TWO_AND_ONE }))).await;
                put(stage, Ask::commit(None, vec![(FIRST, lined_up("a"))])).await;
                put(stage, claim_of(ONE, HELD.0)).await;
                for (run, key) in [(SECOND, "a"), (NEW, "b"), (NEWER, "c")] {
                    put(stage, Ask::commit(None, vec![(run, lined_up(key))])).await;
                }
                if self == Self::Kept {
                    put(stage, Ask::commit(ONE, vec![(FIRST, park(HELD, vec![], wait_for("go")))])).await;
                    return kept();
                }
                limited()
            }
            Self::Taken => {
                let delay = Some(Duration::from_secs(3600));
                let Act::Start(new) = taking(KeyConflict::Debounce) else { unreachable!("it is a start") };
                put(stage, Ask::commit(None, vec![(FIRST, start(NewRun { delay, ..*new }))])).await;
                taken()
            }
            Self::TakenHeld => {
                put(stage, Ask::commit(None, vec![(FIRST, keyed("k", 1))])).await;
                put(stage, claim_of(ONE, HELD.0)).await;
                taken_and_held()
            }
            Self::Empty => empty(),
            Self::Ready => {
                put(stage, Ask::commit(None, vec![(FIRST, start(new_run()))])).await;
                ready()
            }
            Self::Held => {
                bystander(stage).await;
                held(hold(stage, ONE, FIRST, HELD).await)
            }
            Self::Stale => {
                bystander(stage).await;
                let message = hold(stage, ONE, FIRST, HELD).await;
                stage.set_clock(later).await;
                for node in [TWO, THREE] {
                    put(stage, Ask::Heartbeat(node)).await;
                }
                stale(message)
            }
            Self::Dead => {
                hold(stage, ONE, SECOND, HELD).await;
                hold(stage, TWO, FIRST, ClaimId(2)).await;
                stage.set_clock(later).await;
                put(stage, Ask::Heartbeat(THREE)).await;
                for node in [ONE, TWO] {
                    put(stage, Ask::DeclareDead(THREE, node)).await;
                }
                put(stage, Ask::Join(node_of(NodeId::from_bytes([4; 16])))).await;
                dead()
            }
            Self::Due => {
                let message = hold(stage, ONE, FIRST, HELD).await;
                let wait = Wait { until: Some(TestClock::START + STALE), ..wait_for("go") };
                put(stage, Ask::commit(ONE, vec![(FIRST, park(HELD, vec![message], wait))])).await;
                stage.set_clock(later).await;
                due()
            }
            Self::Blocked => {
                for (run, claim) in [(FIRST, HELD), (SECOND, ClaimId(2))] {
                    hold(stage, ONE, run, claim).await;
                    let wait = Wait { state: RunState::Blocked, blocked_by: Some(V2), ..wait_for("cancel") };
                    put(stage, Ask::commit(ONE, vec![(run, park(claim, vec![], wait))])).await;
                }
                blocked()
            }
            Self::Spread | Self::Parked | Self::Stirred | Self::SpreadDead => {
                let message = hold(stage, ONE, FIRST, HELD).await;
                put(stage, Ask::commit(ONE, vec![(FIRST, publish(&["b", "c"]))])).await;
                put(stage, tasks_of(TWO, TAKEN.0)).await;
                put(stage, Ask::commit(ONE, vec![(FIRST, publish(&["a"]))])).await;
                if matches!(self, Self::Parked | Self::Stirred) {
                    put(stage, Ask::commit(ONE, vec![(FIRST, park(HELD, vec![], wait_for(OUTCOME)))])).await;
                    if self == Self::Stirred {
                        put(stage, Ask::commit(TWO, vec![(FIRST, deliver("c"))])).await;
                    }
                    return parked();
                }
                if self == Self::SpreadDead {
                    stage.set_clock(later).await;
                    for node in [ONE, THREE] {
                        put(stage, Ask::Heartbeat(node)).await;
                    }
                    put(stage, Ask::DeclareDead(THREE, TWO)).await;
                    return spread_dead(message);
                }
                spread(message)
            }
            Self::Family | Self::Expecting => {
                let message = hold(stage, ONE, FIRST, HELD).await;
                for child in [SECOND, NEWER] {
                    put(stage, Ask::commit(None, vec![(child, child_of(FIRST))])).await;
                }
                put(stage, claim_of(TWO, CARED_FOR.0)).await;
                put(stage, Ask::commit(None, vec![(NEW, child_of(FIRST))])).await;
                if self == Self::Family {
                    return family(message);
                }
                let wait = Wait { until: Some(TestClock::START + STALE), ..wait_for(CHILD) };
                put(stage, Ask::commit(ONE, vec![(FIRST, park(HELD, vec![], wait))])).await;
                stage.set_clock(later).await;
                expecting()
            }
            Self::Ended => {
                let message = hold(stage, ONE, FIRST, HELD).await;
                let taken_in =
                    Act::Record { claim: HELD, steps: vec![], consumed: vec![message], forget: false };
                put(stage, Ask::commit(ONE, vec![(FIRST, taken_in)])).await;
                put(stage, Ask::commit(ONE, vec![(FIRST, end())])).await;
                ended()
            }
        }
    }
}

fn held(message: i64) -> Vec<Part> {
    let mut parts = holders(message);
    parts.extend(strangers());
    parts.extend([
        others("claim", claim_of(TWO, 7)),
        others("heartbeat", Ask::Heartbeat(ONE)),
        others("leave", Ask::Leave(ONE)),
        others("declare_dead", Ask::DeclareDead(TWO, ONE)),
        others("sweep", Ask::Sweep(TWO)),
        others("discard", discard(&[FIRST])),
    ]);
    parts
}

/// Two runs at once, and one of each key.
const TWO_AND_ONE: QueueLimits = QueueLimits { concurrency: Some(2), per_key: Some(1), ..QueueLimits::NONE };

fn limited() -> Vec<Part> {
    let acts = [
        ("record", record(vec![])),
        ("end", end()),
        ("park for a topic", park(HELD, vec![], wait_for("go"))),
        ("release", Act::Release { claim: HELD }),
    ];
    let part = |(name, act)| Part { name, ask: Ask::commit(ONE, vec![(FIRST, act)]), is_holders: true };
    let mut parts: Vec<Part> = acts.into_iter().map(part).collect();
    // It writes only what it was answered to hold.
    parts.push(Part { name: "claim again", ask: claim_of(ONE, HELD.0), is_holders: true });
    parts.extend(in_line());
    parts.extend([
        others("leave", Ask::Leave(ONE)),
        others("end_idle of the next", Ask::commit(None, vec![(SECOND, end_idle(Idle::Any))])),
    ]);
    parts
}

fn kept() -> Vec<Part> {
    let mut parts = in_line();
    parts.extend([
        others("claim again", claim_of(ONE, HELD.0)),
        others("send", Ask::commit(None, vec![(FIRST, message("go", None))])),
        others("call send", Call::send(FIRST, "go", None)),
        others("end_idle", Ask::commit(None, vec![(FIRST, end_idle(Idle::Any))])),
    ]);
    parts
}

/// What may be done to a queue with limits, and to what is in it.
fn in_line() -> Vec<Part> {
    let more = QueueLimits { concurrency: Some(3), ..TWO_AND_ONE };
    vec![
        others("claim", claim_of(TWO, 7)),
        others("claim by another", claim_of(THREE, 8)),
        others("start", Ask::commit(None, vec![(LATER[0], lined_up("d"))])),
        others("start owned", Ask::commit(TWO, vec![(LATER[1], owned(9))])),
        others("raise a limit", Ask::ChangeQueue(QueueChange::Limits(QueueLimits { hold: true, ..more }))),
        others("pause", Ask::ChangeQueue(QueueChange::Paused(true))),
    ]
}

fn taken() -> Vec<Part> {
    let mut parts = takers();
    parts.push(others("send with a key", Ask::commit(None, vec![(FIRST, message("go", Some("k")))])));
    parts
}

fn taken_and_held() -> Vec<Part> {
    let acts = [
        ("end", end()),
        ("park for a cancel", park(HELD, vec![], wait_for("!cancel"))),
        ("release", Act::Release { claim: HELD }),
    ];
    let part = |(name, act)| Part { name, ask: Ask::commit(ONE, vec![(FIRST, act)]), is_holders: true };
    let mut parts: Vec<Part> = acts.into_iter().map(part).collect();
    parts.extend(takers());
    parts.push(others("leave", Ask::Leave(ONE)));
    parts
}

/// Who wants a key that a run has.
fn takers() -> Vec<Part> {
    let take = |name, run, conflict| others(name, Ask::commit(None, vec![(run, taking(conflict))]));
    vec![
        take("replace", LATER[0], replacing()),
        take("replace by another", LATER[1], replacing()),
        take("debounce", LATER[2], KeyConflict::Debounce),
        take("reject", LATER[3], KeyConflict::Reject),
        others("start with the key", Ask::commit(None, vec![(LATER[4], keyed("k", 1))])),
        others("end_idle", Ask::commit(None, vec![(FIRST, end_idle(Idle::Any))])),
        others("claim", claim_of(TWO, 7)),
    ]
}

fn spread(message: i64) -> Vec<Part> {
    let mut parts = publishers(message);
    parts.extend(executors());
    parts.extend([
        others("end_idle", Ask::commit(None, vec![(FIRST, end_idle(Idle::Any))])),
        others("leave of the holder", Ask::Leave(ONE)),
        others("send", Ask::commit(None, vec![(FIRST, message_to_run())])),
    ]);
    parts
}

fn family(message: i64) -> Vec<Part> {
    let acts = [
        ("record and take in", record(vec![message])),
        ("forget", forget()),
        ("park for the children", park(HELD, vec![], wait_for(CHILD))),
        ("park for something else", park(HELD, vec![], wait_for("go"))),
        ("release", Act::Release { claim: HELD }),
        ("end", end()),
    ];
    let part = |(name, act)| Part { name, ask: Ask::commit(ONE, vec![(FIRST, act)]), is_holders: true };
    let mut parts: Vec<Part> = acts.into_iter().map(part).collect();
    parts.extend(children());
    parts.extend([others("leave of the parent", Ask::Leave(ONE)), others("leave", Ask::Leave(TWO))]);
    parts
}

fn expecting() -> Vec<Part> {
    let mut parts = children();
    parts.extend([
        others("claim", claim_of(ONE, 7)),
        others("claim by another", claim_of(THREE, 8)),
        others("send with a key", Ask::commit(None, vec![(FIRST, message("go", Some("k")))])),
        others("call send", Call::send(FIRST, "go", None)),
        others("unblock", Ask::Unblock(THREE, vec![(etl(), V2)])),
    ]);
    parts
}

/// What children of a run may do, and what others may do to them and to it.
fn children() -> Vec<Part> {
    vec![
        others("child ends", Ask::commit(TWO, vec![(SECOND, end_child())])),
        others("children end", Ask::commit(TWO, vec![(NEWER, end_child()), (SECOND, end_child())])),
        others(
            "child ends beside a message",
            Ask::commit(TWO, vec![(FIRST, message("news", None)), (NEWER, end_child())]),
        ),
        others("idle child ends", Ask::commit(None, vec![(NEW, end_idle(Idle::Any))])),
        others("end_idle of the parent", Ask::commit(None, vec![(FIRST, end_idle(Idle::Any))])),
        others("reopen of the child", Ask::commit(None, vec![(SECOND, Act::Reopen { after: 1 })])),
        others("discard of the family", discard(&[NEW, FIRST, SECOND])),
    ]
}

fn parked() -> Vec<Part> {
    let mut parts = executors();
    parts.extend([
        others("claim", claim_of(THREE, 7)),
        others("end_idle", Ask::commit(None, vec![(FIRST, end_idle(Idle::Any))])),
        others("reopen", Ask::commit(None, vec![(FIRST, Act::Reopen { after: 1 })])),
        others("withdraw", Ask::commit(ONE, vec![(FIRST, withdraw(&["a", "b"], Reach::All))])),
    ]);
    parts
}

fn spread_dead(message: i64) -> Vec<Part> {
    let mut parts = publishers(message);
    parts.extend([
        others("sweep", Ask::Sweep(ONE)),
        others("sweep by another", Ask::Sweep(THREE)),
        others("deliver", Ask::commit(TWO, vec![(FIRST, deliver("b"))])),
        others("claim tasks", tasks_of(THREE, 61)),
        others("end_idle", Ask::commit(None, vec![(FIRST, end_idle(Idle::Any))])),
    ]);
    parts
}

/// What the holder of a run may do to what it has published.
fn publishers(message: i64) -> Vec<Part> {
    let acts = [
        ("publish", publish(&["a", "b", "d"])),
        ("withdraw all", withdraw(&["c", "b", "a"], Reach::All)),
        ("withdraw what is free", withdraw(&["c", "b", "a"], Reach::Unclaimed)),
        ("record and take in", record(vec![message])),
        ("end", end()),
        ("park for an outcome", park(HELD, vec![], wait_for(OUTCOME))),
        ("release", Act::Release { claim: HELD }),
    ];
    let part = |(name, act)| Part { name, ask: Ask::commit(ONE, vec![(FIRST, act)]), is_holders: true };
    acts.into_iter().map(part).collect()
}

/// What others may do to what is published.
fn executors() -> Vec<Part> {
    let save = Act::SaveSpread { claim: TAKEN, task: task("b"), value: bytes("half") };
    vec![
        others("deliver", Ask::commit(TWO, vec![(FIRST, deliver("b"))])),
        others("deliver both", Ask::commit(TWO, vec![(FIRST, deliver("c")), (FIRST, deliver("b"))])),
        others("save", Ask::commit(TWO, vec![(FIRST, save)])),
        others("claim tasks", tasks_of(THREE, 61)),
        others("claim tasks by another", tasks_of(ONE, 62)),
        others("claim tasks again", tasks_of(TWO, TAKEN.0)),
        others("leave", Ask::Leave(TWO)),
        others("sweep", Ask::Sweep(THREE)),
    ]
}

fn message_to_run() -> Act {
    message("go", Some("k"))
}

fn stale(message: i64) -> Vec<Part> {
    let mut parts = holders(message);
    // The others are fenced as these are.
    parts.retain(|part| matches!(part.name, "record" | "end" | "park for a topic" | "release"));
    parts.extend([
        others("declare_dead", Ask::DeclareDead(TWO, ONE)),
        others("declare_dead by another", Ask::DeclareDead(THREE, ONE)),
        others("heartbeat", Ask::Heartbeat(ONE)),
        others("leave", Ask::Leave(ONE)),
        others("claim of the holder", claim_of(ONE, 8)),
        others("start owned", Ask::commit(ONE, vec![(NEW, owned(9))])),
        others("sweep", Ask::Sweep(TWO)),
        others("unblock", Ask::Unblock(ONE, vec![(etl(), V1)])),
    ]);
    parts
}

fn dead() -> Vec<Part> {
    let send = |topic: &str| vec![(FIRST, message(topic, None)), (SECOND, message(topic, None))];
    vec![
        others("sweep", Ask::Sweep(THREE)),
        others("sweep by another", Ask::Sweep(NodeId::from_bytes([4; 16]))),
        others("send to both", Ask::commit(None, send("go"))),
        others("call send", Call::send(FIRST, "go", None)),
        others(
            "end_idle",
            Ask::commit(None, vec![(FIRST, end_idle(Idle::Any)), (SECOND, end_idle(Idle::Any))]),
        ),
        others("end", Ask::commit(ONE, vec![(SECOND, end())])),
        others("release", Ask::commit(ONE, vec![(SECOND, Act::Release { claim: HELD })])),
        others("claim", claim_of(THREE, 7)),
        others("heartbeat", Ask::Heartbeat(ONE)),
        others("heartbeat of another", Ask::Heartbeat(THREE)),
        others("leave", Ask::Leave(ONE)),
        others("declare_dead", Ask::DeclareDead(THREE, ONE)),
        others("join again", Ask::Join(node_of(ONE))),
    ]
}

fn ready() -> Vec<Part> {
    let mut parts = strangers();
    parts.extend([
        others("end_idle never claimed", Ask::commit(None, vec![(FIRST, end_idle(Idle::NeverClaimed))])),
        others("claim", claim_of(ONE, 7)),
        others("claim by another", claim_of(TWO, 8)),
        others("start", Ask::commit(None, vec![(NEW, start(new_run()))])),
        others("start owned", Ask::commit(ONE, vec![(NEW, owned(9))])),
        others("start with a key", Ask::commit(TWO, vec![(NEWER, keyed("k", 1))])),
        others("call start", Call::start(LATER[5], None, "{}")),
        others(
            "start beside a repeated one",
            Ask::commit(None, vec![(FIRST, start(new_run())), (NEW, start(new_run()))]),
        ),
    ]);
    parts
}

fn due() -> Vec<Part> {
    let mut parts = strangers();
    parts.extend([
        others("claim", claim_of(ONE, 7)),
        others("claim by another", claim_of(TWO, 8)),
        others("unblock", Ask::Unblock(TWO, vec![(etl(), V2)])),
        others("start owned", Ask::commit(ONE, vec![(NEW, owned(9))])),
        others("repeated park", Ask::commit(ONE, vec![(FIRST, park(HELD, vec![], wait_for("go")))])),
    ]);
    parts
}

fn blocked() -> Vec<Part> {
    let free = |node, claim| match claim_of(node, claim) {
        Ask::Claim(claim) => Ask::Claim(Claim { free_own: true, ..claim }),
        ask => ask,
    };
    let both = |act: Act| Ask::commit(None, vec![(SECOND, act.clone()), (FIRST, act)]);
    vec![
        others("unblock", Ask::Unblock(ONE, vec![(etl(), V1)])),
        others("unblock by another", Ask::Unblock(TWO, vec![(etl(), V1)])),
        others("claim", claim_of(ONE, 7)),
        others("claim that frees", free(ONE, 8)),
        others("claim that frees, by another", free(TWO, 9)),
        others("send to both", both(message("cancel", None))),
        others("end_idle of both", both(end_idle(Idle::Any))),
        others("send", Ask::commit(None, vec![(FIRST, message("cancel", Some("k")))])),
        others("call send", Call::send(FIRST, "cancel", Some("k"))),
    ]
}

fn ended() -> Vec<Part> {
    let mut parts = strangers();
    parts.extend([
        others("end again", Ask::commit(ONE, vec![(FIRST, end())])),
        others("record again", Ask::commit(ONE, vec![(FIRST, record(vec![]))])),
        others("send what was taken in", Ask::commit(None, vec![(FIRST, message("news", Some("paper")))])),
        others("call send what was taken in", Call::send(FIRST, "news", Some("paper"))),
        others("claim", claim_of(ONE, 7)),
        others("claim by another", claim_of(TWO, 8)),
        others("leave", Ask::Leave(ONE)),
        others("discard", discard(&[FIRST])),
        others("discard by a node", discard_of(Some(ONE), vec![(FIRST, 1)])),
        others("discard of what was reopened", discard_of(None, vec![(FIRST, 2)])),
    ]);
    parts
}

fn discard(runs: &[RunId]) -> Ask {
    discard_of(None, runs.iter().map(|run| (*run, 1)).collect())
}

fn discard_of(node: Option<NodeId>, runs: Vec<(RunId, u32)>) -> Ask {
    Ask::Discard(Discard { node, runs, keyed: Keyed::Stays, within: Duration::MAX })
}

fn empty() -> Vec<Part> {
    let two = |run, other, first, second| vec![(run, keyed(first, 1)), (other, keyed(second, 1))];
    let named = |id| Ask::Join(NewNode { name: Some("web".into()), ..node_of(NodeId::from_bytes([id; 16])) });
    vec![
        others("start", Ask::commit(None, vec![(NEW, start(new_run()))])),
        others("start owned", Ask::commit(ONE, vec![(NEW, owned(9))])),
        others("start owned by another", Ask::commit(TWO, vec![(NEWER, owned(10))])),
        others("start with a key", Ask::commit(ONE, vec![(LATER[3], keyed("k", 1))])),
        others("start with the same key", Ask::commit(None, vec![(LATER[4], keyed("k", 1))])),
        others("start with the key of another input", Ask::commit(TWO, vec![(LATER[0], keyed("k", 2))])),
        others("start with two keys", Ask::commit(None, two(LATER[1], LATER[2], "k", "l"))),
        others("start with two keys the other way", Ask::commit(None, two(FIRST, SECOND, "l", "k"))),
        others("claim", claim_of(ONE, 7)),
        others("join", Ask::Join(node_of(NodeId::from_bytes([5; 16])))),
        others("join under a name", named(5)),
        others("another joins under that name", named(6)),
        others("leave", Ask::Leave(ONE)),
        others("define", Ask::Define(definition("3"))),
        others("call start", Call::start(LATER[5], None, "{}")),
        others("call start with a key", Call::start(LATER[6], Some("k"), "{}")),
        others("call start with the same key", Call::start(LATER[7], Some("k"), "{}")),
        others(
            "start with the same key and input",
            Ask::commit(None, vec![(LATER[8], started(Some("k"), "{}"))]),
        ),
    ]
}

/// What the holder may write.
fn holders(message: i64) -> Vec<Part> {
    let soon = Wait { until: Some(TestClock::START + Duration::from_secs(3600)), ..wait_for("never") };
    let acts = [
        ("record", record(vec![])),
        ("record and take in", record(vec![message])),
        ("save", Act::Save { claim: HELD, step: "load".into(), value: bytes("half") }),
        ("end", end()),
        ("park for a time", park(HELD, vec![message], soon)),
        ("park for a topic", park(HELD, vec![message], wait_for("go"))),
        ("park for what is there", park(HELD, vec![], wait_for("news"))),
        ("release", Act::Release { claim: HELD }),
    ];
    let again = start(new_run());
    let beside = Ask::commit(ONE, vec![(FIRST, record(vec![])), (FIRST, end()), (SECOND, again)]);
    let parts =
        acts.map(|(name, act)| Part { name, ask: Ask::commit(ONE, vec![(FIRST, act)]), is_holders: true });
    let mut parts = Vec::from(parts);
    parts.push(Part { name: "end beside a repeated start", ask: beside, is_holders: true });
    parts
}

/// What anybody may ask of a run.
fn strangers() -> Vec<Part> {
    vec![
        others("send", Ask::commit(None, vec![(FIRST, message("go", None))])),
        others("send with a key", Ask::commit(None, vec![(FIRST, message("go", Some("k")))])),
        others("end_idle", Ask::commit(None, vec![(FIRST, end_idle(Idle::Any))])),
        others("reopen", Ask::commit(None, vec![(FIRST, Act::Reopen { after: 1 })])),
        others("call send", Call::send(FIRST, "go", None)),
        others("call send with a key", Call::send(FIRST, "go", Some("k"))),
        others("call cancel", Call::cancel(FIRST)),
    ]
}

fn others(name: &'static str, ask: Ask) -> Part {
    Part { name, ask, is_holders: false }
}

/// A run that was there before, and has ended.
async fn bystander(stage: &Stage<'_>) {
    put(stage, Ask::commit(None, vec![(SECOND, start(new_run()))])).await;
    put(stage, Ask::commit(None, vec![(SECOND, end_idle(Idle::Any))])).await;
}

/// Has a node hold a fresh run that has a message. Answers the number of the message.
async fn hold(stage: &Stage<'_>, node: NodeId, run: RunId, claim: ClaimId) -> i64 {
    // The second is more urgent, so that a claim that gets one of two gets a known one.
    let priority = if run == SECOND { 4 } else { 5 };
    put(stage, Ask::commit(None, vec![(run, start(NewRun { priority, ..new_run() }))])).await;
    put(stage, claim_of(node, claim.0)).await;
    put(stage, Ask::commit(None, vec![(run, message("news", Some("paper")))])).await;
    let image = stage.store().load(run).await.unwrap().unwrap();
    image.inbox[0].seq
}

async fn put(stage: &Stage<'_>, ask: Ask) {
    ask.put(stage.store()).await;
}
