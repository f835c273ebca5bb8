//! Stable hashes, for versions that outlive compilers.

use std::time::Duration;

use hmac_sha256::Hash;
use serde_json::Value;

use crate::{Backoff, Definition, Durability, Merge, OnFailure, Retry, RetryOn, Rule, RunId, Task, Time};

/// Builds a stable hash out of parts.
///
/// Every part is preceded by its length, so that the border between two parts counts: `ab` and `c` differ from
/// `a` and `bc`. The result depends on nothing but the parts: not on the compiler, the platform or the process.
#[derive(Clone, Default)]
pub struct Fingerprint(Hash);

impl Fingerprint {
    /// A fingerprint of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part.
    #[must_use]
    pub fn part(mut self, part: impl AsRef<[u8]>) -> Self {
        self.add(part);
        self
    }

    /// Adds a part in place.
    pub fn add(&mut self, part: impl AsRef<[u8]>) {
        let part = part.as_ref();
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// Adds a JSON value: objects in the order of their keys, whatever order the map keeps.
    #[must_use]
    pub fn json_part(mut self, value: &Value) -> Self {
        self.json(value);
        self
    }

    /// The hash of all parts: sixteen hexadecimal digits.
    #[must_use]
    pub fn finish(self) -> String {
        self.0.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The hash of all parts: sixteen bytes.
    pub(crate) fn sixteen(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0.finalize()[..16]);
        bytes
    }

    /// An id that depends on all parts. It begins with a time, as all ids do.
    #[must_use]
    pub fn run_id(self, made: Time) -> RunId {
        let mut bytes = self.sixteen();
        let millis = u64::try_from(made.0 / 1_000).unwrap_or(0);
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        bytes[6] = 0x70 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        RunId::from_bytes(bytes)
    }

    fn number(&mut self, number: u64) {
        self.add(number.to_le_bytes());
    }

    fn duration(&mut self, span: Duration) {
        self.add(span.as_nanos().to_le_bytes());
    }

    /// What may be missing is preceded by whether it is there.
    fn option<T>(&mut self, value: Option<T>, add: impl FnOnce(&mut Self, T)) {
        match value {
            None => self.number(0),
            Some(value) => {
                self.number(1);
                add(self, value);
            }
        }
    }

    fn list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut add: impl FnMut(&mut Self, T)) {
        self.number(items.len() as u64);
        items.for_each(|item| add(self, item));
    }

    /// Objects in the order of their keys, whatever order the map keeps.
    fn json(&mut self, value: &Value) {
        match value {
            Value::Object(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                self.add("object");
                self.list(entries.into_iter(), |hash, (key, value)| {
                    hash.add(key);
                    hash.json(value);
                });
            }
            Value::Array(items) => {
                self.add("array");
                self.list(items.iter(), |hash, item| hash.json(item));
            }
            plain => {
                self.add("plain");
                self.add(plain.to_string());
            }
        }
    }
}

impl Definition {
    /// The version that follows from the structure, the policies and the code fingerprints.
    ///
    /// The name and the description do not count: neither changes what a run does.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut hash = Fingerprint::new().part("windlass definition 1");
        hash.list(self.tasks.iter(), |hash, task| self.add_task(hash, task));
        hash.option(self.output, |hash, output| hash.add(&*self.task(output).name));
        hash.add(match self.on_failure {
            OnFailure::FinishOthers => "finish others",
            OnFailure::FailFast => "fail fast",
        });
        hash.add(match self.durability {
            Durability::Strict => "strict",
            Durability::Pipelined => "pipelined",
        });
        hash.option(self.timeout, Fingerprint::duration);
        // Only where it is so: what was recorded before there was such a thing keeps its version.
        if self.spread {
            hash.add("spread");
        }
        hash.finish()
    }

    fn add_task(&self, hash: &mut Fingerprint, task: &Task) {
        // No `..` here: a field that is added to tasks must be thought about.
        let Task {
            name,
            dependencies,
            rule,
            retry,
            timeout,
            deadline,
            beat_timeout,
            for_each,
            merge,
            allow_failure,
            queue,
            code,
            flow,
            undo,
        } = task;
        hash.add(&**name);
        hash.list(dependencies.iter(), |hash, dependency| hash.add(&*self.task(*dependency).name));
        hash.option(rule.as_ref().map(Rule::to_json), |hash, rule| hash.json(&rule));
        add_retry(hash, retry);
        hash.option(*timeout, Fingerprint::duration);
        hash.option(*deadline, Fingerprint::duration);
        hash.option(*beat_timeout, Fingerprint::duration);
        hash.option(for_each.as_ref(), |hash, each| {
            hash.add(&*self.task(each.over).name);
            hash.option(each.limit, |hash, limit| hash.number(limit.into()));
        });
        hash.add(match merge {
            Merge::LastWins => "last wins",
            Merge::Deep => "deep",
        });
        hash.number((*allow_failure).into());
        hash.option(queue.as_ref(), |hash, queue| hash.add(&**queue));
        hash.option(code.as_ref(), |hash, code| hash.add(code));
        // As above: only where it is so.
        if *flow {
            hash.add("flow");
        }
        if *undo {
            hash.add("undo");
        }
    }
}

