//! What several tests share.

use std::{pin::Pin, sync::Arc};

use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use windlass::{
    __macro::{FlowParts, Want, done, flow, input, resource},
    Flow, Res, Result, Workflow,
};

/// Counts what was done, by name.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<Vec<String>>>);

impl Tally {
    pub fn add(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    pub fn of(&self, what: &str) -> usize {
        self.0.lock().iter().filter(|done| *done == what).count()
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

pub type Fut<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

pub fn function<I, O>(
    name: &'static str,
    f: for<'a> fn(&'a Flow, I, Res<Tally>) -> Fut<'a, O>,
) -> Workflow<I, O>
where
    I: DeserializeOwned + Clone + Send + Sync + 'static,
    O: Serialize + Send + Sync + 'static,
{
    let parts = FlowParts { name, description: None, version: None, timeout: None, code: "" };
    flow(
        parts,
        vec![Want::of::<Tally>()],
        Arc::new(move |call, cx| {
            Box::pin(async move {
                let given = input::<I>(&call)?;
                let tally = resource::<Tally>(&call)?;
                done(f(&cx, I::clone(&given), tally).await?, Default::default())
            })
        }),
    )
}
