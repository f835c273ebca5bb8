//! Runs that other programs start by sending something, signed.
//!
//! What is signed, and how it is sent, is what [Standard Webhooks](https://www.standardwebhooks.com) says.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac_sha256::HMAC;
use serde::{Deserialize, Serialize};
use windlass::{Client, Time};

use crate::{
    KeyError,
    keys::checked_name,
    ring::{Ring, Wrong},
    secret,
};

/// How far the time of a request may be from ours.
pub(crate) const WINDOW: Duration = Duration::from_secs(5 * 60);

/// The most hooks that a database has.
const MOST: usize = 500;

/// How many secrets of a hook count at once.
const MOST_SECRETS: usize = 5;

/// What secrets begin with.
const PREFIX: &str = "whsec_";

/// What is kept of a hook.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hook {
    pub(crate) name: String,
    /// The workflow that it starts.
    pub(crate) workflow: String,
    pub(crate) created_at: Time,
    /// The newest first.
    secrets: Vec<Secret>,
}

/// What a sender signs with. It has to be known to be compared, so it is kept as it is.
#[derive(Clone, Serialize, Deserialize)]
struct Secret {
    text: String,
    /// Until when it counts, if there is a newer one.
    until: Option<Time>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("until", &self.until).finish_non_exhaustive()
    }
}

/// A request as its sender signed it.
pub(crate) struct Signed<'a> {
    /// What the sender calls it. Sent again, it is the same.
    pub(crate) id: &'a str,
    /// Seconds since 1970, as they were written.
    pub(crate) at: &'a str,
    pub(crate) body: &'a [u8],
    /// Several, with a blank between, while a sender changes its secret.
    pub(crate) signatures: &'a str,
}

impl Hook {
    /// Checks that the sender has a secret of this hook.
    pub(crate) fn check(&self, signed: &Signed<'_>, now: Time) -> Result<(), Wrong> {
        let living = self.secrets.iter().filter(|secret| secret.until.is_none_or(|until| until > now));
        let is_right = living.into_iter().any(|secret| signed.is_by(&secret.text));
        if is_right { Ok(()) } else { Err(Wrong::Unknown) }
    }
}

impl Signed<'_> {
    fn is_by(&self, secret: &str) -> bool {
        let Ok(key) = STANDARD.decode(secret.trim_start_matches(PREFIX)) else { return false };
        let Self { id, at, body, signatures } = self;
        let content = [id.as_bytes(), b".", at.as_bytes(), b".", body].concat();
        let signatures = signatures.split(' ').filter_map(|signature| signature.strip_prefix("v1,")).take(8);
        let mut signatures =
            signatures.filter_map(|signature| STANDARD.decode(signature).ok()?.try_into().ok());
        signatures.any(|signature: [u8; 32]| HMAC::verify(&content, &key, &signature))
    }
}

/// The hooks of a database.
pub(crate) struct Hooks {
    client: Client,
}

impl Hooks {
    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    /// Makes a hook, and answers with its secret.
    pub(crate) async fn create(&self, name: &str, workflow: &str) -> Result<String, KeyError> {
        checked_name(name)?;
        let text = fresh();
        let secrets = vec![Secret { text: text.clone(), until: None }];
        let hook = Hook {
            name: name.to_owned(),
            workflow: workflow.to_owned(),
            created_at: self.client.now(),
            secrets,
        };
        let add = |ring: &mut Ring| {
            if ring.hooks.iter().any(|other| other.name == name) {
                return Err(KeyError::Taken(name.to_owned()));
            }
            if ring.hooks.len() >= MOST {
                return Err(KeyError::TooMany);
            }
            ring.hooks.push(hook.clone());
            Ok(())
        };
        Ring::of(&self.client).change(add).await.map(|()| text)
    }

    /// Makes a new secret for a hook. Those before count for so long.
    pub(crate) async fn rotate(&self, name: &str, overlap: Duration) -> Result<String, KeyError> {
        let (text, now) = (fresh(), self.client.now());
        let until = now + overlap;
        let rotate = |ring: &mut Ring| {
            let hook = ring.hooks.iter_mut().find(|hook| hook.name == name);
            let hook = hook.ok_or_else(|| KeyError::Unknown(name.to_owned()))?;
            for secret in &mut hook.secrets {
                secret.until = Some(secret.until.map_or(until, |before| before.min(until)));
            }
            hook.secrets.retain(|secret| secret.until.is_some_and(|until| until > now));
            hook.secrets.insert(0, Secret { text: text.clone(), until: None });
            hook.secrets.truncate(MOST_SECRETS);
            Ok(())
        };
        Ring::of(&self.client).change(rotate).await.map(|()| text)
    }

    /// All hooks, by name.
    pub(crate) async fn list(&self) -> Result<Vec<Hook>, KeyError> {
        let mut hooks = Ring::of(&self.client).get().await?.hooks;
        hooks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(hooks)
    }

    /// Forgets a hook.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), KeyError> {
        let remove = |ring: &mut Ring| {
            let before = ring.hooks.len();
            ring.hooks.retain(|hook| hook.name != name);
            if ring.hooks.len() < before { Ok(()) } else { Err(KeyError::Unknown(name.to_owned())) }
        };
        Ring::of(&self.client).change(remove).await
    }
}

fn fresh() -> String {
    format!("{PREFIX}{}", STANDARD.encode(secret::bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_the_standard() {
        // The example of the specification.
        let signed = |body: &'static [u8], signatures| Signed {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            at: "1614265330",
            body,
            signatures,
        };
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let right = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert!(signed(b"{\"test\": 2432232314}", right).is_by(secret));
        let several = "v1,AAAA v2,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert!(signed(b"{\"test\": 2432232314}", several).is_by(secret));
        assert!(!signed(b"{\"test\": 2432232315}", right).is_by(secret));
        assert!(!signed(b"{\"test\": 2432232314}", &right[3..]).is_by(secret));
        assert!(!signed(b"{\"test\": 2432232314}", right).is_by("whsec_AAAA"));
        assert!(!signed(b"", "").is_by(secret));
    }
}
