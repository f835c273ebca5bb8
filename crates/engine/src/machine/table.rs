//! A machine as data: which method handles which state, where it may lead, and under which policies.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use windlass_core::{Chart, ChartState, Failure, Retry};

use super::{Finished, MachineState, breaker::BreakerParts, drive::drive, rate::RateParts};
use crate::{
    Flow, Want, Workflow,
    authoring::{
        bind::{done, input, resource},
        parts::RetryParts,
    },
    flow::{FlowParts, charted},
};

/// A method of a machine on its way to its answer.
pub type Handled<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// What a handler came to.
#[derive(Debug)]
pub enum Move<S> {
    /// This is the next state.
    To(S),
    /// It is called again in the same state, with this cursor.
    Again(Value),
}

/// The method that handles a state, called with the cursor of the call before it.
pub type Body<M, S, D> = for<'a> fn(&'a M, &'a Flow, &'a mut D, Value) -> Handled<'a, Move<S>>;

/// What a macro saw of a handler.
#[derive(Debug)]
pub struct Handler<M, S, D> {
    /// The state that it handles.
    pub state: &'static str,
    /// Where it may lead.
    pub to: &'static [&'static str],
    /// What happens after a failed attempt. Default: the run fails.
    pub retry: Option<RetryParts>,
    /// The longest that one attempt may take.
    pub timeout: Option<Duration>,
    /// How long it waits before it is called again in the same state.
    pub poll: Option<Duration>,
    /// When it is not tried at all, since it failed too often.
    pub breaker: Option<BreakerParts>,
    /// How often it may begin.
    pub rate: Option<RateParts>,
    /// Its code.
    pub body: Body<M, S, D>,
}

/// What a macro saw of a machine as a whole.
#[derive(Debug)]
pub struct MachineParts<M, S, D> {
    /// What it shares with every durable function.
    pub flow: FlowParts,
    /// The state that a run begins in.
    pub initial: S,
    /// The states that a run ends in.
    pub terminal: &'static [&'static str],
    /// The handlers, one for each other state.
    pub handlers: Vec<Handler<M, S, D>>,
}

/// A handler, ready to be used.
pub(super) struct Ready<M, S, D> {
    pub(super) parts: Handler<M, S, D>,
    pub(super) retry: Retry,
}

/// A machine, ready to be used.
pub(super) struct Table<M, S, D> {
    pub(super) name: &'static str,
    pub(super) initial: S,
    pub(super) terminal: &'static [&'static str],
    pub(super) handlers: Vec<Ready<M, S, D>>,
}

impl<M, S, D> Table<M, S, D> {
    pub(super) fn handler(&self, state: &str) -> Option<&Ready<M, S, D>> {
        self.handlers.iter().find(|handler| handler.parts.state == state)
    }
}

/// The workflow that a machine is.
pub fn machine<M, S, D>(parts: MachineParts<M, S, D>) -> Workflow<D, Finished<S, D>>
where
    M: Send + Sync + 'static,
    S: MachineState,
    D: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let MachineParts { flow: function, initial, terminal, handlers } = parts;
    let chart = chart(&initial, terminal, &handlers);
    let ready = handlers.into_iter().map(|parts| {
        let retry = parts.retry.as_ref().map_or_else(|| Retry::attempts(1), RetryParts::policy);
        Ready { parts, retry }
    });
    let table = Arc::new(Table { name: function.name, initial, terminal, handlers: ready.collect() });
    charted(
        function,
        Some(chart),
        vec![Want::of::<M>()],
        Arc::new(move |call, flow| {
            let table = Arc::clone(&table);
            Box::pin(async move {
                let machine = resource::<M>(&call)?;
                let end = drive(&table, &machine, &flow, &*input::<D>(&call)?).await?;
                done(end, windlass_core::Changes::default())
            })
        }),
    )
}

fn chart<M, S: MachineState, D>(
    initial: &S,
    terminal: &[&'static str],
    handlers: &[Handler<M, S, D>],
) -> Chart {
    let state = |name: &&'static str| ChartState {
        name: (*name).into(),
        to: handlers
            .iter()
            .find(|handler| handler.state == *name)
            .map(|handler| handler.to.iter().map(|to| (*to).into()).collect())
            .unwrap_or_default(),
        is_terminal: terminal.contains(name),
    };
    Chart { initial: initial.name().into(), states: S::STATES.iter().map(state).collect() }
}

/// The policy that a macro saw.
#[must_use]
pub fn policy(parts: RetryParts) -> Retry {
    parts.policy()
}

/// The cursor that a stepped handler goes on from; where it begins, the default.
#[expect(clippy::missing_errors_doc, reason = "macros call it")]
pub fn read_cursor<C: DeserializeOwned + Default>(cursor: Value) -> Result<C, Failure> {
    match cursor {
        Value::Null => Ok(C::default()),
        cursor => serde_json::from_value(cursor).map_err(|error| {
            Failure::permanent(format!("the recorded cursor does not fit its type: {error}"))
        }),
    }
}

/// The cursor, as it is recorded.
#[expect(clippy::missing_errors_doc, reason = "macros call it")]
pub fn write_cursor<C: Serialize>(cursor: &C) -> Result<Value, Failure> {
    serde_json::to_value(cursor)
        .map_err(|error| Failure::permanent(format!("the cursor cannot be recorded: {error}")))
}
