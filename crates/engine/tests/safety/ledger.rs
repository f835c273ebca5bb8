//! What task bodies did, written where no crash can take it back.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use windlass::{Cx, RunId};

/// How many times this process has joined: each time it is another node.
pub static JOINED: AtomicU32 = AtomicU32::new(0);

/// An append-only file of effects, shared by all processes of a test.
#[derive(Debug)]
pub struct Ledger {
    file: File,
    by: String,
}

/// One attempt of one step of one run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt {
    pub run: RunId,
    pub step: String,
    pub attempt: u32,
}

/// One execution of an attempt.
#[derive(Clone, Debug)]
pub struct Effect {
    pub attempt: Attempt,
    /// The node that executed it: its process, and how many times that had joined.
    pub by: String,
}

impl Effect {
    /// The process that executed it.
    pub fn process(&self) -> &str {
        process(&self.by)
    }
}

/// The process that a node is.
pub fn process(node: &str) -> &str {
    node.split('#').next().unwrap_or_default()
}

impl Ledger {
    pub fn open(path: &Path, by: &str) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path).expect("the ledger opens");
        Self { file, by: by.to_owned() }
    }

    /// Notes that an attempt is being executed. One call is one write, so lines of several processes do not
    /// mix.
    pub fn note(&self, cx: &Cx) {
        let item = cx.item().map(|item| format!("[{item}]")).unwrap_or_default();
        self.note_as(cx.run_id(), &format!("{}{item}", cx.task()), cx.attempt());
    }

    /// The same for a step that is recorded under this name.
    pub fn note_as(&self, run: RunId, step: &str, attempt: u32) {
        let node = format!("{}#{}", self.by, JOINED.load(Ordering::SeqCst));
        let line = format!("{run} {step} {attempt} {node}\n");
        (&self.file).write_all(line.as_bytes()).expect("the ledger takes a line");
    }
}

/// Every effect so far. A line that is just being written is left for the next look.
pub fn effects(path: &Path) -> Vec<Effect> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(effect).collect()
}

fn effect(line: &str) -> Effect {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("a ledger line is cut short: {line}"));
    let run = word().parse().expect("a run id");
    let step = word().to_owned();
    let attempt = word().parse().expect("an attempt's number");
    Effect { attempt: Attempt { run, step, attempt }, by: word().to_owned() }
}

/// Who executed each attempt, in order.
pub fn by_attempt(effects: Vec<Effect>) -> HashMap<Attempt, Vec<String>> {
    let mut by_attempt: HashMap<Attempt, Vec<String>> = HashMap::new();
    for effect in effects {
        by_attempt.entry(effect.attempt).or_default().push(effect.by);
    }
    by_attempt
}
