//! The macros of Windlass. Use them through the `windlass` crate, which documents them with examples.
//!
//! A macro reads the author's code into plain data (a `TaskFn`, its rule, its options), checks all
//! of it, and then emits either calls into `windlass::__macro` or every complaint at once. The author's code is
//! emitted in both cases, so that an editor keeps working while a workflow is being written.

mod complaint;
mod compose;
mod duration;
mod emit;
mod fingerprint;
mod flow;
mod flow_parameter;
mod graph;
mod json;
mod lab_test;
mod machine;
mod machine_state;
mod method;
mod on;
mod options;
mod parameter;
mod retry;
mod rule;
mod spelling;
mod standalone;
mod task;
mod trigger;
mod undo;
mod workflow;

use proc_macro::TokenStream;

/// Makes a workflow of the tasks in a module.
///
/// A parameter that is named after a task is that task's result: this is the dependency. The macro adds
/// `pub fn workflow() -> Workflow<I, O>` to the module, where `I` is the type of `input` and `O` is what the
/// output task returns.
///
/// | option | meaning | default |
/// |---|---|---|
/// | `name = "…"` | what runs are found by | the module's name |
/// | `output = task` | the task whose result is the run's | the one task without a rule that nothing waits for |
/// | `description = "…"` | what it is for | none |
/// | `version = "…"` | the version, set by hand | a hash of structure, policies and code |
/// | `fail_fast` | the first failure cancels the rest | other branches finish |
/// | `durability = "…"` | `"pipelined"`: dependents start while a result is being committed | `"strict"` |
/// | `timeout = "…"` | the longest that a run may take | no limit |
/// | `spread` | its tasks are executed by any node that serves the run's queue | by the node that holds the run |
/// | `crate = path` | where the `windlass` crate is, if it was renamed, from the crate's root: `crate = ::engine` | `::windlass` |
#[proc_macro_attribute]
pub fn workflow(arguments: TokenStream, item: TokenStream) -> TokenStream {
    workflow::expand(arguments.into(), item.into()).into()
}

/// Makes a task of a function, in a `#[workflow]` module or by itself.
///
/// An `async fn` runs on the runtime, a plain `fn` on the blocking pool. Parameters, in any order:
///
/// - `input`: the run's input.
/// - A task's name: its result, as `T`, `&T`, `&[E]` or `&str`; as `Option<…>` where it may be absent; as
///   `Outcome<…>` to see success, failure or skip.
/// - `Res<T>`, under any name: a resource that was given to the engine.
/// - `cx: &Cx`: ids, the attempt, an idempotency key, cancellation.
/// - `context: &mut Context`: the run's shared data.
/// - `item`: the element, in a `for_each`.
/// - `tx: &windlass::postgres::Transaction` in an `async fn`, or `tx: &windlass::sqlite::Transaction` in a plain `fn`: a
///   transaction that is committed together with the task's record. The plain `fn` then runs on the thread that
///   writes the database.
///
/// | option | meaning | default |
/// |---|---|---|
/// | `retry(…)` | `attempts = 5`, `delay = "1s"`, `backoff = fixed \| linear \| exponential`, `factor = 2.0`, `max = "30s"`, `jitter = 0.25`, `on = all \| never \| transient \| matching("…") \| predicate(path)`, or several in brackets | 3 attempts, exponential ×2 from 1 s, at most 30 s, ±25 %, on all failures |
/// | `timeout = "…"` | the longest that one attempt may take | no limit |
/// | `deadline = "…"` | the longest that the task may take with all its attempts | no limit |
/// | `beat_timeout = "…"` | the longest that an attempt may go without `cx.beat` | no limit |
/// | `for_each = task` | run once per element of that task's result | once |
/// | `limit = n` | how many elements are in flight at once | as many as there are slots |
/// | `when = rule` | when to run, once all dependencies have ended | when all have completed |
/// | `after = [task, …]` | wait for these without their results | none |
/// | `merge = deep` | join the contexts of dependencies recursively | the later dependency wins, key by key |
/// | `allow_failure` | a failure leaves the run's verdict alone; in a `for_each`, dependents get `Outcome`s | the run fails |
/// | `queue = "…"` | the queue that its attempts wait in, for any node that serves it | executed by the node that holds the run |
/// | `isolation = …` | for a `tx` on PostgreSQL: `read_committed`, `repeatable_read` or `serializable` | `read_committed` |
/// | `name = "…"` | what records call the task, in a `#[workflow]` module | the function's name |
/// | `crate = path` | where the `windlass` crate is, for a task that stands alone | `::windlass` |
///
/// Dependencies are ordered as they are read: `for_each`, `after`, then the parameters.
#[proc_macro_attribute]
pub fn task(arguments: TokenStream, item: TokenStream) -> TokenStream {
    standalone::expand(arguments.into(), item.into()).into()
}

