//! Runs that a machine starts.

use serde::{Deserialize, Serialize};
use windlass::{Failure, Flow, Res, Result, RunState, flow, machine, machine::MachineState, testing::Lab};

use crate::tally::{Tally, secs};

#[flow]
async fn errand(cx: &Flow, n: u32, tally: Res<Tally>) -> Result<u32> {
    let tally = &tally;
    cx.sleep(secs(30)).await?;
    cx.step("run", || async { Ok::<_, Failure>(tally.add("errand")) }).await?;
    if n == 13 { Err(Failure::permanent("unlucky")) } else { Ok(n * 2) }
}

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum State {
    Asking,
    Waiting,
    Done,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Plan {
    n: u32,
    /// How long an answer is waited for.
    patience: u64,
    leaves: bool,
    answer: Option<u32>,
}

struct Parent(Tally);

#[machine(state = State, data = Plan, initial = Asking, terminal = [Done])]
impl Parent {
    #[on(Asking, to = [Waiting], retry(attempts = 2, delay = "1h", on = all))]
    async fn ask(&self, cx: &Flow, data: &mut Plan) -> Result<State> {
        let child = cx.run(errand::workflow(), data.n);
        let child = if data.leaves { child.leave() } else { child };
        data.answer = windlass::select! {
            answer = child => Some(answer.map_err(|failure| Failure::new(failure.message))?),
            slept = cx.sleep(secs(data.patience)) => slept.map(|()| None)?,
        };
        Ok(State::Waiting)
    }

    #[on(Waiting, to = [Done])]
    async fn wait(&self, cx: &Flow, _data: &mut Plan) -> Result<State> {
        let tally = &self.0;
        cx.sleep(secs(600)).await?;
        cx.step("note", || async move { Ok::<_, Failure>(tally.add("note")) }).await?;
        Ok(State::Done)
    }
}

async fn launched(lab: &Lab, tally: &Tally) -> Result<windlass::Engine> {
    let builder = lab.engine().resource(Parent(tally.clone())).resource(tally.clone());
    Ok(builder.workflow(Parent::workflow()).workflow(errand::workflow()).launch().await?)
}

#[windlass::test]
async fn a_child_is_awaited_and_crashed_everywhere_it_runs_once(lab: Lab) -> Result<()> {
    lab.crash_everywhere(|builder| async {
        let tally = Tally::default();
        let builder = builder.resource(Parent(tally.clone())).resource(tally.clone());
        let engine = builder.workflow(Parent::workflow()).workflow(errand::workflow()).launch().await?;
        let plan = Plan { n: 4, patience: 3600, ..Plan::default() };
        let run = engine.start(Parent::workflow(), plan).key("one").await?;
        assert_eq!(run.await?.data.answer, Some(8));
        assert_eq!(engine.runs().workflow("errand").list().await?.len(), 1);
        engine.stop().await?;
        Ok::<_, Failure>(())
    })
    .await?;
    Ok(())
}

#[windlass::test]
async fn a_child_that_nobody_waits_for_ends_with_the_state_that_started_it(lab: Lab) -> Result<()> {
    for (leaves, state) in [(false, RunState::Cancelled), (true, RunState::Completed)] {
        let tally = Tally::default();
        let engine = launched(&lab, &tally).await?;
        let plan = Plan { n: 4, patience: 10, leaves, ..Plan::default() };
        let run = engine.start(Parent::workflow(), plan).await?;
        lab.advance(secs(60)).await;
        let children = engine.runs().workflow("errand").list().await?;
        assert_eq!(children.first().map(|child| child.standing.state()), Some(state), "leaves: {leaves}");
        assert_eq!(tally.of("note"), 0, "the machine goes on");
        assert_eq!(run.await?.data.answer, None);
        engine.stop().await?;
    }
    Ok(())
}

#[windlass::test]
async fn a_child_that_failed_stays_failed_when_its_handler_is_called_again(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = launched(&lab, &tally).await?;
    let plan = Plan { n: 13, patience: 3600, ..Plan::default() };
    let error = engine.start(Parent::workflow(), plan).await?.await.unwrap_err().to_string();
    assert!(error.contains("unlucky"), "{error}");
    assert_eq!(tally.of("errand"), 1);
    Ok(())
}
