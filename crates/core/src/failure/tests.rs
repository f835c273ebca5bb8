use serde_json::json;

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("cannot load the rows")]
struct Load {
    #[source]
    cause: io::Error,
}

fn load(kind: io::ErrorKind, message: &'static str) -> Load {
    Load { cause: io::Error::new(kind, message) }
}

fn body(result: Result<u32, Load>) -> Result<u32, Failure> {
    Ok(result?)
}

#[test]
fn the_question_mark_takes_errors_and_text() {
    fn text() -> Result<(), Failure> {
        Err("plain")?
    }
    fn owned() -> Result<(), Failure> {
        Err(String::from("owned"))?
    }
    fn boxed() -> Result<(), Failure> {
        Err(Box::<dyn Error + Send + Sync>::from("boxed"))?
    }
    fn own() -> Result<(), Failure> {
        Err(Failure::permanent("own"))?
    }
    assert_eq!(text().unwrap_err().message, "plain");
    assert_eq!(owned().unwrap_err().message, "owned");
    assert_eq!(boxed().unwrap_err().message, "boxed");
    assert_eq!(own().unwrap_err().again, Again::Never);
    assert_eq!(text().unwrap_err().type_name, None);
    let failure = body(Err(load(io::ErrorKind::Other, "disk on fire"))).unwrap_err();
    assert_eq!(failure.message, "cannot load the rows");
    assert_eq!(failure.chain, ["disk on fire"]);
    assert!(failure.type_name.unwrap().ends_with("Load"));
}

#[test]
fn the_type_of_any_error_in_the_chain_comes_before_every_message() {
    assert!(Failure::from(load(io::ErrorKind::ConnectionReset, "odd")).transient);
    assert!(!Failure::from(load(io::ErrorKind::NotFound, "the file timed out")).transient);
    assert!(Failure::from(load(io::ErrorKind::Other, "operation timed out")).transient);
    assert!(!Failure::from(load(io::ErrorKind::Other, "no such table")).transient);
}

#[test]
fn messages_of_the_usual_suspects_are_transient() {
    for message in [
        "connection refused (db:5432)",
        "Operation Timed Out",
        "HTTP 429",
        "status: 503",
        "status code 504 from upstream",
        "Too Many Requests",
        "rate limit exceeded",
        "deadline has elapsed",
    ] {
        assert!(Failure::new(message).transient, "{message}");
    }
    for message in ["no such user", "429 rows are malformed", "error in row 1503", "HTTP 404", ""] {
        assert!(!Failure::new(message).transient, "{message}");
    }
}

#[test]
fn a_permanent_failure_is_never_transient_and_keeps_its_cause() {
    let failure = Failure::permanent(load(io::ErrorKind::TimedOut, "timed out"));
    assert!(!failure.transient);
    assert_eq!(failure.again, Again::Never);
    assert_eq!(failure.chain, ["timed out"]);
}

#[test]
fn a_failure_is_shown_with_its_sources_but_not_twice() {
    let failure = Failure::from(load(io::ErrorKind::Other, "disk on fire"));
    assert_eq!(failure.to_string(), "cannot load the rows: disk on fire");
    let mut repeating = Failure::new("cannot load: disk on fire");
    repeating.chain.push("disk on fire".to_owned());
    assert_eq!(repeating.to_string(), "cannot load: disk on fire");
}

#[test]
fn a_value_that_cannot_be_kept_is_told_in_the_chain() {
    let kept = Failure::new("declined").with_value(&json!({"code": 51}));
    assert_eq!(kept.value.as_deref(), Some(&json!({"code": 51})));
    let lost = Failure::new("declined").with_value(&std::collections::BTreeMap::from([((1, 2), 3)]));
    assert_eq!(lost.value, None);
    assert!(lost.chain[0].starts_with("the error's value cannot be kept"), "{:?}", lost.chain);
}

#[test]
fn what_the_engine_reports_says_for_how_long() {
    let second = Duration::from_secs(1);
    let late = Failure::deadline_exceeded(second * 90);
    assert_eq!(late.message, "the task took longer than its deadline of 1m30s");
    assert_eq!((late.kind, late.again), (FailureKind::DeadlineExceeded, Again::Never));
    let slow = Failure::timed_out(second);
    assert_eq!((slow.kind, slow.again, slow.transient), (FailureKind::TimedOut, Again::ByPolicy, true));
    let quiet = Failure::beat_lost(second);
    assert_eq!(
        (quiet.kind, quiet.message.as_str()),
        (FailureKind::BeatLost, "the attempt sent no beat for 1s")
    );
    let panic = Failure::panic("index timed out of bounds");
    assert_eq!((panic.kind, panic.transient), (FailureKind::Panic, false));
    let odd = Failure::decode("the result of `load`", "expected a number");
    assert_eq!(odd.to_string(), "the result of `load` does not fit its type: expected a number");
    assert_eq!(odd.again, Again::Never);
}

#[test]
fn a_failure_is_small_enough_to_be_returned_by_every_task() {
    // From 128 bytes on, clippy would complain about each of them.
    assert!(size_of::<Failure>() <= 104, "it has {} bytes", size_of::<Failure>());
}

#[test]
fn a_failure_survives_its_record() {
    let failures = [
        Failure::new("plain"),
        Failure::retry_after(load(io::ErrorKind::TimedOut, "slow"), Duration::from_millis(1500)),
        Failure::panic("boom").with_value(&json!([1, {"a": null}])),
        Failure::deadline_exceeded(Duration::from_secs(1)),
    ];
    for failure in failures {
        let record = serde_json::to_string(&failure).unwrap();
        assert_eq!(serde_json::from_str::<Failure>(&record).unwrap(), failure);
    }
    assert_eq!(serde_json::to_string(&Failure::new("plain")).unwrap(), r#"{"message":"plain"}"#);
}
