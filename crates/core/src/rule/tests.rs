use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[derive(Default)]
struct Seen {
    outcomes: BTreeMap<String, TaskOutcome>,
    context: serde_json::Map<String, Value>,
}

impl RuleView for Seen {
    fn outcome(&self, task: &str) -> Option<TaskOutcome> {
        self.outcomes.get(task).copied()
    }

    fn context(&self, key: &str) -> Option<&Value> {
        self.context.get(key)
    }
}

fn seen<const N: usize>(outcomes: [(&str, TaskOutcome); N], context: Value) -> Seen {
    let Value::Object(context) = context else { panic!("{context} is not an object") };
    Seen {
        outcomes: outcomes.into_iter().map(|(task, outcome)| (task.to_owned(), outcome)).collect(),
        context,
    }
}

fn with(context: Value) -> Seen {
    seen([], context)
}

#[test]
fn task_conditions_tell_the_four_outcomes_apart() {
    use TaskOutcome::{Cancelled, Completed, Failed, Skipped};

    for (outcome, succeeded, failed, skipped) in [
        (Completed, true, false, false),
        (Failed, false, true, false),
        (Skipped, false, false, true),
        (Cancelled, false, false, false),
    ] {
        let view = seen([("t", outcome)], json!({}));
        assert_eq!(Rule::succeeded("t").holds(&view), succeeded, "{outcome:?}");
        assert_eq!(Rule::failed("t").holds(&view), failed, "{outcome:?}");
        assert_eq!(Rule::skipped("t").holds(&view), skipped, "{outcome:?}");
        assert!(Rule::done("t").holds(&view), "{outcome:?}");
    }
    assert!(!Rule::done("t").holds(&Seen::default()));
}

#[test]
fn groups_of_nothing_are_true_true_and_false() {
    let nothing = Seen::default();
    assert!(Rule::all([]).holds(&nothing));
    assert!(Rule::none([]).holds(&nothing));
    assert!(!Rule::any([]).holds(&nothing));
    assert!(Rule::Always.holds(&nothing));
    assert!(!Rule::not(Rule::Always).holds(&nothing));
}

#[test]
fn a_missing_key_makes_positive_comparisons_false_and_negative_ones_true() {
    let nothing = Seen::default();
    let key = || Rule::context("a.b");
    for rule in [
        key().eq(Value::Null),
        key().gt(1),
        key().ge(1),
        key().lt(1),
        key().le(1),
        key().contains("x"),
        key().is_in([1]),
        key().matches("*"),
        key().exists(),
    ] {
        assert!(!rule.holds(&nothing), "{rule}");
    }
    for rule in [key().ne(1), key().not_contains("x"), key().not_exists()] {
        assert!(rule.holds(&nothing), "{rule}");
    }
}

#[test]
fn a_null_is_there() {
    let view = with(json!({"k": null}));
    assert!(Rule::context("k").exists().holds(&view));
    assert!(Rule::context("k").eq(Value::Null).holds(&view));
    assert!(!Rule::context("k").not_exists().holds(&view));
}

#[test]
fn ordering_compares_numbers_with_numbers_and_strings_with_strings() {
    let view = with(json!({"n": 3, "s": "b", "f": 2.5, "list": [1]}));
    for rule in [
        Rule::context("n").gt(2.5),
        Rule::context("n").ge(3.0),
        Rule::context("f").lt(3),
        Rule::context("s").gt("a"),
        Rule::context("s").le("b"),
        Rule::context("n").eq(3.0),
    ] {
        assert!(rule.holds(&view), "{rule}");
    }
    for rule in [
        Rule::context("n").gt("2"),
        Rule::context("n").lt("4"),
        Rule::context("s").gt(1),
        Rule::context("list").ge(json!([1])),
        Rule::context("n").eq("3"),
    ] {
        assert!(!rule.holds(&view), "{rule}");
    }
}

#[test]
fn containing_looks_into_strings_arrays_and_objects() {
    let view = with(json!({"s": "nightly-eu", "list": [1, {"a": 1}], "map": {"k": 0}, "n": 12}));
    for rule in [
        Rule::context("s").contains("eu"),
        Rule::context("list").contains(1.0),
        Rule::context("list").contains(json!({"a": 1})),
        Rule::context("map").contains("k"),
        Rule::context("n").not_contains(1),
        Rule::context("list").not_contains(2),
        Rule::context("s").matches("nightly-*"),
        Rule::context("n").is_in([11, 12]),
    ] {
        assert!(rule.holds(&view), "{rule}");
    }
    for rule in [
        Rule::context("s").contains(1),
        Rule::context("n").contains(1),
        Rule::context("map").contains(0),
        Rule::context("s").matches("nightly"),
        Rule::context("n").matches("*"),
        Rule::context("n").is_in(["12"]),
        Rule::Context { key: "s".to_owned(), op: Op::In, value: json!("a nightly-eu run") },
    ] {
        assert!(!rule.holds(&view), "{rule}");
    }
}

