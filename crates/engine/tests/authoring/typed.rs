use std::{
    fmt,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use windlass::{Dependency, Resources, Skip, prelude::*};

use super::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct User {
    name: String,
    age: u32,
}

#[derive(Debug, Serialize)]
struct TooYoung {
    by: u32,
}

impl fmt::Display for TooYoung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "too young by {} years", self.by)
    }
}

impl std::error::Error for TooYoung {}

struct Counter(AtomicU32);

fn is_busy(failure: &Failure) -> bool {
    failure.message.contains("busy")
}

/// Every kind of parameter and every option, in one graph.
#[workflow(output = load, description = "Loads users.", fail_fast, durability = "pipelined", timeout = "1h")]
mod etl {
    use super::*;

    #[task]
    pub async fn extract(input: Vec<User>) -> Result<Vec<User>> {
        Ok(input)
    }

    #[task(
        retry(attempts = 5, delay = "200ms", backoff = linear, max = "1m", jitter = 0.1, on = [transient, predicate(is_busy)]),
        timeout = "30s",
        deadline = "5m",
        beat_timeout = "10s",
        queue = "slow",
        merge = deep
    )]
    pub async fn clean(extract: &[User], context: &mut Context) -> Result<Vec<User>, TooYoung> {
        if let Some(user) = extract.iter().find(|user| user.age < 18) {
            return Err(TooYoung { by: 18 - user.age });
        }
        context.set("cleaned", extract.len()).expect("a number is JSON");
        Ok(extract.to_vec())
    }

    #[task(for_each = clean, limit = 8, allow_failure, name = "enrich-user")]
    pub async fn enrich(item: &User, counter: Res<Counter>, cx: &Cx) -> Result<String> {
        let n = counter.0.fetch_add(1, Ordering::Relaxed);
        Ok(format!("{} {n} {}", item.name, cx.task()))
    }

    #[task]
    pub fn load(enrich: &[Outcome<String>], input: &[User]) -> Result<usize> {
        Ok(enrich.iter().filter(|outcome| outcome.is_completed()).count() + input.len())
    }

    #[task(when = any(failed(load), context("dry_run") == true))]
    pub async fn report(load: Option<usize>, clean: Outcome<&[User]>, context: &Context) -> Result<String> {
        let cleaned = match clean {
            Outcome::Completed(users) => users.len().to_string(),
            Outcome::Failed(failure) => failure.message,
            Outcome::Skipped(skip) => skip.to_string(),
            Outcome::Cancelled => "cancelled".to_owned(),
        };
        Ok(format!("{load:?} {cleaned} {}", context.contains("dry_run")))
    }
}

fn users() -> Vec<User> {
    vec![User { name: "Ada".into(), age: 36 }, User { name: "Alan".into(), age: 41 }]
}

#[test]
fn a_module_of_tasks_is_a_workflow_with_the_types_of_its_input_and_output() {
    let workflow: Workflow<Vec<User>, usize> = etl::workflow();
    let definition = workflow.definition();
    assert_eq!(workflow.name(), "etl");
    assert_eq!(definition.description.as_deref(), Some("Loads users."));
    let names: Vec<&str> = definition.tasks.iter().map(|task| &*task.name).collect();
    assert_eq!(names, ["extract", "clean", "enrich-user", "load", "report"]);
    assert_eq!(definition.output, definition.find("load"));
    assert_eq!(definition.timeout, Some(Duration::from_secs(3600)));
    assert!(workflow.to_mermaid().contains("enrich-user"));
}

#[test]
fn the_workflow_is_made_once() {
    assert!(std::sync::Arc::ptr_eq(etl::workflow().definition(), etl::workflow().definition()));
}

