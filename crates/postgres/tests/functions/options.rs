//! Every option of a start, and values that nobody expects.

use windlass_core::RunState;
use windlass_store::{Place, RunImage, Store};

use crate::Schema;

impl Schema {
    async fn started(&self, arguments: &str) -> RunImage {
        let run = self.start(arguments).await;
        self.store.load(run).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn json_jsonb_and_text_are_taken_and_nobody_has_to_say_which() {
    let schema = Schema::new().await;
    for (given, kept) in [
        (r#"'{"b": 1, "a": [ ]}'"#, r#"{"b": 1, "a": [ ]}"#),
        (r#"'{"b": 1}'::text"#, r#"{"b": 1}"#),
        (r#"'{"b": 1}'::varchar"#, r#"{"b": 1}"#),
        (r#"'{"b": 1}'::json"#, r#"{"b": 1}"#),
        (r#"'{"b":1}'::jsonb"#, r#"{"b": 1}"#),
        ("json_build_object('id', 17)", r#"{"id" : 17}"#),
        ("to_jsonb(17)", "17"),
        (r#"input => '"é"'"#, "\"é\""),
    ] {
        let image = schema.started(&format!("'etl', {given}")).await;
        assert_eq!(image.run.input, kept.as_bytes(), "{given}");
    }
    assert_eq!(schema.started("'etl'").await.run.input, "null");
    assert_eq!(schema.started("'etl', key => 'k'").await.run.key.as_deref(), Some("k"));
}

#[tokio::test]
async fn an_option_that_is_null_is_as_if_it_were_left_out() {
    let schema = Schema::new().await;
    let plain = schema.started("'etl', '1'").await.run;
    let nulls =
        schema.started("'etl', '1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL").await;
    assert_eq!(nulls.standing.state(), RunState::Pending);
    let nulls = nulls.run;
    assert_eq!((&*nulls.queue, nulls.priority, nulls.timeout), ("default", 5, None));
    assert_eq!(
        (nulls.queue, nulls.priority, nulls.key, nulls.tags),
        (plain.queue, plain.priority, None, plain.tags)
    );
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_by_name_and_leaves_nothing() {
    let schema = Schema::new().await;
    for (arguments, code, word) in [
        ("NULL", "WL003", "name of a workflow"),
        ("''", "WL003", "name of a workflow"),
        ("'windlass.schedule', key => 'nightly'", "WL003", "`windlass.schedule` is the engine's own"),
        ("'etl', NULL", "WL003", "`input` is NULL"),
        ("'etl', NULL::jsonb", "WL003", "`input` is NULL"),
        ("'etl', '{'", "22P02", "json"),
        ("'etl', queue => ''", "WL003", "a queue needs a name"),
        ("'etl', queue => 'windlass', queue_key => 'x'", "WL003", "`windlass` is the engine's own"),
        ("'etl', priority => 10", "WL003", "priority 10"),
        ("'etl', priority => -1", "WL003", "priority -1"),
        ("'etl', priority => 100000", "WL003", "priority 100000"),
        ("'etl', timeout => '0'", "WL003", "`timeout`"),
        ("'etl', timeout => '-1 day'", "WL003", "`timeout`"),
        ("'etl', key => 'k', key_for => '-1 day'", "WL003", "`key_for`"),
        ("'etl', context => '[1]'", "WL003", "[1]"),
        ("'etl', context => 'null'", "WL003", "null"),
        ("'etl', tags => '{a,NULL}'", "WL003", "tags is NULL"),
    ] {
        let refused = schema.ask(&format!("{{s}}.start({arguments})")).await.expect_err(arguments);
        assert!(refused.starts_with(code) && refused.contains(word), "{arguments}: {refused}");
    }
    assert_eq!(schema.one("(SELECT count(*) FROM {s}.run) + (SELECT count(*) FROM {s}.key)").await, "0");
}

#[tokio::test]
async fn a_span_may_be_of_any_length() {
    let schema = Schema::new().await;
    let until = "(SELECT max(opened_at - created_at) FROM {s}.run)";
    for (delay, micros) in [
        ("-1 hour", "0"),
        ("1 microsecond", "1"),
        ("1 day", "86400000000"),
        ("1 month", "2592000000000"),
        ("1 month -30 days 1 second", "1000000"),
    ] {
        let image = schema.started(&format!("'etl', delay => '{delay}'")).await;
        assert_eq!(schema.one(until).await, micros, "{delay}");
        let waits = matches!(image.standing.place, Place::Waiting(_));
        assert_eq!(waits, micros != "0", "{delay}");
        schema.execute("DELETE FROM {s}.run").await;
    }
    // Longer than a number of microseconds can say.
    let image = schema.started("'etl', delay => '170000000 years', timeout => '170000000 years'").await;
    assert_eq!(image.standing.opened_at.0, i64::MAX);
    assert_eq!(image.run.timeout.map(|most| most.as_micros()), Some(i64::MAX as u128));
    let server: i32 = schema.one("current_setting('server_version_num')").await.parse().unwrap();
    // Older servers know no such interval.
    if server >= 170_000 {
        for option in ["delay", "timeout", "key_for"] {
            let refused =
                schema.ask(&format!("{{s}}.start('etl', key => 'k', {option} => 'infinity')")).await;
            assert!(refused.unwrap_err().contains(&format!("`{option}` is infinite")));
        }
    }
}

/// A transaction may have begun long before: what it starts has all of its delay and of its time.
#[tokio::test]
async fn delay_and_time_limit_count_from_the_call_and_not_from_the_beginning_of_the_transaction() {
    let schema = Schema::new().await;
    schema.execute("BEGIN; CREATE TEMP TABLE begun AS SELECT {s}.clock() AS at; SELECT pg_sleep(0.1)").await;
    let run = schema.start("'etl', delay => '1 second', key => 'k', key_for => '1 second'").await;
    schema.execute("COMMIT").await;
    for (what, least) in [
        (format!("created_at FROM {{s}}.run WHERE id = '{run}'"), 100_000),
        (format!("opened_at FROM {{s}}.run WHERE id = '{run}'"), 1_100_000),
        ("until FROM {s}.key".to_owned(), 1_100_000),
    ] {
        let since: i64 =
            schema.one(&format!("(SELECT {what}) - (SELECT at FROM begun)")).await.parse().unwrap();
        assert!(since >= least, "{what}: {since}");
    }
}

#[tokio::test]
async fn tags_of_any_shape_are_a_list_of_words() {
    let schema = Schema::new().await;
    let image = schema.started(r#"'etl', tags => '{{"a \"b\"",é},{c,c}}'"#).await;
    assert_eq!(image.run.tags, ["a \"b\"", "é", "c", "c"]);
    assert_eq!(schema.one("(SELECT count(*) FROM {s}.tag)").await, "3");
    assert!(schema.started("'etl', tags => '{}'").await.run.tags.is_empty());
}

#[tokio::test]
async fn an_input_over_the_limit_is_refused_and_the_limit_can_be_raised() {
    let schema = Schema::new().await;
    let large = "'etl', to_json(repeat('x', 4 * 1024 * 1024))";
    let refused = schema.ask(&format!("{{s}}.start({large})")).await.unwrap_err();
    assert!(
        refused.starts_with("WL005") && refused.contains("4194306 bytes, over the limit of 4194304"),
        "{refused}"
    );
    let run = schema.start("'etl', to_json(repeat('x', 4 * 1024 * 1024 - 2))").await;
    assert_eq!(schema.store.load(run).await.unwrap().unwrap().run.input.len(), 4 << 20);
    schema.execute("SET windlass.payload_limit = '16 MB'").await;
    schema.start(large).await;
    schema.execute("RESET windlass.payload_limit").await;
    assert!(schema.ask(&format!("{{s}}.start({large})")).await.is_err());
    // One call alone.
    schema.execute("BEGIN; SET LOCAL windlass.payload_limit = '5MB'").await;
    schema.start(large).await;
    schema.execute("COMMIT").await;
    assert!(schema.ask(&format!("{{s}}.start({large})")).await.is_err());
}

#[tokio::test]
async fn a_key_belongs_to_the_input_however_it_is_spaced() {
    let schema = Schema::new().await;
    let run = schema.start(r#"'etl', '{"id":17,"note":"a \" b  c"}', key => 'k'"#).await;
    for same in [
        r#"' { "id" : 17 , "note" : "a \" b  c" } '"#,
        r#"'{"id": 17, "note": "a \" b  c"}'::jsonb"#,
        r#"E'{\n\t"id":17,\r\n"note":"a \\" b  c"}'::json"#,
    ] {
        assert_eq!(schema.start(&format!("'etl', {same}, key => 'k'")).await, run, "{same}");
    }
    for other in [r#"'{"id":17,"note":"a \" b c"}'"#, r#"'{"id":1 ,"note":""}'"#] {
        let refused = schema.ask(&format!("{{s}}.start('etl', {other}, key => 'k')")).await.unwrap_err();
        assert!(refused.starts_with("WL002") && refused.contains(&run.to_string()), "{refused}");
        assert_eq!(schema.start(&format!("'etl', {other}, key => 'k', or_existing => true")).await, run);
    }
    // Another workflow has keys of its own, and a key that lapses passes on.
    assert_ne!(schema.start("'other', key => 'k'").await, run);
    let short = schema.start("'etl', '1', key => 'short', key_for => '1 microsecond'").await;
    assert_ne!(schema.start("'etl', '2', key => 'short'").await, short);
}

#[tokio::test]
async fn a_session_with_strange_settings_is_served_as_any_other() {
    let schema = Schema::new().await;
    schema
        .execute(
            "CREATE FUNCTION {s}.convert_to(text, text) RETURNS bytea LANGUAGE sql AS 'SELECT NULL::bytea'; \
             SET standard_conforming_strings = off; SET search_path = {s}, pg_catalog; SET bytea_output = escape; \
             SET IntervalStyle = iso_8601; SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'German'",
        )
        .await;
    let run = schema.start("'etl', '{\"a\": \"b \"}', key => 'k', delay => '1 hour'").await;
    assert_eq!(schema.start("'etl', '{\"a\":\"b \"}', key => 'k'").await, run);
    let image = schema.store.load(run).await.unwrap().unwrap();
    assert_eq!(image.run.input, "{\"a\": \"b \"}");
    assert_eq!(image.standing.opened_at.since(image.run.created_at).as_secs(), 3600);
}
