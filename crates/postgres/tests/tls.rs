//! Encrypted connections.
#![cfg(feature = "tls")]

mod common;

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use common::{cluster, connect};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use windlass_cluster::Cluster;
use windlass_postgres::{Postgres, PostgresOptions, TlsMode};
use windlass_store::Store;

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate and its key.
    fn certify(&self, name: &str, purpose: ExtendedKeyUsagePurpose) -> (String, String) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages.push(purpose);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// Files that are gone with it.
struct Files {
    directory: PathBuf,
}

impl Files {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("windlass-tls-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).unwrap();
        Self { directory }
    }

    /// A file's place, as a URL may have it.
    fn write(&self, name: &str, contents: &str) -> String {
        let file = self.directory.join(name);
        fs::write(&file, contents).unwrap();
        file.to_str().unwrap().to_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.directory).ok();
    }
}

/// A server that calls itself `localhost`, and believes in the same authority. Only some of its users may come as they
/// like.
struct Server {
    cluster: Cluster,
    authority: Authority,
    files: Files,
}

const RULES: &str = "\
    host    all windlass  127.0.0.1/32 trust\n\
    hostssl all encrypted 127.0.0.1/32 trust\n\
    hostssl all certified 127.0.0.1/32 cert\n";

impl Server {
    async fn start() -> Self {
        let authority = Authority::new("ours");
        let (certificate, key) = authority.certify("localhost", ExtendedKeyUsagePurpose::ServerAuth);
        let settings = [
            "fsync = off",
            "ssl = on",
            "ssl_cert_file = 'own.crt'",
            "ssl_key_file = 'own.key'",
            "ssl_ca_file = 'ca.crt'",
        ];
        let files = [
            ("own.crt", &*certificate),
            ("own.key", &key),
            ("ca.crt", &authority.pem),
            ("pg_hba.conf", RULES),
        ];
        let cluster = Cluster::start_with(&settings, &files).unwrap();
        let admin = connect(cluster.url()).await;
        let roles = "CREATE ROLE encrypted SUPERUSER LOGIN; CREATE ROLE certified SUPERUSER LOGIN";
        admin.batch_execute(roles).await.unwrap();
        Self { cluster, authority, files: Files::new() }
    }

    fn url(&self, user: &str, host: &str) -> String {
        self.cluster.url().replace("windlass@", &format!("{user}@")).replace("127.0.0.1", host)
    }

    fn ca(&self) -> String {
        self.files.write("ca.crt", &self.authority.pem)
    }

    /// How many connections of this name there are that are encrypted, and how many that are not.
    async fn counted(&self, name: &str) -> (i64, i64) {
        let ask = "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl) \
                   FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = $1";
        let row = connect(self.cluster.url()).await.query_one(ask, &[&name]).await.unwrap();
        (row.get(0), row.get(1))
    }
}

async fn opened(url: &str) -> Result<Postgres, String> {
    let store = Postgres::open(url).await.map_err(|error| error.to_string())?;
    store.nodes().await.map_err(|error| error.to_string())?;
    Ok(store)
}

async fn refused(url: &str, words: &[&str]) {
    let text = opened(url).await.expect_err("it must not be believed");
    assert!(words.iter().all(|word| text.contains(word)), "{url}: {text}");
}

