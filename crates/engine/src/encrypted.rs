//! Payloads that the database cannot read.

use std::{fmt, str::FromStr};

use bytes::Bytes;
use chacha20poly1305::{
    XChaCha20Poly1305, XNonce,
    aead::{Aead, Generate, KeyInit, Payload},
};
use windlass_core::Fingerprint;

use crate::{Codec, CodecError, Compressed, Error, hex::from_hex};

/// What an encrypted payload begins with: neither JSON nor a compressed payload does. Then come the name of its key, a
/// nonce, and what is encrypted, which is what [`Compressed`] writes.
const MARK: u8 = 0x02;
const NAME: usize = 8;
const NONCE: usize = 24;
const HEAD: usize = 1 + NAME;

/// Where [`Encrypted::from_env`] finds keys.
const VARIABLE: &str = "WINDLASS_ENCRYPTION_KEYS";

/// A key that payloads are encrypted with: 32 random bytes, written as 64 hexadecimal digits (`openssl rand -hex 32` prints
/// some).
#[derive(Clone)]
pub struct EncryptionKey([u8; 32]);

impl FromStr for EncryptionKey {
    type Err = CodecError;

    fn from_str(text: &str) -> Result<Self, CodecError> {
        let bytes = from_hex(text.trim()).and_then(|bytes| bytes.try_into().ok());
        // Not a word of what it is instead: that may be most of a key.
        let why = "an encryption key is 64 hexadecimal digits, as `openssl rand -hex 32` prints them";
        bytes.map(Self).ok_or_else(|| CodecError::new(why))
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey(…)")
    }
}

/// Encrypts payloads, after they were compressed: inputs, results, contexts, events, saved values, errors, and what tasks log.
///
/// The database sees how long they are, and nothing else of them; whoever changes one is found out when it is read. The cipher
/// is XChaCha20-Poly1305, with a nonce of its own for each payload. What was there before is read as it is, so encryption can
/// be turned on at any time. Names of workflows, tasks, queues, keys and tags are not payloads.
///
/// ```
/// use windlass::{Encrypted, prelude::*};
///
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f".parse()?;
/// let engine = Engine::open("sqlite::memory:").codec(Encrypted::with(&key)).launch().await?;
/// # engine.stop().await?;
/// # Ok(())
/// # }
/// ```
pub struct Encrypted {
    /// The first one writes.
    keys: Vec<([u8; NAME], XChaCha20Poly1305)>,
    plain: Compressed,
}

impl Encrypted {
    /// Encrypts with this key.
    #[must_use]
    pub fn with(key: &EncryptionKey) -> Self {
        Self { keys: Vec::new(), plain: Compressed::default() }.and_reads(key)
    }

    /// Reads what was encrypted with this key, too: one that was used before. It can be left out when nothing is left that
    /// was written with it, which retention sees to.
    #[must_use]
    pub fn and_reads(mut self, key: &EncryptionKey) -> Self {
        let digits = Fingerprint::new().part("windlass encryption key 1").part(key.0).finish();
        let mut name = [0; NAME];
        name.copy_from_slice(&digits.as_bytes()[..NAME]);
        self.keys.push((name, XChaCha20Poly1305::new(&key.0.into())));
        self
    }

    /// Encrypts with the first of the keys that stand in `WINDLASS_ENCRYPTION_KEYS`, with commas between them, and reads what
    /// was encrypted with any. `None` if the variable is not set.
    ///
    /// # Errors
    ///
    /// When one of them is no key.
    pub fn from_env() -> Result<Option<Self>, Error> {
        let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
        let keys =
            text.to_string_lossy().split(',').map(str::parse).collect::<Result<Vec<EncryptionKey>, _>>();
        let keys = keys.map_err(|why| Error::Setting(format!("{VARIABLE}: {why}")))?;
        let none = Self { keys: Vec::new(), plain: Compressed::default() };
        Ok(Some(keys.iter().fold(none, Self::and_reads)))
    }
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypted").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl Codec for Encrypted {
    fn encode(&self, json: Bytes) -> Result<Bytes, CodecError> {
        let (name, cipher) = &self.keys[0];
        let plain = self.plain.encode(json)?;
        let nonce = XNonce::try_generate().map_err(CodecError::new)?;
        let mut kept = Vec::with_capacity(HEAD + NONCE + plain.len() + 16);
        kept.push(MARK);
        kept.extend_from_slice(name);
        let sealed = cipher.encrypt(&nonce, Payload { msg: &plain, aad: &kept });
        let sealed = sealed.map_err(|_| CodecError::new("the payload is too large to be encrypted"))?;
        kept.extend_from_slice(&nonce);
        kept.extend_from_slice(&sealed);
        Ok(kept.into())
    }

