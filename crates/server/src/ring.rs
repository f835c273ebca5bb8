//! The keys of a database, who is logged in with them, and its hooks, as all processes share them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass::{Client, SharedValue, Time};

use crate::{Role, hooks::Hook, secret::Digest};

/// How many may be logged in at once. The oldest have to log in again.
const MOST_SESSIONS: usize = 200;

/// The keys, who is logged in, and the hooks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ring {
    pub(crate) keys: Vec<KeptKey>,
    sessions: Vec<Session>,
    pub(crate) hooks: Vec<Hook>,
}

/// What is kept of a key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptKey {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) digest: Digest,
    pub(crate) created_at: Time,
    pub(crate) expires_at: Option<Time>,
}

/// A browser that is logged in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) digest: Digest,
    /// The name of the key that it was logged in with.
    pub(crate) key: String,
    pub(crate) expires_at: Time,
}

/// Why a key opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Unknown,
    Expired,
}

impl Ring {
    /// Where it is kept.
    pub(crate) fn of(client: &Client) -> SharedValue<Self> {
        client.shared_value("windlass.keys")
    }

    /// The key with this digest.
    pub(crate) fn key(&self, digest: Digest, now: Time) -> Result<&KeptKey, Wrong> {
        let key = self.keys.iter().find(|key| key.digest == digest).ok_or(Wrong::Unknown)?;
        if key.lives(now) { Ok(key) } else { Err(Wrong::Expired) }
    }

    /// The key that the session with this digest was opened with.
    pub(crate) fn session(&self, digest: Digest, now: Time) -> Option<&KeptKey> {
        let session = self.sessions.iter().find(|session| session.digest == digest)?;
        let key = self.keys.iter().find(|key| key.name == session.key)?;
        (session.expires_at > now && key.lives(now)).then_some(key)
    }

    pub(crate) fn open(&mut self, session: Session, now: Time) {
        self.sessions.retain(|other| other.expires_at > now);
        self.sessions.push(session);
        let excess = self.sessions.len().saturating_sub(MOST_SESSIONS);
        self.sessions.drain(..excess);
    }

    pub(crate) fn close(&mut self, digest: Digest) {
        self.sessions.retain(|session| session.digest != digest);
    }

    /// Forgets a key, and whoever is logged in with it: another of the same name is another. Answers whether it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.sessions.retain(|session| session.key != name);
        let before = self.keys.len();
        self.keys.retain(|key| key.name != name);
        self.keys.len() < before
    }
}

impl KeptKey {
    fn lives(&self, now: Time) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }
}

/// When keys were used last, by their names, to the hour.
pub(crate) fn last_used(client: &Client) -> SharedValue<BTreeMap<String, Time>> {
    client.shared_value("windlass.keys.used")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Ring {
        let key = |name: &str, expires_at| KeptKey {
            name: name.into(),
            role: Role::Viewer,
            digest: Digest::of(name),
            created_at: Time(0),
            expires_at,
        };
        Ring {
            keys: vec![key("ever", None), key("once", Some(Time(10)))],
            sessions: Vec::new(),
            hooks: Vec::new(),
        }
    }

    fn session(secret: &str, key: &str, until: i64) -> Session {
        Session { digest: Digest::of(secret), key: key.into(), expires_at: Time(until) }
    }

    #[test]
    fn a_key_opens_until_it_expires() {
        let ring = ring();
        assert_eq!(ring.key(Digest::of("ever"), Time(99)).unwrap().name, "ever");
        assert!(ring.key(Digest::of("once"), Time(9)).is_ok());
        assert_eq!(ring.key(Digest::of("once"), Time(10)).unwrap_err(), Wrong::Expired);
        assert_eq!(ring.key(Digest::of("never"), Time(0)).unwrap_err(), Wrong::Unknown);
    }

    #[test]
    fn a_session_ends_with_its_time_its_key_and_its_logging_out() {
        let mut ring = ring();
        for (secret, key, until) in [("a", "ever", 20), ("b", "once", 20), ("c", "ever", 20)] {
            ring.open(session(secret, key, until), Time(0));
        }
        let opens = |ring: &Ring, secret, now| ring.session(Digest::of(secret), Time(now)).is_some();
        assert!(opens(&ring, "a", 19) && !opens(&ring, "a", 20));
        assert!(opens(&ring, "b", 9) && !opens(&ring, "b", 10), "the key has expired");
        ring.close(Digest::of("a"));
        assert!(!opens(&ring, "a", 0) && opens(&ring, "c", 0));
        assert!(ring.remove("ever") && !ring.remove("ever"));
        ring.keys.push(KeptKey { name: "ever".into(), ..ring.keys[0].clone() });
        assert!(!opens(&ring, "c", 0), "another key of the same name is another");
    }

    #[test]
    fn there_are_only_so_many_sessions() {
        let mut ring = ring();
        for number in 0..=MOST_SESSIONS {
            ring.open(session(&number.to_string(), "ever", 20), Time(0));
        }
        assert!(ring.session(Digest::of("0"), Time(0)).is_none(), "the oldest went");
        assert!(ring.session(Digest::of("1"), Time(0)).is_some());
        ring.open(session("late", "ever", 40), Time(30));
        assert_eq!(ring.sessions.len(), 1, "what has expired is forgotten");
    }
}
