//! Finding everything that is wrong with a draft.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use crate::{
    Backoff, Draft, Graph, Output, Problem, Problems, Retry, RetryOn, Rule, TaskDraft, TaskIx,
    format_duration, nearest,
};

/// What a task's parameters may be called without being a task.
const RESERVED: [&str; 5] = ["input", "context", "item", "cx", "workflow"];

/// The longest name, in characters.
const LONGEST_NAME: usize = 200;

/// More cycles than this are not worth listing: most are the first one again.
const MOST_CYCLES: usize = 10;

/// More guesses than this are not made.
const MOST_GUESSES: usize = 20;

/// What each task waits for, and whose result is the run's.
type Sound = (Vec<Vec<TaskIx>>, Option<TaskIx>);

/// A draft under examination, and what was found so far.
pub(crate) struct Check<'a> {
    draft: &'a Draft,
    places: HashMap<&'a str, TaskIx>,
    problems: Vec<Problem>,
    /// Whether names and edges are as meant, so that leaves can be told.
    shape_is_known: bool,
    /// How many more spellings may be guessed. Each guess looks at every task, and nobody reads thousands.
    guesses: std::cell::Cell<usize>,
}

impl<'a> Check<'a> {
    pub(crate) fn new(draft: &'a Draft) -> Self {
        let mut places = HashMap::with_capacity(draft.tasks.len());
        for (at, task) in draft.tasks.iter().enumerate() {
            places.entry(task.name.as_str()).or_insert_with(|| at.into());
        }
        Self { draft, places, problems: Vec::new(), shape_is_known: true, guesses: MOST_GUESSES.into() }
    }

    pub(crate) fn run(mut self) -> Result<Sound, Problems> {
        let draft = self.draft;
        self.names();
        let edges: Vec<Vec<TaskIx>> = draft.tasks.iter().map(|task| self.dependencies(task)).collect();
        self.cycles(&edges);
        for task in &draft.tasks {
            self.rule(task);
            self.for_each(task);
            self.retry(task);
            self.zeroes(task);
        }
        self.zero(None, "timeout", draft.timeout);
        let output = self.output(&edges);
        match Problems::from_found(self.problems) {
            Some(problems) => Err(problems),
            None => Ok((edges, output)),
        }
    }

    fn names(&mut self) {
        let draft = self.draft;
        self.name("a workflow", &draft.name);
        if draft.tasks.is_empty() {
            self.problems.push(Problem::NoTasks { workflow: draft.name.clone() });
            self.shape_is_known = false;
        }
        if draft.version.as_deref().is_some_and(|version| version.trim().is_empty()) {
            let why = "a version needs at least one character";
            self.problems.push(Problem::Name { what: "a version", name: String::new(), why });
        }
        let mut reported = HashSet::new();
        for (at, task) in draft.tasks.iter().enumerate() {
            self.name("a task", &task.name);
            if RESERVED.contains(&task.name.as_str()) {
                self.problems.push(Problem::Reserved { name: task.name.clone() });
            }
            if self.places[task.name.as_str()] != TaskIx::from(at) {
                self.shape_is_known = false;
                if reported.insert(task.name.as_str()) {
                    self.problems.push(Problem::Duplicate { name: task.name.clone() });
                }
            }
            if let Some(queue) = &task.queue {
                self.name("a queue", queue);
            }
        }
    }

    fn name(&mut self, what: &'static str, name: &str) {
        if let Some(why) = odd_name(name) {
            self.problems.push(Problem::Name { what, name: name.to_owned(), why });
        }
    }

    /// The places of a task's dependencies, each once.
    fn dependencies(&mut self, task: &TaskDraft) -> Vec<TaskIx> {
        let mut seen = HashSet::with_capacity(task.dependencies.len());
        let mut edges = Vec::with_capacity(task.dependencies.len());
        for dependency in &task.dependencies {
            if !seen.insert(dependency.as_str()) {
                continue;
            }
            match self.places.get(dependency.as_str()) {
                Some(place) => edges.push(*place),
                None => {
                    self.shape_is_known = false;
                    self.problems.push(Problem::UnknownDependency {
                        task: task.name.clone(),
                        dependency: dependency.clone(),
                        hint: self.task_like(dependency, &task.name),
                    });
                }
            }
        }
        edges
    }

