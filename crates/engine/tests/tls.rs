//! The engine on PostgreSQL, encrypted.
#![cfg(feature = "tls")]

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use windlass::prelude::*;
use windlass_cluster::Cluster;

#[workflow]
mod double {
    use super::*;

    #[task]
    pub async fn only(input: u32) -> Result<u32> {
        Ok(2 * input)
    }
}

/// A server that only speaks encrypted, and the certificate of the authority that vouches for it.
fn server() -> (Cluster, String) {
    let (mut authority, key) = (CertificateParams::default(), KeyPair::generate().unwrap());
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = authority.self_signed(&key).unwrap().pem();
    let (issuer, key) = (Issuer::new(authority, key), KeyPair::generate().unwrap());
    let own =
        CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap().pem();
    let settings = ["fsync = off", "ssl = on", "ssl_cert_file = 'own.crt'", "ssl_key_file = 'own.key'"];
    let rule = "hostssl all all 127.0.0.1/32 trust";
    let files = [("own.crt", &*own), ("own.key", &key.serialize_pem()), ("pg_hba.conf", rule)];
    (Cluster::start_with(&settings, &files).unwrap(), ca)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_and_a_client_work_over_encrypted_connections_alone() -> Result<()> {
    let (cluster, ca) = server();
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(&file, ca)?;
    let url = format!("{}?sslmode=verify-full&sslrootcert={}", cluster.url(), file.path().display());
    let engine = Engine::open(url.as_str()).workflow(double::workflow()).launch().await?;
    let client = Client::connect(&url).await?;
    assert_eq!(engine.start(double::workflow(), 4).await?.await?, 8);
    assert_eq!(client.start(double::workflow(), 5).await?.await?, 10);
    let plain = format!("{}?sslmode=disable", cluster.url());
    let error = Client::connect(&plain).await.expect_err("it is refused");
    assert_eq!(error.code(), "store");
    engine.stop().await?;
    Ok(())
}
