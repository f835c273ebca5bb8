//! An application's role may start, send and cancel, and nothing else.

use crate::{Schema, ask, cluster, connect};

#[tokio::test]
async fn a_role_that_may_only_call_the_functions_can_do_nothing_else() {
    let schema = Schema::new().await;
    let role = format!("shop_{}", uuid::Uuid::now_v7().simple());
    schema.execute(&format!("CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {{s}} TO {role}")).await;
    let shop = connect(&cluster().url().replace("windlass@", &format!("{role}@"))).await;
    let calls = [
        "{s}.start('etl', '1', key => 'k', delay => '1 hour', tags => '{a}') IS NOT NULL",
        "{s}.start('etl', '1'::json) IS NOT NULL",
        "{s}.start('etl', '1'::jsonb) IS NOT NULL",
        "{s}.send({s}.run_by_key('etl', 'k'), 'paid', '{}')",
        "{s}.send({s}.run_by_key('etl', 'k'), 'paid', '{}'::json)",
        "{s}.send({s}.run_by_key('etl', 'k'), 'paid', '{}'::jsonb)",
        "{s}.cancel({s}.run_by_key('etl', 'k'), 'why')",
        "{s}.version() > 1",
    ];
    // Whoever may look into the schema may not therefore call.
    for call in calls {
        let refused = ask(&shop, &schema.name, call).await.expect_err(call);
        assert!(refused.starts_with("42501"), "{call}: {refused}");
    }
    schema.execute(&format!("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {{s}} TO {role}")).await;
    for call in calls {
        assert_eq!(ask(&shop, &schema.name, call).await, Ok(Some("true".into())), "{call}");
    }
    for (table, column) in
        [("run", "id"), ("inbox", "run"), ("key", "run"), ("migration", "version"), ("posted", "no")]
    {
        let looks = ask(&shop, &schema.name, &format!("SELECT max({column}::text) FROM {{s}}.{table}")).await;
        assert!(looks.unwrap_err().starts_with("42501"), "{table}");
    }
    // The parts of the functions have no rights of their own.
    let part = "{s}.post({s}.run_by_key('etl', 'k'), '!terminate', 'x', NULL)";
    assert!(ask(&shop, &schema.name, part).await.unwrap_err().starts_with("42501"));
    // Nor can what delivers messages be made to deliver others.
    let forged = "CREATE TEMP TABLE forged (no bigint, run uuid, topic text, key text, body bytea); \
        CREATE TRIGGER deliver AFTER INSERT ON forged FOR EACH ROW EXECUTE FUNCTION {s}.deliver(); \
        INSERT INTO forged VALUES (1, {s}.run_by_key('etl', 'k'), '!terminate', NULL, 'x')";
    let refused = shop.batch_execute(&forged.replace("{s}", &schema.name)).await.unwrap_err();
    assert_eq!(refused.code(), Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE));
    let topics = "(SELECT string_agg(topic, ' ' ORDER BY seq) FROM {s}.inbox)";
    assert_eq!(schema.one(topics).await, "paid paid paid !cancel");
    drop(shop);
    schema.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}
