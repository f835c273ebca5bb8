//! Handing tasks to something else than their own code.

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_core::{Changes, Context, Definition, Failure, RunId, TaskIx};

use crate::{
    AnyWorkflow, BoxFuture, Call, Code, Cx, Dependency, Done, Item, Outcome, Resources, Slot, Workflow,
    run_loop::Subject,
};

/// Executes the tasks of a queue in place of their own code: in a pool of processes, say, or by a remote service.
///
/// An engine is given one with [`EngineBuilder::executor`](crate::EngineBuilder::executor). All that holds for tasks
/// holds for what it does: limits, retries, cancellation, and that an attempt whose process died is made again. See
/// the example `process_pool`.
pub trait Executor: Send + Sync + 'static {
    /// Does what one attempt of a task is to do, and answers its result.
    ///
    /// `cx` is what the task's own code would get: ids, the attempt, an idempotency key, cancellation. The future is
    /// dropped when the attempt is over its limit, or is stopped.
    fn execute(&self, assignment: Assignment, cx: Cx) -> Executing<'_>;
}

/// What an [`Executor`] answers, on its way.
pub type Executing<'a> = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send + 'a>>;

/// What one attempt of a task is to do, as data that can be sent anywhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The run.
    pub run: RunId,
    /// The workflow's name.
    pub workflow: String,
    /// The workflow's version.
    pub version: String,
    /// The task's name.
    pub task: String,
    /// Which attempt this is, counted from 1.
    pub attempt: u32,
    /// The same for every attempt of this task (or instance) of this run: for systems that can tell a repeat from a new
    /// request.
    pub key: String,
    /// The run's input.
    pub input: Value,
    /// How the tasks ended that it waits for, by name.
    pub results: BTreeMap<String, Outcome<Value>>,
    /// The element and its place, in a `for_each`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<(usize, Value)>,
    /// What the task sees of the run's context.
    pub context: Map<String, Value>,
}

impl<I, O> Workflow<I, O> {
    /// Does what an [`Assignment`] asks for with the code of this workflow, in a process that has no engine: what a
    /// worker of a pool does that an [`Executor`] hands tasks to.
    ///
    /// The code sees what the assignment says. What it changes in the context, saves or beats stays here.
    ///
    /// # Errors
    ///
    /// When the task fails, or the workflow has no such task.
    pub async fn perform(&self, assignment: Assignment, resources: Resources) -> Result<Value, Failure> {
        let workflow = AnyWorkflow::from(self);
        let definition = workflow.definition();
        let Some(at) = definition.find(&assignment.task) else {
            let (name, task) = (&definition.name, &assignment.task);
            return Err(Failure::permanent(format!("the workflow `{name}` has no task `{task}`")));
        };
        let call = assignment.call(definition, at)?.with_resources(resources);
        let done = match &workflow.code()[at.get()].run {
            Code::Async(body) => body(call).await?,
            Code::Blocking(body) => {
                let body = Arc::clone(body);
                let joined = tokio::task::spawn_blocking(move || body(call)).await;
                joined.map_err(|error| Failure::new(error.to_string()))??
            }
            #[cfg(any(feature = "postgres", feature = "sqlite"))]
            _ => {
                let task = &definition.task(at).name;
                return Err(Failure::permanent(format!(
                    "`{task}` takes a `tx`: only an engine can give it one"
                )));
            }
        };
        done.output.decode()
    }
}

impl Assignment {
    /// What the code of its task is given.
    fn call(self, definition: &Definition, at: TaskIx) -> Result<Call, Failure> {
        let Self { run, task, attempt, input, mut results, item, context, .. } = self;
        let mut dependencies = Vec::new();
        for dependency in &definition.task(at).dependencies {
            let name = &*definition.task(*dependency).name;
            dependencies.push(match results.remove(name) {
                Some(Outcome::Completed(value)) => Dependency::Completed(Slot::new(value)?),
                Some(Outcome::Failed(failure)) => Dependency::Failed(failure),
                Some(Outcome::Skipped(skip)) => Dependency::Skipped(skip),
                Some(Outcome::Cancelled) => Dependency::Cancelled,
                None => return Err(Failure::permanent(format!("the result of `{name}` is missing"))),
            });
        }
        let place = item.as_ref().map(|(place, _)| *place);
        // The rest of the list is not here, and not asked for.
        let item = item.map(|(_, element)| Slot::new(vec![element])).transpose()?;
        Ok(Call {
            input: Slot::new(input)?,
            dependencies,
            item: item.map(|source| Item { source, index: 0 }),
            context: Context::new(Arc::new(context)),
            detached: None,
            cx: Cx::elsewhere(run, &task, place, attempt),
        })
    }
}

/// A task's body that hands what it is given to an executor.
pub(crate) fn body(
    executor: &Arc<dyn Executor>,
    subject: &Subject,
    task: TaskIx,
) -> Arc<dyn Fn(Call) -> BoxFuture + Send + Sync> {
    let executor = Arc::clone(executor);
    let definition = Arc::clone(&subject.registered.plan.definition);
    Arc::new(move |call| {
        let (executor, definition) = (Arc::clone(&executor), Arc::clone(&definition));
        Box::pin(async move {
            let names = definition.task(task).dependencies.iter();
            let names = names.map(|at| definition.task(*at).name.to_string());
            let cx = call.cx().clone();
            let assignment = Assignment {
                run: cx.run_id(),
                workflow: definition.name.to_string(),
                version: definition.version.to_string(),
                task: cx.task().to_owned(),
                attempt: cx.attempt(),
                key: cx.key(),
                input: call.input.decode()?,
                results: names.zip(&call.dependencies).map(result).collect::<Result<_, Failure>>()?,
                item: call.item.as_ref().map(|item| element(&item.source, item.index)).transpose()?,
                context: call.context.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect(),
            };
            let output = Slot::new(executor.execute(assignment, cx).await?)?;
            Ok(Done { output, changes: Changes::default() })
        })
    })
}

fn result((name, dependency): (String, &Dependency)) -> Result<(String, Outcome<Value>), Failure> {
    let outcome = match dependency {
        Dependency::Completed(slot) => Outcome::Completed(slot.decode()?),
        Dependency::Failed(failure) => Outcome::Failed(failure.clone()),
        Dependency::Skipped(skip) => Outcome::Skipped(skip.clone()),
        Dependency::Cancelled => Outcome::Cancelled,
    };
    Ok((name, outcome))
}

fn element(source: &Slot, index: usize) -> Result<(usize, Value), Failure> {
    let mut elements: Vec<Value> = source.decode()?;
    if index >= elements.len() {
        return Err(Failure::permanent(format!("there is no element {index}")));
    }
    Ok((index, elements.swap_remove(index)))
}