fn add_retry(hash: &mut Fingerprint, retry: &Retry) {
    let Retry { attempts, backoff, jitter, on } = retry;
    hash.number((*attempts).into());
    match backoff {
        Backoff::Fixed { delay } => {
            hash.add("fixed");
            hash.duration(*delay);
        }
        Backoff::Linear { delay, max } => {
            hash.add("linear");
            hash.duration(*delay);
            hash.duration(*max);
        }
        Backoff::Exponential { delay, factor, max } => {
            hash.add("exponential");
            hash.duration(*delay);
            hash.number(factor.to_bits());
            hash.duration(*max);
        }
    }
    hash.number(jitter.to_bits());
    hash.list(on.iter(), |hash, on| match on {
        RetryOn::All => hash.add("all"),
        RetryOn::Never => hash.add("never"),
        RetryOn::Transient => hash.add("transient"),
        RetryOn::Matching(texts) => {
            hash.add("matching");
            hash.list(texts.iter(), |hash, text| hash.add(text));
        }
        RetryOn::Predicate(path) => {
            hash.add("predicate");
            hash.add(path);
        }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Draft, Op, Output, TaskDraft};

    /// A workflow in which everything is set.
    fn rich() -> Definition {
        let rule = Rule::any([
            Rule::failed("clean"),
            Rule::not(Rule::context("a.b").eq(json!({"z": [1, 2.5, null], "a": "text"}))),
        ]);
        let clean = TaskDraft {
            timeout: Some(Duration::from_secs(30)),
            deadline: Some(Duration::from_secs(300)),
            beat_timeout: Some(Duration::from_millis(1500)),
            merge: Merge::Deep,
            allow_failure: true,
            queue: Some("slow".to_owned()),
            code: Some("0123456789abcdef".to_owned()),
            flow: false,
            ..TaskDraft::new("clean").after(["extract"])
        };
        let retry = Retry::attempts(5)
            .linear()
            .on(RetryOn::Transient)
            .on(RetryOn::Matching(vec!["busy".to_owned()]))
            .on(RetryOn::Predicate("worth_it".to_owned()));
        let enrich = TaskDraft { limit: Some(8), ..TaskDraft::new("enrich").for_each("clean").retry(retry) };
        let draft = Draft {
            description: Some("Loads users.".to_owned()),
            on_failure: OnFailure::FailFast,
            durability: Durability::Pipelined,
            timeout: Some(Duration::from_secs(3600)),
            ..Draft::new("etl")
        };
        draft
            .task(TaskDraft::new("extract").retry(Retry::never()))
            .task(clean)
            .task(enrich)
            .task(TaskDraft::new("report").after(["clean"]).rule(rule).retry(Retry::attempts(2).fixed()))
            .output(Output::Named("enrich".to_owned()))
            .check()
            .unwrap()
    }

    /// These values are in databases. When this test fails, every run in flight would look as if its code
    /// had changed: change the fingerprint back, not the test.
    #[test]
    fn a_fingerprint_never_changes_by_accident() {
        assert_eq!(Fingerprint::new().finish(), "e3b0c44298fc1c14");
        assert_eq!(Fingerprint::new().part("ab").part("c").finish(), "43ee655579de01ca");
        assert_eq!(
            Draft::new("least").task(TaskDraft::new("a")).check().unwrap().fingerprint(),
            "e08af38cbee04d57"
        );
        assert_eq!(rich().fingerprint(), "7725fade0957639e");
    }

    #[test]
    fn the_border_between_two_parts_counts() {
        let parts =
            |parts: &[&str]| parts.iter().fold(Fingerprint::new(), |hash, part| hash.part(part)).finish();
        assert_ne!(parts(&["ab", "c"]), parts(&["a", "bc"]));
        assert_ne!(parts(&["ab"]), parts(&["ab", ""]));
    }

    #[test]
    fn the_order_in_which_a_map_keeps_its_keys_does_not_count() {
        let hash = |json: &Value| {
            let mut hash = Fingerprint::new();
            hash.json(json);
            hash.finish()
        };
        let one: Value = serde_json::from_str(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"b": {"d": 3, "c": 2}, "a": 1}"#).unwrap();
        assert_eq!(hash(&one), hash(&other));
        assert_ne!(hash(&json!(["1"])), hash(&json!([1])));
        assert_ne!(hash(&json!([[1], 2])), hash(&json!([[1, 2]])));
    }

    #[test]
    fn what_a_workflow_is_called_and_said_to_be_for_does_not_count() {
        let mut other = rich();
        other.name = "other".into();
        other.description = None;
        other.version = "by hand".into();
        assert_eq!(other.fingerprint(), rich().fingerprint());
    }

    #[test]
    fn everything_else_counts() {
        type Edit = fn(&mut Definition);
        let second = Duration::from_secs(1);
        let edits: [(&str, Edit); 26] = [
            ("name", |d| d.tasks[0].name = "other".into()),
            ("dependencies", |d| d.tasks[3].dependencies.push(crate::TaskIx(0))),
            ("order of dependencies", |d| d.tasks[3].dependencies = vec![crate::TaskIx(0)]),
            ("no rule", |d| d.tasks[3].rule = None),
            ("rule", |d| d.tasks[0].rule = Some(Rule::Always)),
            ("attempts", |d| d.tasks[0].retry.attempts += 1),
            ("jitter", |d| d.tasks[0].retry.jitter = 0.5),
            ("backoff", |d| d.tasks[0].retry.backoff = Backoff::Fixed { delay: Duration::from_secs(1) }),
            ("factor", |d| d.tasks[0].retry = Retry::never().factor(3.0)),
            ("cap", |d| d.tasks[0].retry = Retry::never().max_delay(Duration::from_secs(31))),
            ("on", |d| d.tasks[0].retry.on = vec![RetryOn::All]),
            ("timeout", |d| d.tasks[1].timeout = None),
            ("deadline", |d| d.tasks[1].deadline = None),
            ("beat timeout", |d| d.tasks[1].beat_timeout = None),
            ("limit", |d| d.tasks[2].for_each.as_mut().unwrap().limit = None),
            ("for each", |d| d.tasks[2].for_each = None),
            ("merge", |d| d.tasks[1].merge = Merge::LastWins),
            ("allow failure", |d| d.tasks[1].allow_failure = false),
            ("queue", |d| d.tasks[1].queue = None),
            ("undo", |d| d.tasks[1].undo = true),
            ("code", |d| d.tasks[1].code = Some("another".to_owned())),
            ("output", |d| d.output = None),
            ("on failure", |d| d.on_failure = OnFailure::FinishOthers),
            ("durability", |d| d.durability = Durability::Strict),
            ("run timeout", |d| d.timeout = None),
            ("spread", |d| d.spread = true),
        ];
        let mut seen = std::collections::HashMap::from([(rich().fingerprint(), "nothing")]);
        for (what, edit) in edits {
            let mut definition = rich();
            edit(&mut definition);
            if let Some(same) = seen.insert(definition.fingerprint(), what) {
                panic!("changing {what} gives the same version as changing {same}");
            }
        }
        let mut later = rich();
        later.tasks[1].timeout = Some(second);
        let mut shifted = rich();
        (shifted.tasks[1].timeout, shifted.tasks[1].deadline) = (later.tasks[1].deadline, Some(second));
        assert_ne!(later.fingerprint(), shifted.fingerprint());
    }

    #[test]
    fn every_operator_gives_another_version() {
        let version = |op| {
            let value = if op == Op::In { json!(["x"]) } else { json!("x") };
            let rule = Rule::Context { key: "k".to_owned(), op, value };
            let draft = Draft::new("op").task(TaskDraft::new("a").rule(rule)).output(Output::Nothing);
            draft.check().unwrap().version
        };
        let versions: std::collections::HashSet<_> = Op::ALL.into_iter().map(version).collect();
        assert_eq!(versions.len(), Op::ALL.len());
    }
}
