//! Those who manage tenants: what they need, and what they leave alone.

use windlass_postgres::{Postgres, PostgresTenants};
use windlass_store::{Removal, Store, Tenancy, TenantError};

use crate::database::{Database, SECRET, created, inside, name, opened, removed};

#[tokio::test]
async fn it_takes_a_role_that_may_make_roles_and_schemas_and_no_more() {
    let database = Database::new().await;
    let admin = database.admin().await;
    let manager = database.role("manager");
    admin.batch_execute(&format!("CREATE ROLE {manager} LOGIN")).await.unwrap();
    let url = database.url.replace("windlass@", &format!("{manager}@"));
    let error = PostgresTenants::open(&url, SECRET.into()).await.unwrap_err().to_string();
    assert!(error.contains("CREATEROLE") && error.contains("CREATE on the database"), "{error}");

    let allow =
        format!("ALTER ROLE {manager} CREATEROLE; GRANT CREATE ON DATABASE {} TO {manager}", database.name());
    admin.batch_execute(&allow).await.unwrap();
    let tenants = PostgresTenants::open(&url, SECRET.into()).await.unwrap();
    let acme = created(&tenants, "acme").await;
    opened(&acme).await.nodes().await.unwrap();
    tenants.migrate(name("acme")).await.unwrap();
    tenants.rotate(name("acme")).await.unwrap();
    assert!(removed(&tenants, "acme").await.unwrap());

    // It may not end the sessions of others, and takes away what they could reach.
    let left = inside(&created(&tenants, "acme").await).await;
    assert!(tenants.remove(name("acme"), Removal::Forced).await.unwrap());
    assert!(left.batch_execute("SELECT FROM windlass_acme.run").await.is_err());
    let back = format!("REVOKE ALL ON DATABASE {} FROM {manager}", database.name());
    admin.batch_execute(&back).await.unwrap();
}

#[tokio::test]
async fn a_list_of_tenants_that_somebody_else_put_there_is_not_trusted() {
    let database = Database::new().await;
    let admin = database.admin().await;
    let (manager, stranger) = (database.role("manager"), database.role("stranger"));
    let set = format!(
        "CREATE ROLE {manager} LOGIN CREATEROLE; CREATE ROLE {stranger}; \
         GRANT CREATE ON DATABASE {0} TO {manager}, {stranger}; \
         CREATE SCHEMA tenants_of_windlass AUTHORIZATION {stranger}; \
         CREATE TABLE tenants_of_windlass.tenant (name text, salt uuid, digest bytea); \
         ALTER TABLE tenants_of_windlass.tenant OWNER TO {stranger}; \
         GRANT ALL ON SCHEMA tenants_of_windlass TO PUBLIC; GRANT ALL ON tenants_of_windlass.tenant TO PUBLIC",
        database.name()
    );
    admin.batch_execute(&set).await.unwrap();
    let url = database.url.replace("windlass@", &format!("{manager}@"));
    let error = PostgresTenants::open(&url, SECRET.into()).await.unwrap_err().to_string();
    assert!(error.contains("belongs to another role"), "{error}");
}

#[tokio::test]
async fn a_schema_or_a_role_of_somebody_else_is_left_alone() {
    let database = Database::new().await;
    let (tenants, admin) = (database.tenants().await, database.admin().await);
    admin
        .batch_execute("CREATE SCHEMA windlass_acme; CREATE TABLE windlass_acme.run (mine int)")
        .await
        .unwrap();
    admin.batch_execute(&format!("CREATE ROLE {} SUPERUSER", database.role("beta"))).await.unwrap();
    for tenant in ["acme", "beta"] {
        let error = tenants.create(name(tenant)).await.unwrap_err().to_string();
        assert!(error.contains("not a tenant's") && error.contains(tenant), "{error}");
        assert!(!removed(&tenants, tenant).await.unwrap());
    }
    admin.batch_execute("SELECT mine FROM windlass_acme.run").await.unwrap();
    assert_eq!(tenants.list().await.unwrap(), []);
}

#[tokio::test]
async fn what_a_restored_backup_lacks_is_made_again() {
    let database = Database::new().await;
    let (tenants, admin) = (database.tenants().await, database.admin().await);
    let url = created(&tenants, "acme").await;
    // Roles are no part of a backup of a database.
    let role = database.role("acme");
    admin.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
    assert!(Postgres::open(&url).await.is_err());
    tenants.migrate(name("acme")).await.unwrap();
    opened(&url).await.nodes().await.unwrap();
}

#[tokio::test]
async fn a_tenant_is_let_into_a_database_that_is_closed_to_everybody() {
    let database = Database::new().await;
    let (tenants, admin) = (database.tenants().await, database.admin().await);
    admin
        .batch_execute(&format!("REVOKE CONNECT ON DATABASE {} FROM PUBLIC", database.name()))
        .await
        .unwrap();
    let url = created(&tenants, "acme").await;
    opened(&url).await.nodes().await.unwrap();
    assert!(removed(&tenants, "acme").await.unwrap());
}

#[tokio::test]
async fn a_role_that_has_rights_elsewhere_is_not_removed_before_they_are() {
    let database = Database::new().await;
    let (tenants, admin) = (database.tenants().await, database.admin().await);
    let url = created(&tenants, "acme").await;
    let give = format!("CREATE TABLE orders (id int); GRANT SELECT ON orders TO {}", database.role("acme"));
    admin.batch_execute(&give).await.unwrap();
    inside(&url).await.batch_execute("SELECT id FROM orders").await.unwrap();
    let error = removed(&tenants, "acme").await.unwrap_err().to_string();
    assert!(error.contains("privileges for table public.orders") && error.contains("revoke"), "{error}");
    opened(&url).await.nodes().await.unwrap();
    admin.batch_execute("DROP TABLE orders").await.unwrap();
    assert!(removed(&tenants, "acme").await.unwrap());
}

#[tokio::test]
async fn a_tenant_does_not_migrate_itself_and_says_so() {
    let database = Database::new().await;
    let (tenants, admin) = (database.tenants().await, database.admin().await);
    let url = created(&tenants, "acme").await;
    // As a program of the next version finds it.
    let older = "DELETE FROM windlass_acme.migration WHERE version = (SELECT max(version) FROM windlass_acme.migration)";
    admin.batch_execute(older).await.unwrap();
    let error = Postgres::open(&url).await.unwrap_err().to_string();
    assert!(error.contains("windlass_acme") && error.contains("run the migrations"), "{error}");
}

#[tokio::test]
async fn a_tenant_that_was_removed_is_unknown() {
    let database = Database::new().await;
    let tenants = database.tenants().await;
    let url = created(&tenants, "acme").await;
    assert!(removed(&tenants, "acme").await.unwrap());
    assert!(Postgres::open(&url).await.is_err());
    for unknown in [tenants.find(name("acme")).await, tenants.rotate(name("acme")).await] {
        assert!(matches!(unknown, Err(TenantError::Unknown(_))), "{unknown:?}");
    }
    tenants.migrate(name("acme")).await.unwrap();
    assert_eq!(tenants.list().await.unwrap(), []);
}