/// Says how a task of a `#[workflow]` module is undone: `#[undo(load)]` on an `async fn` beside the task.
///
/// It runs if the run fails, is cancelled or times out after the task has completed. Parameters, in any order: the task's
/// own result by its name (that of one element, for a `for_each`), `input`, `cx: &Cx`, and `Res<T>`.
///
/// | option | meaning | default |
/// |---|---|---|
/// | `retry(…)` | what happens after a failed attempt, as for a task | 3 attempts |
#[proc_macro_attribute]
pub fn undo(arguments: TokenStream, item: TokenStream) -> TokenStream {
    undo::expand(&arguments.into(), item.into()).into()
}

/// Makes a durable function of an `async fn`: a workflow whose steps are written where they happen.
///
/// The function stays what it is. Beside it comes `workflow()`, under the function's name:
/// `checkout::workflow()` is the `Workflow<I, O>` that an engine is given, where `I` is the type of the input and
/// `O` is what the function returns in its `Result`. Parameters, in any order and under any name:
///
/// - `&Flow`, once: steps, waits, events.
/// - `Res<T>`: a resource that was given to the engine.
/// - One of any other type, as `T`, `&T`, `&[E]` or `&str`: the run's input. Without it, the input is `()`.
///
/// An error of the function's own type keeps its value in the record, if the type can be serialised.
///
/// | option | meaning | default |
/// |---|---|---|
/// | `name = "…"` | what runs are found by | the function's name |
/// | `version = "…"` | the version, set by hand | a hash of the function's code and options |
/// | `timeout = "…"` | the longest that a run may take, waits included | no limit |
/// | `keep = [v1::checkout]` | older versions of the function, for the runs that began under them | none |
/// | `crate = path` | where the `windlass` crate is, if it was renamed | `::windlass` |
///
/// The first paragraph of the function's doc comment is what the workflow says it is for.
#[proc_macro_attribute]
pub fn flow(arguments: TokenStream, item: TokenStream) -> TokenStream {
    flow::expand(arguments.into(), item.into()).into()
}

/// Composes tasks that stand alone into a workflow.
///
/// `compose! { name: "scoring", description: "…", tasks: [fetch, other::score], output: score }` is an expression
/// of type `Workflow<I, O>`. The fields are those of `#[workflow]`, with a colon, and `tasks`. That each task
/// gets what it asks for, with the type that it asks for, is checked by the compiler.
///
/// It is not called `workflow!`, because an attribute and a macro with `!` cannot share a name in one module.
#[proc_macro]
pub fn compose(tokens: TokenStream) -> TokenStream {
    compose::expand(tokens.into()).into()
}