#[test]
fn dots_lead_into_objects_unless_the_key_is_there_as_it_stands() {
    let view = with(json!({"a": {"b": {"c": 1}, "x.y": 2, "list": [1]}, "a.b": "literal"}));
    assert!(Rule::context("a.b.c").eq(1).holds(&view));
    assert!(Rule::context("a.b").eq("literal").holds(&view));
    assert!(Rule::context("a.x.y").eq(2).holds(&view));
    assert!(Rule::context("a.b.c.d").not_exists().holds(&view));
    assert!(Rule::context("a.list.0").not_exists().holds(&view));
    assert!(Rule::context("").not_exists().holds(&view));
}

#[test]
fn a_rule_is_shown_as_it_is_written() {
    let rule = Rule::all([
        Rule::not(Rule::any([Rule::failed("load"), Rule::skipped("clean")])),
        Rule::none([Rule::done("x"), Rule::Always]),
        Rule::context("a.\"b").is_in(["x", "y"]),
        Rule::context("k").not_exists(),
    ]);
    assert_eq!(
        rule.to_string(),
        r#"all(not(any(failed(load), skipped(clean))), none(done(x), always), context("a.\"b") in ["x","y"], context("k") not_exists)"#,
    );
}

#[test]
fn a_rule_knows_what_it_looks_at() {
    let rule = Rule::any([Rule::failed("a"), Rule::not(Rule::all([Rule::done("b"), Rule::failed("a")]))]);
    assert_eq!(rule.tasks(), ["a", "b"]);
    assert!(!rule.reads_context());
    assert!(Rule::not(Rule::context("k").exists()).reads_context());
}

#[test]
fn a_rule_that_needs_a_dependency_cannot_run_without_it() {
    let needs = |rule: Rule| !rule.may_run_without("a");
    assert!(needs(Rule::succeeded("a")));
    assert!(needs(Rule::all([Rule::succeeded("a"), Rule::context("k").exists()])));
    assert!(needs(Rule::not(Rule::none([Rule::succeeded("a")]))));
    assert!(needs(Rule::none([Rule::failed("a"), Rule::not(Rule::succeeded("a"))])));
    assert!(needs(Rule::any([])));
    for free in [
        Rule::Always,
        Rule::failed("a"),
        Rule::done("a"),
        Rule::succeeded("b"),
        Rule::context("k").exists(),
        Rule::not(Rule::failed("a")),
        Rule::any([Rule::succeeded("a"), Rule::context("k").exists()]),
        Rule::any([Rule::succeeded("a"), Rule::succeeded("b")]),
    ] {
        assert!(!needs(free.clone()), "{free}");
    }
}

#[test]
fn every_json_form_is_read() {
    let json = json!({"type": "Any", "conditions": [
        {"type": "Always"},
        {"type": "All", "conditions": [{"type": "TaskSuccess", "task_name": "a"}, {"type": "TaskDone", "task_name": "b"}]},
        {"type": "None", "conditions": [{"type": "TaskFailed", "task_name": "a"}]},
        {"type": "Not", "conditions": [{"type": "TaskSkipped", "task_name": "a"}]},
        {"type": "ContextValue", "key": "k", "operator": "GreaterOrEqual", "value": 3},
        {"type": "ContextValue", "key": "k", "operator": "Exists", "value": true},
        {"type": "Conditional", "condition": {"field": "k", "operator": "Equals", "value": "v"}},
    ]});
    let rule = Rule::any([
        Rule::Always,
        Rule::all([Rule::succeeded("a"), Rule::done("b")]),
        Rule::none([Rule::failed("a")]),
        Rule::not(Rule::skipped("a")),
        Rule::context("k").ge(3),
        Rule::context("k").exists(),
        Rule::context("k").eq("v"),
    ]);
    assert_eq!(Rule::from_json(&json).unwrap(), rule);
    assert_eq!(serde_json::from_value::<Rule>(json).unwrap(), rule);
    for op in Op::ALL {
        let value = if op == Op::In { json!([1]) } else { json!("x") };
        let json = json!({"type": "ContextValue", "key": "k", "operator": op.json_name(), "value": value});
        assert!(matches!(Rule::from_json(&json), Ok(Rule::Context { op: read, .. }) if read == op), "{op}");
    }
}

#[test]
fn anything_else_is_an_error_with_its_path() {
    for (json, error) in [
        (json!([]), "$: expected an object"),
        (json!({}), "$: the field `type` is missing"),
        (json!({"type": 1}), "$.type: expected a string"),
        (json!({"type": "Allways"}), "$.type: `Allways` is not a type of rule; did you mean `Always`?"),
        (json!({"type": "Always", "x": 1}), "$.x: the field `x` is not known here; expected one of type"),
        (json!({"type": "All"}), "$: the field `conditions` is missing"),
        (
            json!({"type": "All", "condition": []}),
            "$.condition: the field `condition` is not known here; did you mean `conditions`?",
        ),
        (json!({"type": "All", "conditions": {}}), "$.conditions: expected an array"),
        (
            json!({"type": "All", "conditions": [{"type": "Always"}, {"type": "Any", "conditions": [3]}]}),
            "$.conditions[1].conditions[0]: expected an object",
        ),
        (
            json!({"type": "Not", "conditions": []}),
            "$.conditions: `Not` takes exactly one condition; `None` takes several",
        ),
        (json!({"type": "TaskFailed", "task_name": null}), "$.task_name: expected a string"),
        (
            json!({"type": "ContextValue", "key": "k", "operator": "Equal", "value": 1}),
            "$.operator: `Equal` is not an operator; did you mean `Equals`?",
        ),
        (
            json!({"type": "ContextValue", "key": "k", "operator": "Equals"}),
            "$: the field `value` is missing",
        ),
        (
            json!({"type": "ContextValue", "key": "k", "operator": "In", "value": 1}),
            "$.value: `In` takes an array",
        ),
        (
            json!({"type": "ContextValue", "key": "k", "operator": "Matches", "value": 1}),
            "$.value: `Matches` takes a string",
        ),
        (
            json!({"type": "Conditional", "condition": {"field": 1, "operator": "Exists"}}),
            "$.condition.field: expected a string",
        ),
    ] {
        assert_eq!(Rule::from_json(&json).unwrap_err().to_string(), error, "{json}");
    }
}

