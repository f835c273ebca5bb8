//! The state machine that the tests run.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use windlass::{
    machine::{Joined, MachineState, Poll, Progress},
    prelude::*,
};

use crate::{
    durable::{GO, Plan, errand, noted},
    ledger::Ledger,
};

/// Where a voyage is.
#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Leg {
    Walking,
    Joining,
    Waiting,
    Asking,
    Sending,
    Choosing,
    Ending,
    Home,
}

/// What a voyage carries.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Luggage {
    plan: Plan,
    pub sum: u64,
    asked: u32,
}

impl Luggage {
    pub const fn new(plan: Plan) -> Self {
        Self { plan, sum: 0, asked: 0 }
    }
}

/// What a journey does, as a state machine with a handler of each kind.
pub struct Voyage(pub Arc<Ledger>);

#[machine(state = Leg, data = Luggage, initial = Walking, terminal = [Home])]
impl Voyage {
    #[on(Walking, to = [Joining], stepped)]
    async fn walk(&self, cx: &Flow, data: &mut Luggage, cursor: &mut u64) -> Result<Progress<Leg>> {
        data.sum += noted(cx, &self.0, "link", 0).await?;
        *cursor += 1;
        Ok(if *cursor < data.plan.links { Progress::More } else { Progress::Done(Leg::Joining) })
    }

    async fn left(&self, cx: &Flow) -> Result<u64> {
        noted(cx, &self.0, "left", 0).await
    }

    async fn right(&self, cx: &Flow) -> Result<u64> {
        noted(cx, &self.0, "right", 0).await
    }

    async fn flaky(&self, cx: &Flow) -> Result<u64> {
        noted(cx, &self.0, "flaky", 1).await
    }

    #[on(Joining, to = [Waiting], split = [left, right, flaky], limit = 2)]
    async fn join(&self, data: &mut Luggage, results: Joined) -> Result<Leg> {
        for branch in ["left", "right", "flaky"] {
            data.sum += results.get::<u64>(branch)?;
        }
        Ok(Leg::Waiting)
    }

    #[on(Waiting, to = [Asking])]
    async fn wait(&self, cx: &Flow, data: &mut Luggage) -> Result<Leg> {
        cx.sleep(Duration::from_millis(2)).await?;
        data.sum += cx.event(GO).await?;
        Ok(Leg::Asking)
    }

    /// The second question fails for good at first; then the handler tidies up, and is called again.
    #[on(Asking, to = [Sending], poll = "1ms", retry(attempts = 2, delay = "1ms"))]
    async fn ask(&self, cx: &Flow, data: &mut Luggage) -> Result<Poll<Leg>> {
        let answer = noted(cx, &self.0, "item", if data.asked == 1 { 3 } else { 0 }).await;
        if answer.is_err() {
            cx.step("tidy", || async { Ok::<_, Failure>(()) }).await?;
        }
        data.sum += answer?;
        data.asked += 1;
        Ok(if data.asked < 3 { Poll::Again } else { Poll::Ready(Leg::Sending) })
    }

    #[on(Sending, to = [Choosing])]
    async fn send(&self, cx: &Flow, data: &mut Luggage) -> Result<Leg> {
        data.sum += cx.run(errand::workflow(), ()).await?;
        Ok(Leg::Choosing)
    }

    #[on(Choosing, to = [Ending], router)]
    fn choose(&self, data: &Luggage) -> Result<Leg> {
        if data.plan.fails { Err(Failure::permanent("no seats")) } else { Ok(Leg::Ending) }
    }

    #[on(Ending, to = [Home])]
    async fn end(&self, cx: &Flow, data: &mut Luggage) -> Result<Leg> {
        data.sum += noted(cx, &self.0, "end", 0).await?;
        Ok(Leg::Home)
    }
}