/// Makes a workflow of the methods of an `impl` block that handle states.
///
/// A method with `#[on(State, to = [Next, …])]` is called when a run is in that state, and returns the next one. The
/// macro adds `pub fn workflow()`, a `Workflow` from the data to where a run ended: `Finished { state, data }`. The value
/// whose methods these are is given to the engine as a resource.
///
/// | option | meaning | default |
/// |---|---|---|
/// | `state = Type` | the states: an enum that derives `MachineState` | needed |
/// | `data = Type` | what belongs to a run beside its state | needed |
/// | `initial = State` | the state that a run begins in | needed |
/// | `terminal = [State, …]` | the states that a run ends in | needed |
/// | `name = "…"` | what runs are found by | the type's name, as `order_fulfilment` |
/// | `description = "…"`, `version = "…"`, `timeout = "…"`, `crate = path` | as for `#[workflow]` | |
///
/// Options of `#[on(State, …)]`:
///
/// | option | meaning |
/// |---|---|
/// | `to = [State, …]` | where it may lead; anything else it returns fails the run |
/// | `router` | a plain `fn` that only decides: it gets `data`, and makes no calls |
/// | `poll = "30s"` | it returns `Poll::Ready(state)`, or `Poll::Again` to be asked again after that time |
/// | `stepped` | it gets `cursor: &mut C` and returns `Progress`; the cursor is recorded after each call |
/// | `batch = [load, item]` | `load` gives a `Vec`, `item` handles each; it gets `results`, a `Vec` of `Result`s in their order |
/// | `split = [pack, bill]` | these methods run at once; it gets `results: Joined` |
/// | `join = …` | how many branches are enough: `all` (the default), `any`, `quorum(2)`, `percentage(50)`, `partial(1)`, `partial_timeout("30s")` |
/// | `limit = 4` | how many branches or items run at once |
/// | `each_retry(…)` | what happens when a branch or an item fails, as `retry` of a task |
/// | `retry(…)` | what happens when the handler fails: it is called again, and what is recorded is kept. Default: the run fails |
/// | `timeout = "…"` | the longest that one attempt may take |
/// | `breaker(name = "bank", failures = 5, open = "30s", probes = 1)` | after so many failures it is left alone for so long |
/// | `rate(100, per = "1s")` | how often it may begin in one process; it waits for its turn |
///
/// Parameters are known by their names: `cx: &Flow`, `data: &mut Data`, `results`, `cursor`. A branch, `load` and `item`
/// are single steps, and take `cx: &Cx` (or none), `data: &Data` and `item`; a branch that takes `cx: &Flow` makes calls
/// of its own instead.
#[proc_macro_attribute]
pub fn machine(arguments: TokenStream, item: TokenStream) -> TokenStream {
    machine::expand(arguments.into(), item.into()).into()
}

/// Makes a trigger of an `async fn`: a condition that is asked again and again, and starts a run when it says so.
///
/// The function stays what it is. Beside it comes `trigger()`, under the function's name: `.trigger(new_file::trigger())` gives it
/// to an engine. It takes resources as `Res<T>`, and returns a `Result<Fire<I>>`, where `I` is the input of the workflow
/// that it starts. Needs the feature `schedule` of `windlass`.
///
/// | option | meaning | default |
/// |---|---|---|
/// | `starts = etl` | the workflow whose runs it starts: what `etl::workflow()` gives | needed |
/// | `every = "5s"` | how long it is from one question to the next | this or `cron` is needed |
/// | `cron = "0 2 * * *"` | when it is asked | |
/// | `timezone = "…"` | the zone whose clocks the cron expression goes by | UTC |
/// | `timeout = "…"` | the longest that a question may take | one minute |
/// | `once` | one run for each key, ever: for ten years, and its record is kept as long | one at a time |
/// | `concurrent` | runs with the same input may be under way beside each other, if they have no key | one at a time |
/// | `queue = "…"` | the queue that its runs wait in | `default` |
/// | `name = "…"` | what it is found by | the function's name |
/// | `crate = path` | where the `windlass` crate is, if it was renamed | `::windlass` |
#[proc_macro_attribute]
pub fn trigger(arguments: TokenStream, item: TokenStream) -> TokenStream {
    trigger::expand(arguments.into(), item.into()).into()
}

/// Makes an enum the states of a machine. `#[machine_state(crate = path)]` says where the `windlass` crate is.
#[proc_macro_derive(MachineState, attributes(machine_state))]
pub fn machine_state(item: TokenStream) -> TokenStream {
    machine_state::expand(item.into()).into()
}

/// Runs an `async fn` as a test, in memory and in virtual time.
///
/// The function takes a `Lab`, or nothing. Needs the feature `testing` of `windlass`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    lab_test::expand(arguments.into(), item.into()).into()
}