    fn cycles(&mut self, edges: &[Vec<TaskIx>]) {
        let mut left = edges.to_vec();
        for _ in 0..MOST_CYCLES {
            let Err(cycle) = Graph::from_edges(left.iter().map(Vec::as_slice)) else { return };
            self.shape_is_known = false;
            let name = |task: &TaskIx| self.draft.tasks[task.get()].name.clone();
            let path = cycle.iter().chain(cycle.first()).map(name).collect();
            self.problems.push(Problem::Cycle { path });
            // Cut it open, to see whether there are others.
            for (from, to) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                left[from.get()].retain(|edge| edge != to);
            }
        }
    }

    fn rule(&mut self, task: &TaskDraft) {
        let Some(rule) = &task.rule else { return };
        let dependencies: HashSet<&str> = task.dependencies.iter().map(String::as_str).collect();
        for named in rule.tasks() {
            if !dependencies.contains(named) {
                self.problems.push(Problem::RuleNotADependency {
                    task: task.name.clone(),
                    named: named.to_owned(),
                    hint: nearest(named, task.dependencies.iter().map(String::as_str)).map(str::to_owned),
                });
            }
        }
        // A rule that its own JSON form refuses could be recorded, but never read again.
        if let Err(error) = Rule::from_json(&rule.to_json()) {
            self.problems.push(Problem::Rule { task: task.name.clone(), why: error.to_string() });
        }
    }

    fn for_each(&mut self, task: &TaskDraft) {
        let name = task.name.clone();
        let Some(over) = task.for_each.clone() else {
            if task.limit.is_some() {
                self.problems.push(Problem::LimitWithoutForEach { task: name });
            }
            return;
        };
        // A dependency that does not exist was told already.
        if task.dependencies.contains(&over) {
            return;
        }
        self.problems.push(if self.places.contains_key(over.as_str()) {
            Problem::ForEachNotADependency { task: name, over }
        } else {
            let hint = self.task_like(&over, &name);
            Problem::ForEachUnknown { task: name, over, hint }
        });
    }

    fn retry(&mut self, task: &TaskDraft) {
        let Retry { attempts, backoff, jitter, on } = &task.retry;
        if *attempts == 0 {
            self.problems.push(Problem::NoAttempts { task: task.name.clone() });
        }
        let mut refuse = |why: String| {
            self.problems.push(Problem::Retry { task: task.name.clone(), why });
        };
        if !(0.0..=1.0).contains(jitter) {
            refuse(format!("a jitter of {jitter} is not between 0 and 1"));
        }
        if let Backoff::Exponential { factor, .. } = backoff
            && !(factor.is_finite() && *factor >= 1.0)
        {
            refuse(format!("a factor of {factor} is not a number from 1 up"));
        }
        if let Some(max) = backoff.cap()
            && backoff.first() > max
        {
            let (first, max) = (format_duration(backoff.first()), format_duration(max));
            refuse(format!("its first delay of {first} is longer than its longest of {max}"));
        }
        if on.is_empty() {
            refuse("it says on no failure at all: write `never` if that is meant".to_owned());
        }
        for on in on {
            match on {
                RetryOn::Matching(texts) if texts.is_empty() => {
                    refuse("`matching` has no text to look for".to_owned());
                }
                RetryOn::Matching(texts) if texts.iter().any(String::is_empty) => {
                    refuse("`matching` looks for an empty text, which is in every message".to_owned());
                }
                RetryOn::Predicate(path) if path.is_empty() => {
                    refuse("`predicate` names no function".to_owned());
                }
                _ => {}
            }
        }
    }

    fn zeroes(&mut self, task: &TaskDraft) {
        let name = Some(task.name.as_str());
        self.zero(name, "timeout", task.timeout);
        self.zero(name, "deadline", task.deadline);
        self.zero(name, "beat timeout", task.beat_timeout);
        if task.limit == Some(0) {
            self.problems.push(Problem::Zero { task: Some(task.name.clone()), what: "limit" });
        }
    }

    fn zero(&mut self, task: Option<&str>, what: &'static str, span: Option<Duration>) {
        if span.is_some_and(|span| span.is_zero()) {
            self.problems.push(Problem::Zero { task: task.map(str::to_owned), what });
        }
    }

    fn output(&mut self, edges: &[Vec<TaskIx>]) -> Option<TaskIx> {
        match &self.draft.output {
            Output::Nothing => None,
            Output::Named(output) => {
                let place = self.places.get(output.as_str()).copied();
                if place.is_none() {
                    let hint = self.task_like(output, "");
                    self.problems.push(Problem::OutputUnknown { output: output.clone(), hint });
                }
                place
            }
            // Which tasks are leaves cannot be told while edges are wrong.
            Output::Leaf | Output::LeafIfAny if !self.shape_is_known => None,
            leaf => {
                let strict = *leaf == Output::Leaf;
                self.leaf(edges, strict)
            }
        }
    }

    fn leaf(&mut self, edges: &[Vec<TaskIx>], strict: bool) -> Option<TaskIx> {
        let mut waited_for = vec![false; edges.len()];
        edges.iter().flatten().for_each(|edge| waited_for[edge.get()] = true);
        let leaves = (0..edges.len()).filter(|at| !waited_for[*at]);
        let (conditional, certain): (Vec<usize>, Vec<usize>) =
            leaves.partition(|at| self.draft.tasks[*at].is_conditional());
        let names = |places: &[usize]| places.iter().map(|at| self.draft.tasks[*at].name.clone()).collect();
        match certain.as_slice() {
            [only] => return Some((*only).into()),
            _ if !strict => {}
            [] => {
                let problem = Problem::OutputConditional { leaves: names(&conditional) };
                self.problems.push(problem);
            }
            several => {
                let problem = Problem::OutputAmbiguous { leaves: names(several) };
                self.problems.push(problem);
            }
        }
        None
    }

    /// The task that is spelled nearly like this, other than the one that speaks.
    fn task_like(&self, name: &str, speaker: &str) -> Option<String> {
        self.guesses.set(self.guesses.get().checked_sub(1)?);
        let names = self.draft.tasks.iter().map(|task| task.name.as_str()).filter(|name| *name != speaker);
        nearest(name, names).map(str::to_owned)
    }
}

/// Why something cannot be called this, if it cannot.
pub(crate) fn odd_name(name: &str) -> Option<&'static str> {
    let odd = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if name.is_empty() {
        Some("a name needs at least one character")
    } else if name.contains(odd) {
        Some("a name has letters, digits, `_`, `-` and `.` only")
    } else if name.chars().count() > LONGEST_NAME {
        Some("a name has at most 200 characters")
    } else {
        None
    }
}
