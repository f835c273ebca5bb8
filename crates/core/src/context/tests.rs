use proptest::{collection::btree_map, prelude::*};
use serde_json::json;

use super::*;

fn map(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("{value} is not an object") };
    map
}

fn context(value: Value) -> Context {
    Context::new(map(value))
}

#[test]
fn insert_refuses_a_key_that_is_there_and_names_it() {
    let mut context = context(json!({"rows": 3}));
    let error = context.insert("rows", 4).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the context has `rows` already (a number): use `update` or `set` to replace it"
    );
    context.insert("cols", 4).unwrap();
    assert_eq!(context.get::<u32>("cols").unwrap(), 4);
    assert!(context.insert("cols", 5).is_err(), "a key that this task inserted is there too");
    assert_eq!(context.get::<u32>("rows").unwrap(), 3);
}

#[test]
fn update_refuses_a_missing_key_and_guesses_what_was_meant() {
    let mut context = context(json!({"rows": 3}));
    let error = context.update("row", 4).unwrap_err();
    assert_eq!(error.to_string(), "the context has no `row`: did you mean `rows`?");
    context.remove("rows");
    assert!(context.update("rows", 4).is_err(), "a removed key is missing");
}

#[test]
fn a_wrong_type_is_told_with_the_key_and_both_types() {
    let context = context(json!({"rows": [1]}));
    let error = context.get::<u32>("rows").unwrap_err().to_string();
    assert!(error.starts_with("`rows` in the context is an array, which does not fit `u32`: "), "{error}");
}

#[test]
fn a_value_that_json_cannot_hold_is_refused_and_nothing_changes() {
    let mut context = context(json!({}));
    let odd = std::collections::BTreeMap::from([((1, 2), 3)]);
    let error = context.set("odd", odd).unwrap_err().to_string();
    assert!(error.contains("cannot be kept in the context as `odd`"), "{error}");
    assert!(context.into_changes().is_empty());
}

#[test]
fn writing_back_what_was_there_is_no_change() {
    let mut context = context(json!({"a": 1, "b": 2}));
    context.set("a", 1).unwrap();
    context.set("b", 3).unwrap();
    context.update("b", 2).unwrap();
    context.insert("c", 1).unwrap();
    context.remove("c");
    assert!(context.changes().is_empty());
    assert_eq!(context.remove("nothing"), None);
    assert!(context.into_changes().is_empty());
}

#[test]
fn a_removed_key_is_gone_and_may_come_back() {
    let mut context = context(json!({"a": 1}));
    assert_eq!(context.remove("a"), Some(json!(1)));
    assert!(!context.contains("a"));
    assert_eq!(context.iter().count(), 0);
    context.insert("a", 2).unwrap();
    let changes = context.into_changes();
    assert!(changes.removed.is_empty());
    assert_eq!(changes.set["a"], json!(2));
}

#[test]
fn iteration_shows_what_the_task_sees_in_the_order_of_the_keys() {
    let mut context = context(json!({"b": 1, "d": 1}));
    context.set("c", 2).unwrap();
    context.set("a", 2).unwrap();
    context.remove("d");
    let seen: Vec<_> = context.iter().map(|(key, value)| (key, value.clone())).collect();
    assert_eq!(seen, [("a", json!(2)), ("b", json!(1)), ("c", json!(2))]);
}

#[test]
fn deep_merging_joins_objects_and_arrays_and_replaces_the_rest() {
    let changes = Changes {
        set: BTreeMap::from([
            ("o".to_owned(), json!({"x": {"new": 1}, "list": [2, 3], "plain": "new"})),
            ("fresh".to_owned(), json!([1, 1])),
            ("kind".to_owned(), json!([1])),
        ]),
        removed: BTreeSet::from(["gone".to_owned()]),
    };
    let before = json!({"o": {"x": {"old": 1}, "list": [1, 2], "plain": "old"}, "kind": {"a": 1}, "gone": 1});
    let mut deep = map(before.clone());
    changes.apply(&mut deep, Merge::Deep);
    let after = json!({
        "o": {"x": {"old": 1, "new": 1}, "list": [1, 2, 3], "plain": "new"}, "fresh": [1, 1], "kind": [1],
    });
    assert_eq!(Value::Object(deep), after);
    let mut flat = map(before);
    changes.apply(&mut flat, Merge::LastWins);
    assert_eq!(flat["o"], changes.set["o"]);
    assert!(!flat.contains_key("gone"));
}