    fn decode(&self, kept: Bytes) -> Result<Bytes, CodecError> {
        if kept.first() != Some(&MARK) {
            return self.plain.decode(kept);
        }
        let short = || CodecError::new("an encrypted payload is cut short");
        let (head, rest) = kept.split_at_checked(HEAD).ok_or_else(short)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE>().ok_or_else(short)?;
        let cipher = self.keys.iter().find(|(name, _)| *name == head[1..]).map(|(_, cipher)| cipher);
        let cipher = cipher.ok_or_else(|| {
            CodecError::new(format_args!(
                "it is encrypted with the key {}, which this program was not given",
                String::from_utf8_lossy(&head[1..])
            ))
        })?;
        let opened = cipher.decrypt(&(*nonce).into(), Payload { msg: sealed, aad: head });
        let plain = opened.map_err(|_| CodecError::new("an encrypted payload was changed, or is damaged"))?;
        self.plain.decode(plain.into())
    }

    fn hides(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digit: char) -> EncryptionKey {
        digit.to_string().repeat(64).parse().unwrap()
    }

    #[test]
    fn payloads_come_back_and_nothing_of_them_is_seen() {
        let codec = Encrypted::with(&key('a'));
        for json in ["{\"code\":42}".to_owned(), format!("\"{}\"", "a secret ".repeat(1000))] {
            let json = Bytes::from(json);
            let (kept, again) = (codec.encode(json.clone()).unwrap(), codec.encode(json.clone()).unwrap());
            assert_ne!(kept, again, "the same payload is never written the same way");
            assert!(!kept.windows(4).any(|part| json.windows(4).any(|shown| shown == part)));
            assert_eq!(codec.decode(kept).unwrap(), json);
        }
    }

    #[test]
    fn another_key_takes_over_and_the_old_one_is_still_read() {
        let json = Bytes::from_static(b"[1,2,3]");
        let old = Encrypted::with(&key('a')).encode(json.clone()).unwrap();
        let rotated = Encrypted::with(&key('b')).and_reads(&key('a'));
        assert_eq!(rotated.decode(old.clone()).unwrap(), json);
        let new = rotated.encode(json.clone()).unwrap();
        assert_eq!(Encrypted::with(&key('b')).decode(new.clone()).unwrap(), json);
        let unknown = Encrypted::with(&key('a')).decode(new).unwrap_err();
        assert!(unknown.to_string().contains("was not given"), "{unknown}");
        assert!(Encrypted::with(&key('b')).decode(old).is_err());
    }

    #[test]
    fn what_was_written_before_is_read_as_it_is() {
        let json = Bytes::from(format!("\"{}\"", "windlass ".repeat(1000)));
        let codec = Encrypted::with(&key('a'));
        for before in [json.clone(), Compressed::default().encode(json.clone()).unwrap()] {
            assert_eq!(codec.decode(before).unwrap(), json);
        }
    }

    #[test]
    fn whoever_changes_a_byte_is_found_out() {
        let codec = Encrypted::with(&key('a'));
        let kept = codec.encode(Bytes::from_static(b"{\"amount\":10}")).unwrap();
        for at in 1..kept.len() {
            let mut changed = kept.to_vec();
            changed[at] ^= 1;
            assert!(codec.decode(changed.into()).is_err(), "byte {at}");
            assert!(codec.decode(kept.slice(..at)).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_key_that_is_none_is_refused_and_not_repeated() {
        let almost = "f".repeat(63);
        for text in ["", "windlass", &almost, &"é".repeat(32)] {
            let error = text.parse::<EncryptionKey>().unwrap_err().to_string();
            assert!(error.contains("64 hexadecimal digits") && !error.contains(&almost), "{error}");
        }
        assert_eq!(format!("{:?}", key('a')), "EncryptionKey(…)");
    }
}