#[test]
fn a_rule_nested_without_end_is_refused() {
    let mut json = json!({"type": "Always"});
    for _ in 0..100 {
        json = json!({"type": "Not", "conditions": [json]});
    }
    let error = Rule::from_json(&json).unwrap_err();
    assert_eq!(error.message, "rules are nested more than 32 deep");
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no such number", |n| n.is_finite()).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z.]{0,5}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn comparison() -> impl Strategy<Value = Rule> {
    (".{0,6}|[a-c](\\.[a-c]){0,2}", 0..Op::ALL.len(), value()).prop_map(|(key, op, value)| {
        let op = Op::ALL[op];
        let value = match op {
            Op::In => Value::from(vec![value]),
            Op::Matches => Value::from(value.to_string()),
            Op::Exists | Op::NotExists => Value::Null,
            _ => value,
        };
        Rule::Context { key, op, value }
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    let leaf = prop_oneof![
        Just(Rule::Always),
        "[a-c]".prop_map(Rule::Succeeded),
        "[a-c]".prop_map(Rule::Failed),
        "[a-c]".prop_map(Rule::Skipped),
        "[a-c]".prop_map(Rule::Done),
        comparison(),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let some = proptest::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            some.clone().prop_map(Rule::All),
            some.clone().prop_map(Rule::Any),
            some.prop_map(Rule::None),
            inner.prop_map(Rule::not),
        ]
    })
}

/// JSON that looks like a rule from afar.
fn almost_a_rule() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        "Always|All|Any|None|Not|TaskSuccess|TaskFailed|ContextValue|Conditional|Equals|In|Exists",
        "[A-Za-z]{0,6}",
    ];
    let leaf = prop_oneof![word.prop_map(Value::from), value()];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let field = "type|conditions|condition|task_name|key|field|operator|value|[a-z]{1,3}";
        prop_oneof![
            3 => proptest::collection::btree_map(field, inner.clone(), 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
            1 => proptest::collection::vec(inner, 0..4).prop_map(Value::from),
        ]
    })
}

fn outcome() -> impl Strategy<Value = TaskOutcome> {
    prop_oneof![
        Just(TaskOutcome::Completed),
        Just(TaskOutcome::Failed),
        Just(TaskOutcome::Skipped),
        Just(TaskOutcome::Cancelled),
    ]
}

proptest! {
    #[test]
    fn a_rule_survives_its_json(rule in rule()) {
        prop_assert_eq!(&Rule::from_json(&rule.to_json()).unwrap(), &rule);
        let text = serde_json::to_string(&rule).unwrap();
        prop_assert_eq!(serde_json::from_str::<Rule>(&text).unwrap(), rule);
    }

    #[test]
    fn no_json_is_too_odd_to_be_answered(json in almost_a_rule()) {
        match Rule::from_json(&json) {
            Ok(rule) => prop_assert_eq!(Rule::from_json(&rule.to_json()).unwrap(), rule),
            Err(error) => prop_assert!(error.path.starts_with('$') && !error.message.is_empty()),
        }
    }

    #[test]
    fn negations_agree_with_what_they_negate(
        rule in rule(), a in outcome(), b in outcome(), context in value(),
    ) {
        let view = seen([("a", a), ("b", b)], json!({"a": context, "b": {"c": 1}}));
        prop_assert_eq!(Rule::not(rule.clone()).holds(&view), !rule.holds(&view));
        prop_assert_eq!(Rule::none([rule.clone()]).holds(&view), !rule.holds(&view));
        prop_assert_eq!(Rule::all([rule.clone()]).holds(&view), rule.holds(&view));
        prop_assert_eq!(Rule::any([rule.clone()]).holds(&view), rule.holds(&view));
    }

    #[test]
    fn a_rule_that_cannot_run_without_a_dependency_never_does(
        rule in rule(), a in outcome(), b in outcome(), c in outcome(), context in value(),
    ) {
        let view = seen([("a", a), ("b", b), ("c", c)], json!({"a": context}));
        if a != TaskOutcome::Completed && rule.holds(&view) {
            prop_assert!(rule.may_run_without("a"));
        }
    }
}
