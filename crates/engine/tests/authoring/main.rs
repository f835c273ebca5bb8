//! Writing workflows: what a task may ask for, what it is handed, and what the compiler says.

#![cfg(feature = "macros")]

mod compile_errors;
mod composed;
mod dynamic;
mod hygiene;
#[cfg(feature = "testing")]
mod laboratory;
mod typed;

use serde::{Serialize, de::DeserializeOwned};
use windlass::{__macro::Call, AnyWorkflow, Code, Dependency, Done, Failure, Slot};

/// Runs the body of one task, without an engine.
fn run(workflow: impl Into<AnyWorkflow>, task: &str, call: Call) -> Result<Done, Failure> {
    let workflow = workflow.into();
    let at = workflow.definition().find(task).expect("the workflow has the task");
    match &workflow.code()[at.get()].run {
        Code::Blocking(body) => body(call),
        Code::Async(body) => {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
            runtime.block_on(body(call))
        }
        #[allow(unreachable_patterns, reason = "without a store there are no transactions")]
        _ => panic!("a body with a transaction needs an engine"),
    }
}

/// Runs a body and decodes its result.
fn result<T: DeserializeOwned>(
    workflow: impl Into<AnyWorkflow>,
    task: &str,
    call: Call,
) -> Result<T, Failure> {
    run(workflow, task, call)?.output.decode()
}

fn slot<T: Serialize + Send + Sync + 'static>(value: T) -> Slot {
    Slot::new(value).expect("the value can be stored")
}

/// A call with an input and the results of the dependencies.
fn call(input: Slot, results: impl IntoIterator<Item = Slot>) -> Call {
    Call::detached("test", input).with_dependencies(results.into_iter().map(Dependency::Completed))
}
