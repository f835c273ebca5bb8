//! Passwords, on a server that asks for them.

use std::fs;

use windlass_cluster::Cluster;
use windlass_postgres::{Postgres, PostgresTenants};
use windlass_store::{Store, Tenancy};

use crate::{
    common::connect,
    database::{SECRET, created, name, opened},
};

/// A server that trusts its owner alone.
fn strict(directory: &tempfile::TempDir) -> Cluster {
    let rules = directory.path().join("rules.conf");
    let lines = "host all windlass 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    fs::write(&rules, lines).unwrap();
    open_to_all(directory.path(), 0o755);
    open_to_all(&rules, 0o644);
    Cluster::start(&[&format!("hba_file = '{}'", rules.display())]).unwrap()
}

/// The server may run as another user.
fn open_to_all(path: &std::path::Path, mode: u32) {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    #[cfg(not(unix))]
    let _ = (path, mode);
}

async fn refused(url: &str) -> String {
    Postgres::open(url).await.expect_err("it was let in").to_string()
}

#[tokio::test]
async fn a_password_opens_one_tenant_until_another_takes_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let server = strict(&directory);
    let tenants = PostgresTenants::open(server.url(), SECRET.into()).await.unwrap();
    let (acme, beta) = (created(&tenants, "acme").await, created(&tenants, "beta").await);
    opened(&acme).await.nodes().await.unwrap();
    opened(&beta).await.nodes().await.unwrap();

    let user = |url: &str| url.split_once(':').unwrap().1.split_once(':').unwrap().0.to_owned();
    let crossed = acme.replace(&user(&acme), &user(&beta));
    let text = refused(&crossed).await;
    assert!(text.contains("password") && !text.contains(SECRET), "{text}");

    // The server knows enough to check it, and not the password itself.
    let password = acme.split_once('@').unwrap().0.rsplit_once(':').unwrap().1;
    let kept = "SELECT rolpassword FROM pg_authid WHERE rolname LIKE 'windlass\\_acme\\_%'";
    let kept: String = connect(server.url()).await.query_one(kept, &[]).await.unwrap().get(0);
    assert!(kept.starts_with("SCRAM-SHA-256$4096:") && !kept.contains(password), "{kept}");

    let rotated = tenants.rotate(name("acme")).await.unwrap();
    refused(&acme).await;
    opened(&rotated).await.nodes().await.unwrap();
    assert_eq!(tenants.find(name("acme")).await.unwrap(), rotated);
    assert_eq!(tenants.create(name("acme")).await.unwrap(), rotated, "making it again changes nothing");
    assert_eq!(tenants.find(name("beta")).await.unwrap(), beta, "the others keep theirs");

    // Another secret changes nothing before somebody says so.
    let other = PostgresTenants::open(server.url(), SECRET.repeat(2)).await.unwrap();
    for answer in [other.find(name("acme")).await, other.create(name("acme")).await] {
        let error = answer.unwrap_err().to_string();
        assert!(error.contains("another secret") && error.contains("rotate"), "{error}");
    }
    other.migrate(name("acme")).await.unwrap();
    opened(&rotated).await.nodes().await.unwrap();
    let moved = other.rotate(name("acme")).await.unwrap();
    refused(&rotated).await;
    opened(&moved).await.nodes().await.unwrap();
}
