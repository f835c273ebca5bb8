//! Events and cancels, as far as they are about one run that nobody moves.

use windlass_core::RunId;
use windlass_store::{Act, Idle, NewEnd, Place, Store, Unit};

use crate::Schema;

impl Schema {
    async fn inbox(&self, run: RunId) -> Vec<(String, Vec<u8>, Option<String>)> {
        let image = self.store.load(run).await.unwrap().unwrap();
        let keys =
            self.application.query(&format!("SELECT key FROM {}.inbox ORDER BY seq", self.name), &[]).await;
        let keys = keys.unwrap().into_iter().map(|row| row.get(0));
        image.inbox.into_iter().zip(keys).map(|(row, key)| (row.topic, row.body.to_vec(), key)).collect()
    }
}

#[tokio::test]
async fn an_event_is_a_topic_with_json_and_its_key_counts_once() {
    let schema = Schema::new().await;
    let run = schema.start("'etl'").await;
    for call in [
        "'paid'",
        "'paid', '{\"by\": \"card\"}'",
        "'paid', '1'::json, key => 'k'",
        "'paid', '2'::jsonb, key => 'k'",
        "'other', '3', 'k'",
    ] {
        assert_eq!(schema.one(&format!("{{s}}.send('{run}', {call})")).await, "true", "{call}");
    }
    // Twice in one transaction, and once in a part of it that is rolled back.
    schema
        .execute(&format!(
            "BEGIN; SELECT {{s}}.send('{run}', 'twice', '4', 'k'), {{s}}.send('{run}', 'twice', '5', 'k')"
        ))
        .await;
    schema
        .execute(&format!("SAVEPOINT a; SELECT {{s}}.send('{run}', 'gone'); ROLLBACK TO SAVEPOINT a; COMMIT"))
        .await;
    let expected = [
        ("paid", "null", None),
        ("paid", "{\"by\": \"card\"}", None),
        ("paid", "1", Some("k")),
        ("other", "3", Some("k")),
        ("twice", "4", Some("k")),
    ]
    .map(|(topic, body, key)| (topic.to_owned(), body.as_bytes().to_vec(), key.map(str::to_owned)));
    assert_eq!(schema.inbox(run).await, expected);
}

#[tokio::test]
async fn what_is_no_event_is_refused_by_name() {
    let schema = Schema::new().await;
    let run = schema.start("'etl'").await;
    for (arguments, code, word) in [
        ("NULL, '1'", "WL003", "name of a topic"),
        ("'', '1'", "WL003", "name of a topic"),
        ("'!terminate', '1'", "WL003", "`!terminate` is the engine's own"),
        ("'>child', '1'", "WL003", "`>child` is the engine's own"),
        ("'paid', NULL", "WL003", "`payload` is NULL"),
        ("'paid', '{'", "22P02", "json"),
        ("'paid', to_json(repeat('x', 5000000))", "WL005", "5000002 bytes"),
    ] {
        let refused = schema.ask(&format!("{{s}}.send('{run}', {arguments})")).await.expect_err(arguments);
        assert!(refused.starts_with(code) && refused.contains(word), "{arguments}: {refused}");
    }
    assert!(schema.inbox(run).await.is_empty());
}

#[tokio::test]
async fn runs_of_the_engines_own_are_steered_as_what_they_keep() {
    let schema = Schema::new().await;
    let run = schema.start("'etl'").await;
    schema.execute(&format!("UPDATE {{s}}.run SET workflow = 'windlass.schedule' WHERE id = '{run}'")).await;
    for call in ["send('{run}', 'paid')", "cancel('{run}')"] {
        let call = format!("{{s}}.{}", call.replace("{run}", &run.to_string()));
        let refused = schema.ask(&call).await.expect_err(&call);
        assert!(refused.starts_with("WL003") && refused.contains("schedule, trigger or batch"), "{refused}");
    }
    assert!(schema.inbox(run).await.is_empty());
}

#[tokio::test]
async fn a_run_that_has_ended_or_never_was_hears_nothing() {
    let schema = Schema::new().await;
    let run = schema.start("'etl', key => 'k'").await;
    let end = NewEnd { state: windlass_core::RunState::Cancelled, output: None, failure: None };
    let unit = Unit { run, act: Act::EndIdle { only: Idle::Any, end } };
    schema.store.commit(None, std::sync::Arc::new(vec![unit])).await.unwrap()[0].as_ref().unwrap();
    for target in ["{s}.run_by_key('etl', 'k')", "{s}.run_by_key('etl', 'no')", "gen_random_uuid()", "NULL"] {
        for call in ["send({run}, 'paid')", "send({run}, 'paid', key => 'k')", "cancel({run})"] {
            let call = format!("{{s}}.{}", call.replace("{run}", target));
            assert_eq!(schema.one(&call).await, "false", "{call}");
        }
    }
    assert_eq!(schema.one("(SELECT count(*) FROM {s}.inbox)").await, "0");
}

#[tokio::test]
async fn a_cancel_wakes_a_run_before_its_delay_is_over_and_an_event_does_not() {
    let schema = Schema::new().await;
    let run = schema.start("'etl', delay => '1 hour'").await;
    assert_eq!(schema.one(&format!("{{s}}.send('{run}', 'paid')")).await, "true");
    let place = async || schema.store.load(run).await.unwrap().unwrap().standing.place;
    assert!(matches!(place().await, Place::Waiting(_)));
    assert_eq!(schema.one(&format!("{{s}}.cancel('{run}', NULL)")).await, "true");
    assert!(matches!(place().await, Place::Ready));
    assert_eq!(schema.inbox(run).await[1], ("!cancel".into(), Vec::new(), None));
}
