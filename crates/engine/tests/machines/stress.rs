//! Machines by a real clock, many at once.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{
    Engine, Failure, Flow, Result, Retry, machine,
    machine::{Joined, MachineState},
};

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum State {
    Racing,
    Done,
}

struct Race;

#[machine(state = State, data = u64, initial = Racing, terminal = [Done])]
impl Race {
    async fn dies(&self, cx: &Flow, data: &u64) -> Result<()> {
        let after = Duration::from_micros(*data % 7 * 100);
        cx.step("dies", || async move {
            tokio::time::sleep(after).await;
            Err::<(), _>(Failure::permanent("it died"))
        })
        .await
    }

    async fn stumbles(&self, cx: &Flow, data: &u64) -> Result<()> {
        let after = Duration::from_micros(*data % 11 * 100);
        let step = cx.step("stumbles", || async move {
            tokio::time::sleep(after).await;
            Err::<(), _>(Failure::new("it stumbled"))
        });
        step.retry(Retry::attempts(9).delay(Duration::from_secs(3600)).fixed()).await
    }

    #[on(Racing, to = [Done], split = [dies, stumbles], retry(attempts = 3, delay = "1ms"))]
    async fn race(&self, _data: &mut u64, results: Joined) -> Result<State> {
        results.get::<()>("dies").map(|()| State::Done)
    }
}

#[tokio::test]
async fn a_handler_is_called_again_although_a_branch_was_being_recorded_when_it_failed() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").resource(Race).workflow(Race::workflow()).launch().await?;
    let mut runs = Vec::new();
    for data in 0..500 {
        runs.push(engine.start(Race::workflow(), data).await?);
    }
    for run in runs {
        let end = tokio::time::timeout(Duration::from_secs(20), run).await.expect("it comes to its end");
        assert!(end.unwrap_err().to_string().contains("it died"));
    }
    engine.stop().await?;
    Ok(())
}
