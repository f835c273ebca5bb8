//! What a tenant's role can do with SQL of its own.

use windlass_postgres::PostgresTenants;
use windlass_store::Tenancy;

use crate::{
    common::connect,
    database::{Database, SECRET, created, inside, name, refusal},
};

/// The right is missing.
const DENIED: &str = "42501";

#[tokio::test]
async fn nothing_in_another_tenants_schema_can_be_read_written_or_called() {
    let database = Database::new().await;
    let tenants = database.tenants().await;
    let (acme, _) = (created(&tenants, "acme").await, created(&tenants, "beta").await);
    let (admin, acme) = (database.admin().await, inside(&acme).await);
    admin.batch_execute("SELECT windlass_beta.start('chain', '1', key => 'k')").await.unwrap();

    let tables =
        "SELECT relname FROM pg_class WHERE relnamespace = 'windlass_beta'::regnamespace AND relkind = 'r'";
    let tables = admin.query(tables, &[]).await.unwrap();
    assert!(tables.len() > 10, "{} tables", tables.len());
    for row in tables {
        let table = format!("windlass_beta.{}", row.get::<_, &str>(0));
        for sql in [
            format!("SELECT FROM {table}"),
            format!("COPY {table} TO STDOUT"),
            format!("INSERT INTO {table} DEFAULT VALUES"),
            format!("DELETE FROM {table}"),
            format!("TRUNCATE {table}"),
            format!("DO $$ BEGIN LOCK TABLE {table} IN ACCESS SHARE MODE; END $$"),
            format!("CREATE TEMP VIEW spy AS SELECT * FROM {table}"),
            format!("CREATE TEMP TABLE heir () INHERITS ({table})"),
        ] {
            assert_eq!(refusal(&acme, &sql).await, DENIED, "{sql}");
        }
    }
    for sql in [
        "SELECT windlass_beta.start('chain', '1')",
        "SELECT windlass_beta.cancel(gen_random_uuid())",
        "SELECT windlass_beta.clock()",
        "UPDATE windlass_beta.run SET priority = 0",
        "SELECT nextval('windlass_beta.inbox_seq_seq')",
        "SELECT pg_get_viewdef('windlass_beta.run'::regclass)",
    ] {
        assert_eq!(refusal(&acme, sql).await, DENIED, "{sql}");
    }
}

#[tokio::test]
async fn a_role_can_become_nobody_else_and_make_nothing_anywhere() {
    let database = Database::new().await;
    let tenants = database.tenants().await;
    let (acme, _) = (created(&tenants, "acme").await, created(&tenants, "beta").await);
    let acme = inside(&acme).await;
    let (mine, other) = (database.role("acme"), database.role("beta"));
    for sql in [
        format!("SET ROLE {other}"),
        "SET ROLE windlass".into(),
        format!("SET SESSION AUTHORIZATION {other}"),
        format!("GRANT {other} TO {mine}"),
        format!("ALTER ROLE {other} PASSWORD 'x'"),
        format!("ALTER ROLE {mine} CREATEROLE"),
        format!("DROP ROLE {other}"),
        "CREATE ROLE another".into(),
        "CREATE SCHEMA mine".into(),
        "CREATE TABLE public.trap (x int)".into(),
        "CREATE FUNCTION public.array_to_json(text[]) RETURNS json LANGUAGE sql AS 'SELECT NULL::json'"
            .into(),
        "DROP SCHEMA windlass_beta CASCADE".into(),
        "SELECT FROM tenants_of_windlass.tenant".into(),
        "DROP TABLE tenants_of_windlass.tenant".into(),
        "SELECT rolpassword FROM pg_authid".into(),
        "SELECT pg_read_file('postgresql.conf')".into(),
        "COPY (SELECT 1) TO PROGRAM 'true'".into(),
    ] {
        assert_eq!(refusal(&acme, &sql).await, DENIED, "{sql}");
    }
}

