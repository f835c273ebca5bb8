//! What is left of a creation or a removal that was killed half way: nothing, or everything.

use std::{future::Future, time::Duration};

use hmac_sha256::Hash;
use tokio_postgres::Client;
use windlass_store::{Removal, Store, Tenancy, TenantError};

use crate::database::{Database, created, name, opened, removed};

const WAITING: &str = "\
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// Who waits for a lock, once somebody does.
async fn waiting(admin: &Client) -> i32 {
    for _ in 0..500 {
        if let Some(row) = admin.query_opt(WAITING, &[]).await.unwrap() {
            return row.get(0);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody waits for a lock");
}

/// Does something, and kills it as soon as it waits for a lock.
async fn killed<T>(admin: &Client, work: impl Future<Output = Result<T, TenantError>>) -> TenantError {
    let kill = async {
        let pid = waiting(admin).await;
        admin.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
    };
    let (done, ()) = tokio::join!(work, kill);
    done.err().expect("it was killed")
}

/// How many schemas and roles there are of a tenant.
async fn left(database: &Database, admin: &Client, tenant: &str) -> (i64, i64) {
    let sql = "SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = $1), \
                      (SELECT count(*) FROM pg_roles WHERE rolname = $2)";
    let row = admin.query_one(sql, &[&format!("windlass_{tenant}"), &database.role(tenant)]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn a_creation_that_is_killed_half_way_leaves_nothing_and_succeeds_the_next_time() {
    let database = Database::new().await;
    let (tenants, admin, holder) = (database.tenants().await, database.admin().await, database.admin().await);
    // Its schema and its role are made, and its tables are not.
    let digest = Hash::hash(b"windlass_acme\0migration");
    let lock = i64::from_be_bytes(digest[..8].try_into().unwrap());
    holder.execute("SELECT pg_advisory_lock($1)", &[&lock]).await.unwrap();

    let error = killed(&admin, tenants.create(name("acme"))).await;
    assert!(matches!(error, TenantError::Store(_)), "{error}");
    assert_eq!(left(&database, &admin, "acme").await, (0, 0));
    assert_eq!(tenants.list().await.unwrap(), []);

    drop(holder);
    let url = created(&tenants, "acme").await;
    assert_eq!(left(&database, &admin, "acme").await, (1, 1));
    opened(&url).await.nodes().await.unwrap();
}

#[tokio::test]
async fn a_removal_that_is_killed_half_way_leaves_everything_and_succeeds_the_next_time() {
    let database = Database::new().await;
    let (tenants, admin, holder) = (database.tenants().await, database.admin().await, database.admin().await);
    let url = created(&tenants, "acme").await;
    holder.batch_execute("BEGIN; SELECT FROM windlass_acme.run").await.unwrap();

    killed(&admin, removed(&tenants, "acme")).await;
    assert_eq!(tenants.find(name("acme")).await.unwrap(), url);
    opened(&url).await.nodes().await.unwrap();
    // Of one by force it is left that nobody gets in.
    killed(&admin, tenants.remove(name("acme"), Removal::Forced)).await;
    let login = "SELECT rolcanlogin FROM pg_roles WHERE rolname = $1";
    assert!(!admin.query_one(login, &[&database.role("acme")]).await.unwrap().get::<_, bool>(0));
    // Whoever changes his mind makes it again, and it is all there.
    created(&tenants, "acme").await;
    opened(&url).await.nodes().await.unwrap();

    holder.batch_execute("COMMIT").await.unwrap();
    assert!(removed(&tenants, "acme").await.unwrap());
    assert_eq!(left(&database, &admin, "acme").await, (0, 0));
    assert!(!removed(&tenants, "acme").await.unwrap(), "a lost answer is asked for again");
}

#[tokio::test]
async fn a_node_that_joins_while_its_tenant_is_removed_is_seen_in_time() {
    let database = Database::new().await;
    let (tenants, admin, joining) =
        (database.tenants().await, database.admin().await, database.admin().await);
    let url = created(&tenants, "acme").await;
    let join = "BEGIN; INSERT INTO windlass_acme.node \
        (id, pid, host, version, queues, started_at, heartbeat_at, stale_after) \
        VALUES (gen_random_uuid(), 7, 'here', '', '{}', 0, windlass_acme.clock(), 60000000)";
    joining.batch_execute(join).await.unwrap();
    let commit = async {
        waiting(&admin).await;
        joining.batch_execute("COMMIT").await.unwrap();
    };
    let (removed, ()) = tokio::join!(removed(&tenants, "acme"), commit);
    let error = removed.unwrap_err();
    assert!(matches!(&error, TenantError::InUse { by, .. } if by == "process 7 on here"), "{error}");
    opened(&url).await.nodes().await.unwrap();
}

#[tokio::test]
async fn many_who_open_and_create_at_once_all_get_the_same() {
    let database = Database::new().await;
    let one = async || {
        let tenants = database.tenants().await;
        tenants.create(name("acme")).await.unwrap()
    };
    let urls = tokio::join!(one(), one(), one(), one(), one());
    let (first, others) = (urls.0, [urls.1, urls.2, urls.3, urls.4]);
    assert!(others.iter().all(|url| *url == first));
    assert_eq!(database.tenants().await.list().await.unwrap(), [name("acme")]);
}
