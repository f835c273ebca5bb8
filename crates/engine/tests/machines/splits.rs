//! Branches that run at once, and when they are enough.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{
    Failure, Flow, Result, machine,
    machine::{Branch, Joined, MachineState},
    testing::Lab,
};

use crate::tally::{Tally, secs};

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum State {
    Begin,
    All,
    Any,
    Quorum,
    Percentage,
    Partial,
    PartialTimeout,
    Done,
}

/// After how many seconds each branch ends; below zero, with a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Plan {
    join: State,
    ends: [i64; 3],
    joined: Vec<String>,
}

struct Splits(Tally);

impl Splits {
    async fn branch(&self, cx: &Flow, name: &'static str, ends: i64) -> Result<String> {
        self.0.add(format!("begin {name}"));
        cx.sleep(Duration::from_secs(ends.unsigned_abs())).await?;
        if ends < 0 { Err(Failure::permanent(format!("{name} broke"))) } else { Ok(name.to_owned()) }
    }

    fn note(data: &mut Plan, results: &Joined) -> State {
        let branches = results.iter().map(|(name, branch)| match branch {
            Branch::Completed(_) => format!("{name} completed"),
            Branch::Failed(_) => format!("{name} failed"),
            _ => format!("{name} cancelled"),
        });
        data.joined = branches.collect();
        State::Done
    }
}

#[machine(state = State, data = Plan, initial = Begin, terminal = [Done])]
impl Splits {
    #[on(Begin, to = [All, Any, Quorum, Percentage, Partial, PartialTimeout], router)]
    fn begin(&self, data: &Plan) -> Result<State> {
        Ok(data.join.clone())
    }

    async fn a(&self, cx: &Flow, data: &Plan) -> Result<String> {
        self.branch(cx, "a", data.ends[0]).await
    }

    async fn b(&self, cx: &Flow, data: &Plan) -> Result<String> {
        self.branch(cx, "b", data.ends[1]).await
    }

    async fn c(&self, cx: &Flow, data: &Plan) -> Result<String> {
        self.branch(cx, "c", data.ends[2]).await
    }

    #[on(All, to = [Done], split = [a, b, c])]
    async fn all(&self, data: &mut Plan, results: Joined) -> Result<State> {
        Ok(Self::note(data, &results))
    }

    #[on(Any, to = [Done], split = [a, b, c], join = any)]
    async fn any(&self, data: &mut Plan, results: Joined) -> Result<State> {
        Ok(Self::note(data, &results))
    }

    #[on(Quorum, to = [Done], split = [a, b, c], join = quorum(2), limit = 2)]
    async fn quorum(&self, data: &mut Plan, results: Joined) -> Result<State> {
        Ok(Self::note(data, &results))
    }

    #[on(Percentage, to = [Done], split = [a, b, c], join = percentage(60))]
    async fn percentage(&self, data: &mut Plan, results: Joined) -> Result<State> {
        Ok(Self::note(data, &results))
    }

    #[on(Partial, to = [Done], split = [a, b, c], join = partial(1))]
    async fn partial(&self, data: &mut Plan, results: Joined) -> Result<State> {
        Ok(Self::note(data, &results))
    }

    #[on(PartialTimeout, to = [Done], split = [a, b, c], join = partial_timeout("1h"))]
    async fn partial_timeout(&self, data: &mut Plan, results: Joined) -> Result<State> {
        Ok(Self::note(data, &results))
    }
}

/// What became of the branches, and after how many seconds that was certain.
async fn split(lab: &Lab, join: State, ends: [i64; 3]) -> Result<(Result<String>, u64)> {
    let engine =
        lab.engine().resource(Splits(Tally::default())).workflow(Splits::workflow()).launch().await?;
    let begun = lab.now();
    let run = engine.start(Splits::workflow(), Plan { join, ends, joined: Vec::new() }).await?;
    let end = run.await;
    let span = lab.now().since(begun).as_secs();
    engine.stop().await?;
    Ok((end.map(|end| end.data.joined.join(", ")).map_err(|error| Failure::new(error.to_string())), span))
}

#[windlass::test]
async fn each_join_ends_as_soon_as_its_outcome_is_certain(lab: Lab) -> Result<()> {
    for (join, ends, outcome, at) in [
        (State::All, [10, 20, 30], Ok("a completed, b completed, c completed"), 30),
        (State::All, [10, -20, 3000], Err("b broke"), 20),
        (State::Any, [-10, 20, 3000], Ok("a failed, b completed, c cancelled"), 20),
        (State::Any, [-10, -20, -30], Err("c broke"), 30),
        // The third begins when the first has ended: there is room for two.
        (State::Quorum, [10, 3000, 20], Ok("a completed, b cancelled, c completed"), 30),
        (State::Quorum, [-10, -20, 3000], Err("2 are needed"), 20),
        (State::Percentage, [10, 20, 3000], Ok("a completed, b completed, c cancelled"), 20),
        (State::Percentage, [-10, -20, 3000], Err("a broke"), 20),
        (State::Partial, [10, -20, 3000], Ok("a completed, b failed, c completed"), 3000),
        (State::Partial, [-10, -20, -30], Err("c broke"), 30),
        (State::PartialTimeout, [10, -20, 9000], Ok("a completed, b failed, c cancelled"), 3600),
        (State::PartialTimeout, [10, -20, 30], Ok("a completed, b failed, c completed"), 30),
        (State::PartialTimeout, [-10, 9000, 9000], Err("none completed within"), 3600),
    ] {
        let (end, span) = split(&lab, join.clone(), ends).await?;
        match (&end, outcome) {
            (Ok(end), Ok(expected)) => assert_eq!(end, expected, "{join:?} {ends:?}"),
            (Err(failure), Err(part)) => {
                let text = failure.to_string();
                assert!(text.contains(part), "{join:?} {ends:?}: {text}");
            }
            _ => panic!("{join:?} {ends:?}: {end:?}"),
        }
        assert!((at..at + 5).contains(&span), "{join:?} {ends:?} took {span} s");
    }
    Ok(())
}

#[windlass::test]
async fn a_limit_lets_no_more_branches_begin(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(Splits(tally.clone())).workflow(Splits::workflow()).launch().await?;
    let plan = Plan { join: State::Quorum, ends: [100, 3000, 10], joined: Vec::new() };
    let run = engine.start(Splits::workflow(), plan).await?;
    lab.advance(secs(1)).await;
    assert_eq!(tally.all(), ["begin a", "begin b"]);
    run.await?;
    assert!(tally.of("begin c") > 0);
    Ok(())
}