#[tokio::test]
async fn in_its_own_schema_a_tenant_has_rows_and_nothing_else() {
    let database = Database::new().await;
    let tenants = database.tenants().await;
    let acme = inside(&created(&tenants, "acme").await).await;
    acme.batch_execute("SELECT windlass_acme.start('chain', '1', key => 'k', tags => '{a}')").await.unwrap();
    // Whatever it could put there would run with the rights of whoever migrates or removes it.
    for sql in [
        "CREATE TABLE windlass_acme.mine (x int)",
        "CREATE FUNCTION windlass_acme.clock(x int) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
        "CREATE OR REPLACE FUNCTION windlass_acme.clock() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
        "CREATE TRIGGER trap BEFORE INSERT ON windlass_acme.node EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE RULE trap AS ON INSERT TO windlass_acme.node DO INSTEAD NOTHING",
        "ALTER TABLE windlass_acme.run ADD COLUMN mine int",
        "DROP TABLE windlass_acme.run",
        "TRUNCATE windlass_acme.run",
        "UPDATE windlass_acme.migration SET version = 0",
        "DELETE FROM windlass_acme.migration",
    ] {
        assert_eq!(refusal(&acme, sql).await, DENIED, "{sql}");
    }
    // PostgreSQL says no more than that nothing was given away.
    acme.batch_execute("GRANT USAGE ON SCHEMA windlass_acme TO PUBLIC").await.unwrap();
    let beta = inside(&created(&tenants, "beta").await).await;
    assert_eq!(refusal(&beta, "SELECT FROM windlass_acme.run").await, DENIED);
}

#[tokio::test]
async fn sessions_of_others_cannot_be_ended_or_overheard() {
    let database = Database::new().await;
    let tenants = database.tenants().await;
    let (acme, beta) = (created(&tenants, "acme").await, created(&tenants, "beta").await);
    let (acme, beta) = (inside(&acme).await, inside(&beta).await);
    let pid: i32 = beta.query_one("SELECT pg_backend_pid() /* of great value */", &[]).await.unwrap().get(0);
    for verb in ["terminate", "cancel"] {
        assert_eq!(refusal(&acme, &format!("SELECT pg_{verb}_backend({pid})")).await, DENIED);
    }
    let seen = acme.query_one("SELECT query FROM pg_stat_activity WHERE pid = $1", &[&pid]).await.unwrap();
    assert_eq!(seen.get::<_, &str>(0), "<insufficient privilege>");
}

#[tokio::test]
async fn the_same_name_in_two_databases_is_two_tenants() {
    let (one, two) = (Database::new().await, Database::new().await);
    let (acme, other) = (one.tenants().await, two.tenants().await);
    let (acme, other) = (created(&acme, "acme").await, created(&other, "acme").await);
    assert_ne!(one.role("acme"), two.role("acme"));
    let in_the_other = acme.replace(one.name(), two.name());
    let stranger = connect(in_the_other.split_once('?').unwrap().0).await;
    assert_eq!(refusal(&stranger, "SELECT FROM windlass_acme.run").await, DENIED);
    let password = |url: &str| url.split_once('@').unwrap().0.rsplit_once(':').unwrap().1.to_owned();
    assert_ne!(password(&acme), password(&other));
}

#[tokio::test]
async fn a_database_where_every_role_may_create_things_takes_no_tenants() {
    let database = Database::new().await;
    let (tenants, admin) = (database.tenants().await, database.admin().await);
    // As PostgreSQL 14 has it from the start.
    admin.batch_execute("GRANT CREATE ON SCHEMA public TO PUBLIC").await.unwrap();
    let error = tenants.create(name("acme")).await.unwrap_err().to_string();
    assert!(error.contains("`REVOKE CREATE ON SCHEMA public FROM PUBLIC`"), "{error}");
    assert_eq!(tenants.list().await.unwrap(), []);
    admin.batch_execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC").await.unwrap();
    created(&tenants, "acme").await;
}

#[tokio::test]
async fn rights_that_were_given_to_everybody_are_taken_back() {
    let database = Database::new().await;
    let (tenants, admin) = (database.tenants().await, database.admin().await);
    for kind in ["TABLES", "SCHEMAS", "SEQUENCES", "ROUTINES"] {
        let give = format!("ALTER DEFAULT PRIVILEGES GRANT ALL ON {kind} TO PUBLIC");
        admin.batch_execute(&give).await.unwrap();
    }
    let (acme, _) = (created(&tenants, "acme").await, created(&tenants, "beta").await);
    let acme = inside(&acme).await;
    assert_eq!(refusal(&acme, "SELECT FROM windlass_beta.run").await, DENIED);
    assert_eq!(refusal(&acme, "CREATE TABLE windlass_acme.mine (x int)").await, DENIED);
}

#[tokio::test]
async fn a_url_with_what_is_not_for_all_tenants_is_refused() {
    for option in ["schema=x", "migrate=no", "listen_url=postgres%3A%2F%2Fme%3Ahidden%40db%2Fapp"] {
        let url = format!("postgres://me:hidden@127.0.0.1:1/app?{option}");
        let error = PostgresTenants::open(&url, SECRET.into()).await.unwrap_err().to_string();
        assert!(error.contains("leave `") && !error.contains("hidden"), "{error}");
    }
}