#[tokio::test]
async fn a_server_is_believed_as_far_as_it_was_asked_to_prove_itself() {
    let server = Server::start().await;
    let (right, wrong) = (server.ca(), server.files.write("wrong.crt", &Authority::new("another").pem));
    let named = server.url("encrypted", "localhost");
    let unnamed = server.url("encrypted", "127.0.0.1");

    // The right authority, and the name on the certificate.
    opened(&format!("{named}?sslmode=verify-full&sslrootcert={right}")).await.unwrap();
    opened(&format!("{unnamed}?sslmode=verify-ca&sslrootcert={right}")).await.unwrap();
    opened(&format!("{unnamed}?sslmode=require&sslrootcert={right}")).await.unwrap();
    let other_name = ["127.0.0.1", "localhost", "check the host in the URL"];
    refused(&format!("{unnamed}?sslmode=verify-full&sslrootcert={right}"), &other_name).await;

    // Another authority, or everybody's.
    let unknown = ["UnknownIssuer", "`sslrootcert`"];
    for mode in ["verify-full", "verify-ca", "require"] {
        refused(&format!("{named}?sslmode={mode}&sslrootcert={wrong}"), &unknown).await;
    }
    refused(&format!("{named}?sslmode=verify-full"), &["certificate"]).await;

    // Nothing is asked.
    opened(&format!("{named}?sslmode=require")).await.unwrap();
    opened(&named).await.unwrap();
    refused(&format!("{named}?sslmode=disable"), &["no encryption", "sslmode=require"]).await;

    // Files that are no good.
    refused(&format!("{named}?sslmode=verify-full&sslrootcert=/no/such.crt"), &["/no/such.crt"]).await;
    let empty = server.files.write("empty.crt", "nothing");
    refused(&format!("{named}?sslmode=verify-full&sslrootcert={empty}"), &["empty.crt", "no certificate"])
        .await;
}

#[tokio::test]
async fn every_connection_is_encrypted_also_the_one_that_listens() {
    let server = Server::start().await;
    let url = format!("{}?application_name=many", server.url("windlass", "localhost"));
    let options = PostgresOptions::new().tls(TlsMode::VerifyFull).tls_roots(server.ca());
    let store = options.open(&url).await.unwrap();
    let mut hints = store.hints();
    // It listens as soon as it says that there may be something.
    tokio::time::timeout(std::time::Duration::from_secs(10), hints.recv()).await.unwrap().unwrap();
    let reads: Vec<_> = (0..20).map(|_| store.nodes()).collect();
    for read in reads {
        read.await.unwrap();
    }
    let (encrypted, plain) = server.counted("many").await;
    assert!(encrypted > 1 && plain == 0, "{encrypted} are encrypted, {plain} are not");
}

#[tokio::test]
async fn a_program_may_prove_itself_with_a_certificate() {
    let server = Server::start().await;
    let url =
        format!("{}?sslmode=verify-full&sslrootcert={}", server.url("certified", "localhost"), server.ca());
    let pair = |name: &str, authority: &Authority| {
        let (certificate, key) = authority.certify(name, ExtendedKeyUsagePurpose::ClientAuth);
        let certificate = server.files.write(&format!("{name}.crt"), &certificate);
        (certificate, server.files.write(&format!("{name}.key"), &key))
    };
    let (certificate, key) = pair("certified", &server.authority);
    opened(&format!("{url}&sslcert={certificate}&sslkey={key}")).await.unwrap();
    PostgresOptions::new().tls_identity(&certificate, &key).open(&url).await.unwrap();

    refused(&url, &["certificate"]).await;
    let (other, others_key) = pair("other", &server.authority);
    refused(&format!("{url}&sslcert={other}&sslkey={others_key}"), &["certified"]).await;
    refused(&format!("{url}&sslcert={certificate}&sslkey={others_key}"), &["do not go together"]).await;
    let (foreign, foreign_key) = pair("certified", &Authority::new("ours"));
    opened(&format!("{url}&sslcert={foreign}&sslkey={foreign_key}"))
        .await
        .expect_err("the server does not know it");
}

#[tokio::test]
async fn a_server_without_tls_is_used_only_where_that_is_allowed() {
    let url = format!("{}?schema=tls_{}", cluster().url(), uuid::Uuid::now_v7().simple());
    opened(&format!("{url}&sslmode=prefer")).await.unwrap();
    opened(&format!("{url}&sslmode=disable")).await.unwrap();
    for mode in ["require", "verify-full"] {
        refused(
            &format!("{url}&sslmode={mode}"),
            &["server does not support TLS", "turn TLS on at the server"],
        )
        .await;
    }
}
