//! Making, listing and revoking keys.

use std::time::Duration;

use windlass::{Client, Error, Time};

use crate::{
    Role,
    ring::{KeptKey, Ring, last_used},
    secret::{self, Digest},
};

/// What every key begins with, so that those who look for secrets in the wrong places find it.
const PREFIX: &str = "windlass_";

/// The most keys that a database has: all processes read all of them again and again.
const MOST: usize = 500;

/// The longest name, in characters.
const LONGEST_NAME: usize = 100;

/// The keys of a database, which let people and programs in where keys are demanded.
///
/// They are kept in the database, so that all processes know them: a new one opens at once, and one that is revoked opens
/// nothing after two seconds. Only their SHA-256 is kept.
///
/// ```
/// use windlass::prelude::*;
/// use windlass_server::{Keys, Role};
///
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// let engine = Engine::open("sqlite::memory:").launch().await?;
/// let keys = Keys::new(&engine.client());
/// let new = keys.create("grafana", Role::Viewer, None).await?;
/// println!("keep this, it is not shown again: {}", new.key);
/// assert_eq!(keys.list().await?[0].name, "grafana");
/// keys.revoke("grafana").await?;
/// # engine.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Keys {
    client: Client,
}

/// A key that was just made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewKey {
    /// The key itself. Nobody can find it out again.
    pub key: String,
    /// What is known of it.
    pub info: KeyInfo,
}

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyInfo {
    /// What it is called.
    pub name: String,
    /// What whoever has it may do.
    pub role: Role,
    /// When it was made.
    pub created_at: Time,
    /// From when on it opens nothing.
    pub expires_at: Option<Time>,
    /// The hour in which it was used last.
    pub last_used: Option<Time>,
}

/// Why a key was not made or revoked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Another key has this name.
    #[error("there is a key `{0}` already: revoke it first, or choose another name")]
    Taken(String),
    /// No key has this name.
    #[error("there is no key `{0}`")]
    Unknown(String),
    /// Nothing can have this name.
    #[error("`{}` cannot be such a name: it must have 1 to {LONGEST_NAME} letters, digits, `.`, `-`, `_` or `@`", .0.escape_debug())]
    Name(String),
    /// There are too many keys.
    #[error("there are {MOST} keys, and no more can be made: revoke those that nobody uses")]
    TooMany,
    /// The database cannot be asked.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl Keys {
    /// The keys of this client's database.
    #[must_use]
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    /// Makes a key, which opens for so long, or until it is revoked.
    ///
    /// # Errors
    ///
    /// When the name is taken, or is none, when there are too many keys, and when the database cannot be asked.
    pub async fn create(&self, name: &str, role: Role, lives: Option<Duration>) -> Result<NewKey, KeyError> {
        checked_name(name)?;
        let key = format!("{PREFIX}{}", secret::random());
        let now = self.client.now();
        let kept = KeptKey {
            name: name.to_owned(),
            role,
            digest: Digest::of(&key),
            created_at: now,
            expires_at: lives.map(|lives| now + lives),
        };
        let add = |ring: &mut Ring| {
            if ring.keys.iter().any(|other| other.name == name) {
                return Err(KeyError::Taken(name.to_owned()));
            }
            if ring.keys.len() >= MOST {
                return Err(KeyError::TooMany);
            }
            ring.keys.push(kept.clone());
            Ok(())
        };
        Ring::of(&self.client).change(add).await?;
        Ok(NewKey { key, info: KeyInfo::new(kept, None) })
    }

    /// All keys, those that have expired too, by name.
    ///
    /// # Errors
    ///
    /// When the database cannot be asked.
    pub async fn list(&self) -> Result<Vec<KeyInfo>, KeyError> {
        let ring = Ring::of(&self.client).get().await?;
        let mut used = last_used(&self.client).get().await?;
        let info = |kept: KeptKey| {
            let used = used.remove(&kept.name).filter(|at| *at + HOUR > kept.created_at);
            KeyInfo::new(kept, used)
        };
        let mut keys: Vec<KeyInfo> = ring.keys.into_iter().map(info).collect();
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(keys)
    }

    /// Revokes a key. After two seconds it opens nothing anywhere, and whoever is logged in with it is logged out.
    ///
    /// # Errors
    ///
    /// [`KeyError::Unknown`] when there is none of this name, and when the database cannot be asked.
    pub async fn revoke(&self, name: &str) -> Result<(), KeyError> {
        let remove = |ring: &mut Ring| match ring.remove(name) {
            true => Ok(()),
            false => Err(KeyError::Unknown(name.to_owned())),
        };
        Ring::of(&self.client).change(remove).await
    }
}

/// Refuses what nothing is called.
pub(crate) fn checked_name(name: &str) -> Result<(), KeyError> {
    let allowed = |letter: char| letter.is_alphanumeric() || ".-_@".contains(letter);
    match !name.is_empty() && name.chars().count() <= LONGEST_NAME && name.chars().all(allowed) {
        true => Ok(()),
        false => Err(KeyError::Name(name.to_owned())),
    }
}

const HOUR: Duration = Duration::from_secs(3600);

impl KeyInfo {
    fn new(kept: KeptKey, last_used: Option<Time>) -> Self {
        let KeptKey { name, role, created_at, expires_at, .. } = kept;
        Self { name, role, created_at, expires_at, last_used }
    }
}