fn value() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), (0..4_i64).prop_map(Value::from)];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("[a-c]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn values() -> impl Strategy<Value = BTreeMap<String, Value>> {
    btree_map("[a-d]", value(), 0..4)
}

fn changes() -> impl Strategy<Value = Changes> {
    (values(), proptest::collection::btree_set("[a-d]", 0..3)).prop_map(|(set, mut removed)| {
        removed.retain(|key| !set.contains_key(key));
        Changes { set, removed }
    })
}

#[derive(Clone, Debug)]
enum Edit {
    Set(String, Value),
    Remove(String),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = prop_oneof![
        ("[a-d]", value()).prop_map(|(key, value)| Edit::Set(key, value)),
        "[a-d]".prop_map(Edit::Remove),
    ];
    proptest::collection::vec(edit, 0..12)
}

proptest! {
    #[test]
    fn applying_what_a_task_changed_gives_what_the_task_saw(start in values(), edits in edits()) {
        let start: Map<String, Value> = start.into_iter().collect();
        let mut context = Context::new(start.clone());
        let mut model = start.clone();
        for edit in edits {
            match edit {
                Edit::Set(key, value) => {
                    context.set(key.clone(), value.clone()).unwrap();
                    model.insert(key, value);
                }
                Edit::Remove(key) => {
                    prop_assert_eq!(context.remove(&key), model.remove(&key));
                }
            }
        }
        let seen: Map<String, Value> = context.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
        prop_assert_eq!(&seen, &model);
        let mut after = start.clone();
        let changes = context.into_changes();
        changes.apply(&mut after, Merge::LastWins);
        prop_assert_eq!(&after, &model);
        for key in changes.keys() {
            prop_assert_ne!(start.get(key), model.get(key), "only what differs is recorded");
        }
    }

    #[test]
    fn applying_the_same_changes_again_changes_nothing(start in values(), changes in changes()) {
        for merge in [Merge::LastWins, Merge::Deep] {
            let mut once: Map<String, Value> = start.clone().into_iter().collect();
            changes.apply(&mut once, merge);
            let mut twice = once.clone();
            changes.apply(&mut twice, merge);
            prop_assert_eq!(once, twice);
        }
    }

    #[test]
    fn changes_joined_are_changes_made_one_after_the_other(start in values(), first in changes(), second in changes()) {
        let mut apart: Map<String, Value> = start.into_iter().collect();
        let mut joined = apart.clone();
        first.apply(&mut apart, Merge::LastWins);
        second.apply(&mut apart, Merge::LastWins);
        let mut both = first.clone();
        both.extend(&second);
        both.apply(&mut joined, Merge::LastWins);
        prop_assert_eq!(apart, joined);
    }

    #[test]
    fn a_deep_merge_loses_no_element_and_no_key(a in value(), b in value()) {
        let mut merged = a.clone();
        deepen(&mut merged, &b);
        match (&a, &b, &merged) {
            (Value::Array(a), Value::Array(b), Value::Array(merged)) => {
                prop_assert!(merged.starts_with(a));
                prop_assert!(b.iter().all(|element| merged.contains(element)));
                prop_assert!(merged.len() <= a.len() + b.len());
            }
            (Value::Object(a), Value::Object(b), Value::Object(merged)) => {
                prop_assert!(a.keys().chain(b.keys()).all(|key| merged.contains_key(key)));
            }
            _ => prop_assert_eq!(&merged, &b),
        }
    }
}