#[test]
fn options_become_policies() {
    let workflow = etl::workflow();
    let definition = workflow.definition();
    let clean = definition.task(definition.find("clean").unwrap());
    assert_eq!(clean.retry.attempts, 5);
    assert_eq!(
        serde_json::to_value(clean.retry.backoff).unwrap(),
        serde_json::to_value(
            Retry::default()
                .linear()
                .delay(Duration::from_millis(200))
                .max_delay(Duration::from_secs(60))
                .backoff
        )
        .unwrap()
    );
    assert_eq!(
        (clean.timeout, clean.deadline),
        (Some(Duration::from_secs(30)), Some(Duration::from_secs(300)))
    );
    assert_eq!(clean.beat_timeout, Some(Duration::from_secs(10)));
    assert_eq!(clean.queue.as_deref(), Some("slow"));
    let enrich = definition.task(definition.find("enrich-user").unwrap());
    assert!(enrich.allow_failure);
    assert_eq!(enrich.for_each.unwrap().over, definition.find("clean").unwrap());
    assert_eq!(enrich.for_each.unwrap().limit, Some(8));
    let report = definition.task(definition.find("report").unwrap());
    assert_eq!(report.rule, Some(Rule::any([Rule::failed("load"), Rule::context("dry_run").eq(true)])));
    let predicate = AnyWorkflow::from(&workflow).code()[1].predicate.clone().unwrap();
    assert!(predicate(&Failure::new("the table is busy")) && !predicate(&Failure::new("no such table")));
}

#[test]
fn every_task_carries_a_fingerprint_of_its_code() {
    let definition = etl::workflow().definition().clone();
    let codes: std::collections::HashSet<_> =
        definition.tasks.iter().map(|task| task.code.clone().unwrap()).collect();
    assert_eq!(codes.len(), definition.tasks.len());
}

#[test]
fn the_fingerprint_of_given_code_never_changes() {
    let definition = shapes::workflow().definition().clone();
    let code = |name: &str| definition.task(definition.find(name).unwrap()).code.clone().unwrap();
    assert_eq!((code("maybe").as_str(), code("type").as_str()), ("34eb7f7687f54823", "11885de70b4ceeef"));
}

#[test]
fn a_slice_of_the_dependency_s_list_is_handed_over_and_context_changes_come_back() {
    let done = run(etl::workflow(), "clean", call(slot(users()), [slot(users())])).unwrap();
    assert_eq!(done.output.decode::<Vec<User>>().unwrap(), users());
    assert_eq!(done.changes.set["cleaned"], 2);
}

#[test]
fn an_error_of_the_author_s_own_keeps_its_value() {
    let young = vec![User { name: "Kim".into(), age: 12 }];
    let failure = run(etl::workflow(), "clean", call(slot(users()), [slot(young)])).unwrap_err();
    assert_eq!(failure.message, "too young by 6 years");
    assert_eq!(failure.value.as_deref(), Some(&serde_json::json!({ "by": 6 })));
}

#[test]
fn an_instance_gets_its_element_and_its_resources() {
    let mut resources = Resources::default();
    resources.insert(Counter(AtomicU32::new(7)));
    let call = call(slot(users()), [slot(users())]).with_item(slot(users()), 1).with_resources(resources);
    assert_eq!(result::<String>(etl::workflow(), "enrich-user", call).unwrap(), "Alan 7 test");
}

#[test]
fn a_resource_that_nobody_gave_is_listed_with_the_task_that_wants_it() {
    let missing = Resources::default().missing(&etl::workflow().into());
    assert_eq!(missing.len(), 1);
    assert_eq!(&*missing[0].task, "enrich-user");
    assert!(missing[0].to_string().contains("Counter"), "{}", missing[0]);
    let failure =
        run(etl::workflow(), "enrich-user", call(slot(users()), []).with_item(slot(users()), 0)).unwrap_err();
    assert!(failure.message.contains("Counter"), "{failure:?}");
}

#[test]
fn a_for_each_that_allows_failures_hands_on_outcomes_to_a_blocking_task() {
    let outcomes = vec![Outcome::Completed("a".to_owned()), Outcome::Failed(Failure::new("boom"))];
    assert_eq!(result::<usize>(etl::workflow(), "load", call(slot(users()), [slot(outcomes)])).unwrap(), 3);
}

#[test]
fn a_task_whose_rule_lets_it_run_sees_what_became_of_its_dependencies() {
    let call = Call::detached("report", slot(users()))
        .with_dependencies([Dependency::Failed(Failure::new("boom")), Dependency::Skipped(Skip::Rule)]);
    assert_eq!(
        result::<String>(etl::workflow(), "report", call).unwrap(),
        "None its rule did not hold false"
    );
}

