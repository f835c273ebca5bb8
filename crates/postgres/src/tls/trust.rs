//! Encrypted connections: what is believed.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};

use super::{TlsMode, TlsSettings};

/// How a server that asks for it right away knows what is spoken.
const PROTOCOL: &[u8] = b"postgresql";

/// Everything that a handshake needs.
pub(super) fn config(settings: &TlsSettings, mode: TlsMode) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let verifier: Arc<dyn ServerCertVerifier> = match mode {
        TlsMode::Disable | TlsMode::Prefer | TlsMode::Require => Arc::new(Anybody { provider }),
        TlsMode::VerifyCa => Arc::new(AnyHost { roots: roots(settings)?, provider }),
        TlsMode::VerifyFull => {
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots(settings)?), provider)
                .build()
                .map_err(|error| error.to_string())?
        }
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match (&settings.certificate, &settings.key) {
        (Some(certificate), Some(key)) => {
            let own = certificates(certificate)?;
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
            builder.with_client_auth_cert(own, secret).map_err(|error| {
                format!("{} and {} do not go together: {error}", certificate.display(), key.display())
            })?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

/// The authorities that are trusted: those in the file, and those of the system where there is none. Not both: who
/// runs an authority of their own does not want everybody else's to speak for their servers.
fn roots(settings: &TlsSettings) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = settings.roots.as_deref().filter(|file| file.as_os_str() != "system") {
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| unreadable(file, &error))?;
        }
        return Ok(roots);
    }
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why: String = found.errors.iter().map(|error| format!(" ({error})")).collect();
        return Err(format!(
            "this system has no certificate authorities{why}: install them (on Debian and Ubuntu: `apt-get install \
             ca-certificates`), or name a file with `sslrootcert`"
        ));
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unreadable(file, &error))?;
    if found.is_empty() {
        return Err(format!("{} has no certificate in it", file.display()));
    }
    Ok(found)
}

fn unreadable(file: &Path, error: &dyn std::error::Error) -> String {
    format!("{}: {error}", file.display())
}

/// Believes whoever answers; only that it has the key of the certificate that it shows.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

/// Believes whoever has a certificate of these authorities.
#[derive(Debug)]
struct AnyHost {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

/// What both say of the handshake itself.
macro_rules! checks_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let known = &self.provider.signature_verification_algorithms;
            verify_tls12_signature(message, certificate, signed, known)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let known = &self.provider.signature_verification_algorithms;
            verify_tls13_signature(message, certificate, signed, known)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    checks_signatures!();
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let known = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, others, now, known)?;
        Ok(ServerCertVerified::assertion())
    }

    checks_signatures!();
}
