//! From one secret to the passwords of all tenants.

use std::fmt;

use hmac_sha256::{HMAC, Hash};
use uuid::Uuid;
use windlass_store::{TenantError, TenantName};

/// A tenant knows its own password, and could find a short secret by trying.
const SHORTEST: usize = 32;
/// As many as PostgreSQL takes by default. More are for passwords that people think up.
const ITERATIONS: u32 = 4096;

/// What the passwords of the tenants are made from. It is kept nowhere but here.
#[derive(Clone)]
pub(crate) struct Secret(String);

/// The password of a tenant's role.
pub(crate) struct Password(String);

impl Secret {
    pub(crate) fn new(secret: String) -> Result<Self, TenantError> {
        if secret.len() >= SHORTEST {
            return Ok(Self(secret));
        }
        Err(TenantError::Invalid(format!(
            "the secret has {} characters, and the passwords of the tenants need one of {SHORTEST} or more: make it \
             with `openssl rand -hex 32`",
            secret.len()
        )))
    }

    /// The password of one tenant. It says nothing about the secret or another tenant's password.
    pub(crate) fn password(&self, name: &TenantName, salt: Uuid) -> Password {
        let mut mac = HMAC::new(&self.0);
        mac.update("windlass tenant\0");
        mac.update(salt.as_bytes());
        mac.update(name.as_str());
        Password(hex(&mac.finalize()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Password {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether another password is the same one. It is as hard to guess as the password itself.
    pub(crate) fn digest(&self) -> Vec<u8> {
        Hash::hash(self.0.as_bytes()).to_vec()
    }

    /// What the server keeps to check the password (RFC 5803). It is sent in place of the password, which then stands in
    /// no log of the server.
    pub(crate) fn verifier(&self) -> String {
        // Every password is another one already, so its salt need not be drawn.
        let salt = HMAC::mac("salt", &self.0);
        let salt = &salt[..16];
        let mut block = HMAC::mac([salt, &[0, 0, 0, 1]].concat(), &self.0);
        let mut salted = block;
        for _ in 1..ITERATIONS {
            block = HMAC::mac(block, &self.0);
            salted.iter_mut().zip(block).for_each(|(byte, other)| *byte ^= other);
        }
        let stored = Hash::hash(&HMAC::mac("Client Key", salted));
        let server = HMAC::mac("Server Key", salted);
        format!("SCRAM-SHA-256${ITERATIONS}:{}${}:{}", base64(salt), base64(&stored), base64(&server))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place > group.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_everybody() {
        let known = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (length, known) in known.iter().enumerate() {
            assert_eq!(base64(&b"foobar"[..length]), *known);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn every_secret_tenant_and_salt_has_another_password() {
        let passwords = |secret: &str, name: &str, salt: u128| {
            let secret = Secret::new(secret.repeat(32)).unwrap();
            secret.password(&name.parse().unwrap(), Uuid::from_u128(salt)).as_str().to_owned()
        };
        let first = passwords("s", "acme", 1);
        assert_eq!(first, passwords("s", "acme", 1));
        assert_eq!(first.len(), 64);
        for other in [passwords("t", "acme", 1), passwords("s", "acm", 1), passwords("s", "acme", 2)] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_refused_and_never_shown() {
        let error = Secret::new("hunter2".into()).unwrap_err().to_string();
        assert!(error.contains("openssl rand -hex 32") && !error.contains("hunter2"), "{error}");
        let secret = Secret::new("x".repeat(32)).unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }
}
