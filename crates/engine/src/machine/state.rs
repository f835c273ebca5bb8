//! The states of a machine, and what its methods answer.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The states that a machine can be in: an enum whose variants carry nothing. Derive it.
///
/// What belongs to a run beside its state is the machine's data.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the states of a machine",
    note = "derive it: `#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]`"
)]
pub trait MachineState: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The names of all states, in the order of their declaration.
    const STATES: &'static [&'static str];

    /// The name of this one.
    fn name(&self) -> &'static str;
}

/// Where a machine ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished<S, D> {
    /// The state: one of those that are terminal.
    pub state: S,
    /// The data, as the last handler left it.
    pub data: D,
}

/// What a handler with `poll = "…"` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll<S> {
    /// What it waited for is there, and this is the next state.
    Ready(S),
    /// Not yet: it is asked again after its time.
    Again,
}

/// What a handler with `stepped` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<S> {
    /// There is more to do: the cursor is recorded, and the handler is called again with it.
    More,
    /// It is done, and this is the next state.
    Done(S),
}

/// Refuses, while the program is compiled, states that have no handler and are not terminal.
#[doc(hidden)]
pub const fn check_states(states: &[&str], handled: &[&str]) {
    let mut message = Message { text: [0; 1000], len: 0 };
    let mut missing = 0;
    let mut at = 0;
    while at < states.len() {
        if !contains(handled, states[at]) {
            message.add(if missing == 0 { "no method handles `" } else { ", `" });
            message.add(states[at]);
            message.add("`");
            missing += 1;
        }
        at += 1;
    }
    if missing > 0 {
        message.add(": write one with `#[on(…)]`, or list the state in `terminal`");
        message.fail();
    }
}

const fn contains(list: &[&str], word: &str) -> bool {
    let mut at = 0;
    while at < list.len() {
        if same(list[at].as_bytes(), word.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn same(left: &[u8], right: &[u8]) -> bool {
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

/// Text that can be put together while a program is compiled. What does not fit is left out.
struct Message {
    text: [u8; 1000],
    len: usize,
}

impl Message {
    const fn add(&mut self, text: &str) {
        let text = text.as_bytes();
        if self.len + text.len() > self.text.len() {
            return;
        }
        let mut at = 0;
        while at < text.len() {
            self.text[self.len] = text[at];
            self.len += 1;
            at += 1;
        }
    }

    const fn fail(&self) -> ! {
        let (text, _) = self.text.split_at(self.len);
        match std::str::from_utf8(text) {
            Ok(text) => panic!("{}", text),
            Err(_) => panic!("states have no handler"),
        }
    }
}
