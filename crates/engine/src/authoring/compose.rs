//! What `compose!` needs to know about tasks that stand alone, and how it is checked by the compiler.
//!
//! A graph is a type that `Has` each of its tasks by the key of its name, and is `At` each place. A task fits
//! into a graph that has what it asks for. What types cannot say (a cycle, the last task) is said by functions
//! that run while compiling.

use super::{TaskCode, parts::TaskParts};

/// A task that stands alone.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a task",
    label = "a function with `#[task]` above it is expected here"
)]
pub trait TaskItem {
    /// The task's name.
    const NAME: &'static str;
    /// A number for the name.
    const KEY: u64;
    /// What it waits for.
    const AFTER: &'static [&'static str];
    /// Whether nothing but its dependencies decides whether it runs.
    const UNCONDITIONAL: bool;
    /// What its dependents see.
    type Value;
    /// [`Given`] or [`Nothing`].
    type Input;

    /// Its description.
    fn parts() -> TaskParts;
    /// Its code.
    fn code() -> TaskCode;
}

/// A graph with a task of this name.
#[diagnostic::on_unimplemented(
    message = "a task asks for another one that is not among the `tasks`",
    label = "this task asks for one that is missing",
    note = "add the missing task to the list: `tasks: […]`"
)]
pub trait Has<const KEY: u64> {
    /// What the task's dependents see.
    type Value;
}

/// A graph with a task at this place.
pub trait At<const PLACE: usize> {
    /// What the task's dependents see.
    type Value;
}

/// A task that finds in this graph what it asks for.
pub trait FitsIn<Graph> {}

/// Asks the compiler whether a task finds what it asks for.
pub fn fits<Graph, Task: FitsIn<Graph>>() {}

/// A task that takes the run's input, as this type.
#[derive(Debug)]
pub struct Given<T>(std::marker::PhantomData<T>);

/// A task that does not take the run's input.
#[derive(Debug)]
pub struct Nothing;

/// Joins what two tasks say about the run's input.
#[diagnostic::on_unimplemented(
    message = "the tasks disagree on the type of the run's `input`",
    label = "this task takes it as another type than those before",
    note = "a run has one input: write the same type in all tasks that take it"
)]
pub trait Join<Other> {
    /// What both say.
    type Joined;
}

impl Join<Nothing> for Nothing {
    type Joined = Nothing;
}

impl<T> Join<Given<T>> for Nothing {
    type Joined = Given<T>;
}

impl<T> Join<Nothing> for Given<T> {
    type Joined = Given<T>;
}

impl<T> Join<Given<T>> for Given<T> {
    type Joined = Given<T>;
}

/// The type of the run's input, after all tasks have spoken.
pub trait RunInput {
    /// The type.
    type Input;
}

impl RunInput for Nothing {
    type Input = ();
}

impl<T> RunInput for Given<T> {
    type Input = T;
}

/// What a graph knows of a task while it is compiled.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// The task's name.
    pub name: &'static str,
    after: &'static [&'static str],
    unconditional: bool,
}

impl Node {
    /// What is known of this task.
    #[must_use]
    pub const fn of<T: TaskItem>() -> Self {
        Self { name: T::NAME, after: T::AFTER, unconditional: T::UNCONDITIONAL }
    }
}

/// Stops the compiler if tasks wait for themselves.
///
/// # Panics
///
/// While compiling, with the names of the tasks that wait for each other.
pub const fn check_nodes(nodes: &[Node]) {
    // Whoever waits only for tasks that can run, can run. What is left over is a cycle or waits for one.
    let mut runs = [false; 1024];
    assert!(
        nodes.len() <= runs.len(),
        "`compose!` takes at most 1024 tasks: build larger graphs with `Workflow::builder`"
    );
    let mut round = 0;
    while round < nodes.len() {
        let mut at = 0;
        while at < nodes.len() {
            runs[at] = runs[at] || all_run(nodes, nodes[at].after, &runs);
            at += 1;
        }
        round += 1;
    }
    let mut at = 0;
    while at < nodes.len() {
        if !runs[at] {
            panic_with("these tasks wait for each other, or for tasks that do", nodes, &runs);
        }
        at += 1;
    }
}

const fn all_run(nodes: &[Node], names: &[&str], runs: &[bool]) -> bool {
    let mut at = 0;
    while at < names.len() {
        // Types complain about a name that is missing.
        let place = find(nodes, names[at]);
        if place < nodes.len() && !runs[place] {
            return false;
        }
        at += 1;
    }
    true
}

/// Where the task of this name stands.
///
/// # Panics
///
/// While compiling, when there is none.
#[must_use]
pub const fn place(nodes: &[Node], name: &str) -> usize {
    let place = find(nodes, name);
    assert!(place < nodes.len(), "`output` names a task that is not among the `tasks`");
    place
}

/// Where the task of this name stands, or how many there are.
const fn find(nodes: &[Node], name: &str) -> usize {
    let mut at = 0;
    while at < nodes.len() && !same(nodes[at].name, name) {
        at += 1;
    }
    at
}

/// Where the only unconditional task stands that nothing waits for.
///
/// # Panics
///
/// While compiling, when there is none, or more than one: with their names.
#[must_use]
pub const fn leaf(nodes: &[Node]) -> usize {
    let mut other = [true; 1024];
    assert!(
        nodes.len() <= other.len(),
        "`compose!` takes at most 1024 tasks: build larger graphs with `Workflow::builder`"
    );
    let mut found = nodes.len();
    let mut count = 0;
    let mut at = 0;
    while at < nodes.len() {
        if nodes[at].unconditional && !is_awaited(nodes, nodes[at].name) {
            other[at] = false;
            found = at;
            count += 1;
        }
        at += 1;
    }
    match count {
        1 => found,
        0 => panic!(
            "no task's result can be the run's: the tasks that nothing waits for have rules, and may be skipped; name one with `output: …`"
        ),
        _ => panic_with("which result is the run's? Name one of these with `output: …`", nodes, &other),
    }
}

const fn is_awaited(nodes: &[Node], name: &str) -> bool {
    let mut at = 0;
    while at < nodes.len() {
        let mut next = 0;
        while next < nodes[at].after.len() {
            if same(nodes[at].after[next], name) {
                return true;
            }
            next += 1;
        }
        at += 1;
    }
    false
}

const fn same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// A message with the names of the tasks that are not marked. While compiling there is no `format!`.
const fn panic_with(message: &str, nodes: &[Node], marked: &[bool]) -> ! {
    let mut text = Text { bytes: [b' '; 512], len: 0 };
    text = text.push(message);
    let mut comma = ": ";
    let mut at = 0;
    while at < nodes.len() {
        if !marked[at] {
            text = text.push(comma).push(nodes[at].name);
            comma = ", ";
        }
        at += 1;
    }
    match std::str::from_utf8(text.bytes.split_at(text.len).0) {
        Ok(text) => panic!("{}", text),
        Err(_) => panic!("the workflow does not hold together, and the names are too long to say why"),
    }
}

struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl Text {
    const fn push(mut self, text: &str) -> Self {
        let text = text.as_bytes();
        let mut at = 0;
        while at < text.len() && self.len < self.bytes.len() {
            self.bytes[self.len] = text[at];
            self.len += 1;
            at += 1;
        }
        self
    }
}