#[test]
fn a_value_that_does_not_fit_fails_for_good_and_names_the_type() {
    let failure = run(etl::workflow(), "clean", call(slot(()), [slot("not a list")])).unwrap_err();
    assert_eq!(failure.kind, windlass::FailureKind::Decode);
    assert!(failure.message.contains("User"), "{failure:?}");
}

#[test]
fn a_task_is_still_an_ordinary_function() {
    assert_eq!(etl::load(&[Outcome::Completed("a".to_owned())], &[]).unwrap(), 1);
}

/// How values are handed over: copies, borrows, options that are values, and text.
#[workflow(output = last)]
mod shapes {
    use super::*;

    #[task]
    async fn text(input: &str) -> Result<String> {
        Ok(input.to_owned())
    }

    #[task]
    async fn maybe(text: &str) -> Result<Option<u32>> {
        Ok(text.parse().ok())
    }

    #[task(after = [text])]
    async fn optional_value(maybe: Option<u32>) -> Result<u32> {
        Ok(maybe.unwrap_or(1))
    }

    #[task]
    async fn wrapped(text: Option<String>, optional_value: Option<&u32>) -> Result<String> {
        Ok(format!("{text:?} {optional_value:?}"))
    }

    #[task(when = all(succeeded(text), done(maybe)))]
    async fn certain(text: String, maybe: Outcome<Option<u32>>) -> Result<bool> {
        Ok(text.is_empty() && maybe.is_completed())
    }

    #[task]
    fn r#type(mut certain: bool, cx: Cx) -> std::result::Result<bool, String> {
        certain = !certain;
        if cx.attempt() == 1 { Ok(certain) } else { Err("again".into()) }
    }

    #[task(when = always)]
    async fn last(r#type: Option<bool>, wrapped: Option<&str>) -> Result<()> {
        if r#type.is_none() || wrapped.is_none() { Err("lost".into()) } else { Ok(()) }
    }
}

#[test]
fn a_borrowed_text_is_kept_as_a_string() {
    let workflow: Workflow<String, ()> = shapes::workflow();
    assert_eq!(result::<String>(workflow, "text", call(slot("7"), [])).unwrap(), "7");
}

#[test]
fn an_option_that_is_the_value_itself_is_handed_over_as_it_is() {
    let call = |value: Option<u32>| call(slot(""), [slot("t"), slot(value)]);
    assert_eq!(result::<u32>(shapes::workflow(), "optional_value", call(Some(5))).unwrap(), 5);
    assert_eq!(result::<u32>(shapes::workflow(), "optional_value", call(None)).unwrap(), 1);
}

#[test]
fn an_option_around_a_value_that_is_always_there_holds_it() {
    let call = call(slot(""), [slot("t"), slot(3_u32)]);
    assert_eq!(result::<String>(shapes::workflow(), "wrapped", call).unwrap(), r#"Some("t") Some(3)"#);
}

#[test]
fn a_rule_that_needs_the_value_lets_it_be_taken_plainly() {
    assert!(
        result::<bool>(shapes::workflow(), "certain", call(slot(""), [slot(""), slot(Some(1_u32))])).unwrap()
    );
}

#[test]
fn a_raw_name_is_the_name_without_its_mark() {
    let definition = shapes::workflow().definition().clone();
    let last = definition.task(definition.find("last").unwrap());
    assert_eq!(last.dependencies[0], definition.find("type").unwrap());
    assert!(!result::<bool>(shapes::workflow(), "type", call(slot(""), [slot(true)])).unwrap());
}

#[test]
fn dependencies_are_ordered_as_they_are_read() {
    let definition = shapes::workflow().definition().clone();
    let task = definition.task(definition.find("optional_value").unwrap());
    let names: Vec<_> = task.dependencies.iter().map(|&at| definition.task(at).name.to_string()).collect();
    assert_eq!(names, ["text", "maybe"]);
}

#[test]
fn a_dependency_without_a_result_fails_the_attempt_with_the_reason() {
    let call = Call::detached("maybe", slot("")).with_dependencies([Dependency::Skipped(Skip::Rule)]);
    let failure = run(shapes::workflow(), "maybe", call).unwrap_err();
    assert!(failure.message.contains("its rule did not hold"), "{failure:?}");
}
