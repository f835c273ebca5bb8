//! Databases that can be used, and those that cannot.

mod common;

use common::{cluster, connect};
use windlass_postgres::{OpenError, Postgres, PostgresOptions};
use windlass_store::Store;

/// A schema's name that no other test has.
fn fresh() -> String {
    format!("opening_{}", uuid::Uuid::now_v7().simple())
}

async fn refused(options: PostgresOptions, url: &str) -> String {
    let error = options.open(url).await.expect_err("it cannot be used");
    let text = error.to_string();
    assert!(!text.contains("secret"), "{text}");
    text
}

#[tokio::test]
async fn many_who_open_a_new_schema_at_once_all_succeed() {
    let schema = fresh();
    let open = || PostgresOptions::new().schema(&schema).connections(2).open(cluster().url());
    let (a, b, c, d) = tokio::join!(open(), open(), open(), open());
    for store in [a, b, c, d] {
        store.unwrap().nodes().await.unwrap();
    }
}

#[tokio::test]
async fn what_is_missing_is_named_with_the_way_out() {
    let url = cluster().url();
    let server = url.rsplit_once('/').unwrap().0;
    let text = refused(PostgresOptions::new(), &format!("{server}/nowhere")).await;
    assert!(text.contains("nowhere") && text.contains("createdb"), "{text}");
    let text = refused(PostgresOptions::new(), "postgres://me:secret@127.0.0.1:1/app?wait=0").await;
    assert!(text.contains("127.0.0.1:1/app") && text.contains("is the server running"), "{text}");
    let text = refused(PostgresOptions::new(), "mysql://me:secret@db/app").await;
    assert!(text.contains("not a PostgreSQL URL"), "{text}");
}

#[tokio::test]
async fn a_role_without_rights_is_told_what_it_needs() {
    let (admin, role) = (connect(cluster().url()).await, fresh());
    admin.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await.unwrap();
    let url = cluster().url().replace("windlass@", &format!("{role}@"));
    let text = refused(PostgresOptions::new().schema(fresh()), &url).await;
    assert!(text.contains("permission denied") && text.contains("grant this role CREATE"), "{text}");
    let schema = fresh();
    PostgresOptions::new().schema(&schema).open(cluster().url()).await.unwrap();
    let text = refused(PostgresOptions::new().schema(&schema), &url).await;
    assert!(text.contains(&schema) && text.contains("grant this role USAGE on the schema"), "{text}");
    admin.batch_execute(&format!("DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn the_tables_of_others_are_left_alone() {
    let (admin, schema) = (connect(cluster().url()).await, fresh());
    let make = format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.run (mine text)");
    admin.batch_execute(&make).await.unwrap();
    let error = PostgresOptions::new().schema(&schema).open(cluster().url()).await.unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    // Even one that calls a table of its own as we call ours.
    admin.batch_execute(&format!("CREATE TABLE {schema}.migration (mine text)")).await.unwrap();
    let error = PostgresOptions::new().schema(&schema).open(cluster().url()).await.unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&schema) && text.contains("?schema="), "{text}");
}

#[tokio::test]
async fn a_schema_from_the_future_or_of_a_changed_program_is_refused() {
    let (admin, schema) = (connect(cluster().url()).await, fresh());
    let open = || PostgresOptions::new().schema(&schema).open(cluster().url());
    open().await.unwrap();
    let known: i64 =
        admin.query_one(&format!("SELECT count(*) FROM {schema}.migration"), &[]).await.unwrap().get(0);
    let add = format!(
        "INSERT INTO {schema}.migration (version, name, checksum) VALUES ({}, 'later', 'x')",
        known + 1
    );
    admin.batch_execute(&add).await.unwrap();
    let error = open().await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { .. }) && error.to_string().contains("upgrade"), "{error}");
    let change = format!(
        "DELETE FROM {schema}.migration WHERE name = 'later'; \
         UPDATE {schema}.migration SET checksum = 'x' WHERE version = 1"
    );
    admin.batch_execute(&change).await.unwrap();
    let error = open().await.unwrap_err();
    assert!(matches!(error, OpenError::Changed { version: 1, .. }), "{error}");
}

#[tokio::test]
async fn whoever_migrates_by_hand_is_told_when_it_is_time_and_the_dump_is_all_it_takes() {
    let (admin, schema) = (connect(cluster().url()).await, fresh());
    let open = || PostgresOptions::new().schema(&schema).without_migrations().open(cluster().url());
    let error = open().await.unwrap_err();
    assert!(matches!(error, OpenError::Unmigrated { found: 0, .. }), "{error}");
    admin.batch_execute(&Postgres::dump(&schema)).await.unwrap();
    open().await.unwrap().nodes().await.unwrap();
}

#[tokio::test]
async fn a_schema_may_have_any_name() {
    let (schema, server) = (format!("Größe '\"{{s}}; {}", fresh()), cluster().url());
    let schema: String = schema.chars().take(50).collect();
    let store = PostgresOptions::new().schema(&schema).open(server).await.unwrap();
    store.nodes().await.unwrap();
    drop(store);
    let (application, quoted) = (connect(server).await, format!("\"{}\"", schema.replace('"', "\"\"")));
    let call = format!("SELECT {quoted}.send({quoted}.start('etl'), 'paid')");
    application.batch_execute(&call).await.unwrap();
    application.batch_execute(&format!("DROP SCHEMA {quoted} CASCADE")).await.unwrap();
}

#[tokio::test]
async fn a_database_of_another_encoding_or_that_only_reads_is_refused() {
    let (admin, name) = (connect(cluster().url()).await, fresh());
    let make = format!("CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
    admin.batch_execute(&make).await.unwrap();
    let server = cluster().url().rsplit_once('/').unwrap().0;
    let text = refused(PostgresOptions::new(), &format!("{server}/{name}")).await;
    assert!(text.contains("SQL_ASCII") && text.contains("UTF8"), "{text}");
    admin.batch_execute(&format!("DROP DATABASE {name}")).await.unwrap();
    let url = format!("{}?options=-c%20default_transaction_read_only%3Don", cluster().url());
    let text = refused(PostgresOptions::new().schema(fresh()), &url).await;
    assert!(text.contains("read-only") && text.contains("target_session_attrs=read-write"), "{text}");
}
