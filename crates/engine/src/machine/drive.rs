//! Driving a machine: from visit to visit, until it is in a state that is terminal.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll as Polled};

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use windlass_core::{Failure, Time, format_duration};

use super::{
    Finished, MachineState, Visited,
    breaker::Passed,
    table::{Handled, Move, Ready, Table},
};
use crate::{
    Flow, Res, Slot,
    attempt::guard,
    flow::{RATE, TIMEOUT, Visit},
};

/// The call by which a visit waits before it asks again.
const PAUSE: &str = "/pause";

/// What a visit came to, as it is recorded.
#[derive(Serialize, Deserialize)]
struct Passage<S, D> {
    /// The next state; the same one again if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<S>,
    /// Where the same state goes on.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    cursor: Value,
    data: D,
}

/// Where a machine is.
struct Place<S> {
    state: S,
    /// Whether the visit before this one was of the same state, and is to be gone on with.
    goes_on: bool,
    /// The passage that led here.
    passage: Bytes,
}

impl<S: MachineState> Place<S> {
    fn follow<D: DeserializeOwned>(self, passage: Bytes) -> Result<Self, Failure> {
        let Passage { to, .. } = decode::<S, D>(&passage)?;
        let goes_on = to.is_none();
        Ok(Self { state: to.unwrap_or(self.state), goes_on, passage })
    }
}

fn decode<S: MachineState, D: DeserializeOwned>(passage: &Bytes) -> Result<Passage<S, D>, Failure> {
    Slot::from_bytes(passage.clone()).decode()
}

fn encode<S: MachineState, D: Serialize>(passage: &Passage<S, D>) -> Result<Bytes, Failure> {
    serde_json::to_vec(passage)
        .map(Bytes::from)
        .map_err(|error| Failure::permanent(format!("the machine's data cannot be recorded: {error}")))
}

/// Drives a machine to its end.
pub(super) async fn drive<M, S, D>(
    table: &Arc<Table<M, S, D>>,
    machine: &Res<M>,
    flow: &Flow,
    input: &D,
) -> Result<Finished<S, D>, Failure>
where
    M: Send + Sync + 'static,
    S: MachineState,
    D: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let state = table.initial.clone();
    let begin = Passage { to: Some(state.clone()), cursor: Value::Null, data: input };
    let mut place = Place { state, goes_on: false, passage: encode(&begin)? };
    loop {
        let name = place.state.name();
        if table.terminal.contains(&name) {
            let Passage { data, .. } = decode::<S, D>(&place.passage)?;
            return Ok(Finished { state: place.state, data });
        }
        let Some(handler) = table.handler(name) else {
            return Err(Failure::permanent(format!("the state `{name}` of `{}` has no handler", table.name)));
        };
        let visit = flow.visit(name);
        let passage = if visit.is_over() {
            let (table, machine) = (Arc::clone(table), machine.clone());
            let (from, goes_on) = (place.passage.clone(), place.goes_on);
            let look_back = move |flow: Flow| -> crate::flow::Looking {
                Box::pin(async move {
                    let Some(handler) = table.handler(name) else { return };
                    let call = Attempt { table: &table, handler, machine: &machine, from: &from, goes_on };
                    // What it came to is known, and what it did is being heard of.
                    drop(call.make(&flow, flow.now()).await);
                })
            };
            visit.read::<Passage<S, D>>(look_back).await?
        } else {
            let call = Attempt { table, handler, machine, from: &place.passage, goes_on: place.goes_on };
            call.visit(&visit).await?
        };
        place = place.follow::<D>(passage)?;
    }
}

/// What an attempt of a handler is made with.
struct Attempt<'a, M, S, D> {
    table: &'a Table<M, S, D>,
    handler: &'a Ready<M, S, D>,
    machine: &'a M,
    /// The passage that led here.
    from: &'a Bytes,
    goes_on: bool,
}

