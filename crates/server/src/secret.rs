//! Things that only their holder knows.

use std::fmt;

use hmac_sha256::Hash;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use subtle::ConstantTimeEq;

/// 256 random bits, in letters.
///
/// # Panics
///
/// When the operating system has no randomness to give: then nothing that is made could be kept secret.
pub(crate) fn random() -> String {
    hex(&bytes())
}

/// 256 random bits.
pub(crate) fn bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// What is kept of a secret. It is random, and longer than anybody can guess, so that one round of hashing hides it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    pub(crate) fn of(secret: &str) -> Self {
        Self(Hash::hash(secret.as_bytes()))
    }
}

impl PartialEq for Digest {
    /// Takes equally long wherever they differ.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Digest {}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        from_hex(&text).map(Self).ok_or_else(|| D::Error::custom("it is not a digest"))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit.to_le_bytes()[0])).collect();
    let bytes: Vec<u8> =
        digits?.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_are_kept_as_their_digest() {
        let (one, other) = (random(), random());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
        let kept = serde_json::to_string(&Digest::of(&one)).unwrap();
        assert!(!kept.contains(&one));
        let read: Digest = serde_json::from_str(&kept).unwrap();
        assert!(read == Digest::of(&one) && read != Digest::of(&other));
        for broken in ["\"\"", "\"0g\"", "\"00\"", "7"] {
            assert!(serde_json::from_str::<Digest>(broken).is_err(), "{broken}");
        }
    }
}