impl<M, S, D> Attempt<'_, M, S, D>
where
    M: Send + Sync + 'static,
    S: MachineState,
    D: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Makes attempts until one succeeds, and records what it came to.
    async fn visit(&self, visit: &Visit) -> Result<Bytes, Failure> {
        let flow = &visit.flow;
        let observers = &flow.cell().node.observers;
        let visited =
            || Visited { run: flow.run_id(), machine: self.table.name, state: self.handler.parts.state };
        let (mut spent, mut begun) = visit.enter().await;
        if spent == 0 && !self.goes_on && !flow.is_behind() {
            observers.entered(visited);
        }
        loop {
            let failure = match self.make(flow, begun).await {
                Ok((passage, to)) => {
                    visit.end(passage.clone()).await?;
                    if let Some(to) = to {
                        observers.left(visited, to);
                    }
                    return Ok(passage);
                }
                Err(failure) => failure,
            };
            let retry = self.handler.retry.decide(spent + 1, &failure, crate::run_loop::fastrand());
            self.log(flow, spent + 1, &failure, retry);
            observers.failed(visited, &failure);
            let Some(delay) = retry else { return Err(failure) };
            spent += 1;
            begun = visit.again(spent, &failure, delay).await;
        }
    }

    /// Makes one attempt. Answers what is to be recorded, and the next state, if it is another one.
    async fn make(&self, flow: &Flow, begun: Time) -> Result<(Bytes, Option<&'static str>), Failure> {
        let parts = &self.handler.parts;
        let Passage { cursor, mut data, .. } = decode::<S, D>(self.from)?;
        if let Some(pause) = parts.poll.filter(|_| self.goes_on) {
            flow.pause(PAUSE, begun + pause).await?;
        }
        let passed = self.admit(flow, begun).await?;
        let body =
            (parts.body)(self.machine, flow, &mut data, if self.goes_on { cursor } else { Value::Null });
        let moved = self.in_time(flow, begun, body).await;
        self.tell_breaker(flow, passed, moved.is_ok());
        let (to, cursor) = match moved? {
            Move::To(state) => (Some(state), Value::Null),
            Move::Again(cursor) => (None, cursor),
        };
        let name = to.as_ref().map(MachineState::name);
        if let Some(name) = name.filter(|name| !parts.to.contains(name)) {
            return Err(self.astray(name));
        }
        Ok((encode(&Passage { to, cursor, data })?, name))
    }

    /// Waits until the handler may begin, or says that it may not.
    async fn admit(&self, flow: &Flow, begun: Time) -> Result<Option<Passed>, Failure> {
        let parts = &self.handler.parts;
        let node = &flow.cell().node;
        let is_new = !flow.is_behind();
        if let Some(rate) = &parts.rate {
            if flow.has(RATE) {
                flow.pause(RATE, flow.now()).await?;
            } else if is_new {
                let now = node.hub.clock.now();
                let asker = (flow.run_id(), Arc::clone(flow.visit_id()), begun);
                let turn = node.guards.turn(self.table.name, parts.state, rate, asker, now);
                if turn > now {
                    flow.pause(RATE, turn).await?;
                }
            }
        }
        match &parts.breaker {
            // One that had begun before this process goes on, whatever others do.
            Some(breaker) if is_new => {
                node.guards.pass(self.table.name, parts.state, breaker, &node.hub).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// One that was parked meanwhile, or begun in another process, has not passed here; how it ended counts all the same.
    fn tell_breaker(&self, flow: &Flow, passed: Option<Passed>, succeeded: bool) {
        let (parts, node) = (&self.handler.parts, &flow.cell().node);
        match (passed, &parts.breaker) {
            (Some(passed), _) => passed.ended(succeeded),
            (None, Some(breaker)) if !flow.is_behind() => {
                node.guards.ended(self.table.name, parts.state, breaker, succeeded, node.hub.clock.now());
            }
            _ => {}
        }
    }

    /// Waits for the handler, but not for too long. A panic of it is a failure.
    async fn in_time<T>(&self, flow: &Flow, begun: Time, mut body: Handled<'_, T>) -> Result<T, Failure> {
        let mut body = poll_fn(move |cx| {
            guard(|| body.as_mut().poll(cx)).unwrap_or_else(|panic| Polled::Ready(Err(panic)))
        });
        let Some(timeout) = self.handler.parts.timeout else { return body.await };
        let begun = begun.max(flow.now());
        let mut timer = pin!(flow.aside(TIMEOUT, begun + timeout));
        poll_fn(|cx| {
            if let Polled::Ready(outcome) = pin!(&mut body).poll(cx) {
                return Polled::Ready(outcome);
            }
            timer.as_mut().poll(cx).map(|ended| ended.and(Err(Failure::timed_out(timeout))))
        })
        .await
    }

    fn astray(&self, to: &str) -> Failure {
        let parts = &self.handler.parts;
        Failure::permanent(format!(
            "the handler of `{}` returned `{to}`, which is not in its `to = [{}]`",
            parts.state,
            parts.to.join(", ")
        ))
    }

    fn log(&self, flow: &Flow, attempt: u32, failure: &Failure, retry: Option<std::time::Duration>) {
        let (run, machine, state) = (flow.run_id(), self.table.name, self.handler.parts.state);
        let attempts = self.handler.retry.attempts;
        match retry.map(format_duration) {
            Some(delay) => tracing::warn!(
                %run, machine, state, attempt, attempts, %failure, delay,
                "{state} failed, attempt {attempt} of {attempts}: {failure}; trying again in {delay}"
            ),
            None => tracing::warn!(
                %run, machine, state, attempt, attempts, %failure,
                "{state} failed for good, attempt {attempt} of {attempts}: {failure}"
            ),
        }
    }
}
