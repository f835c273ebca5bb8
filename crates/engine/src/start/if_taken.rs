//! What a start does when its key is taken.

use std::time::Duration;

use windlass_core::{Order, Verdict};
use windlass_store::{KeyConflict, Replace};

use super::Settings;
use crate::{Error, client::end_of, hub::Hub, order};

pub(super) const WITHOUT_KEY: &str =
    "`if_taken` says what happens when a key is taken, and there is no key: name one with `.key(…)`";

/// What a start does when its [key](crate::Start::key) belongs to a run. It holds within one transaction, for starts in bulk
/// and for starts within a transaction of yours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IfTaken {
    /// It answers with that run, whatever its input is.
    Existing,
    /// It fails with [`Error::KeyTaken`](crate::Error::KeyTaken), which names the run, if that has not ended; with
    /// [`key_for`](crate::Start::key_for), also for that long after it was started.
    Reject,
    /// The new run takes the key. The other is cancelled: it never begins if it has not yet, and else gets the order that
    /// [`cancel`](crate::Run::cancel) would give, which the new run does not wait for.
    Replace,
    /// The run begins so long after the last start. If the other has not begun, it takes the new input and context, waits
    /// anew, and is the answer; all else stays as it was started. If it has begun, it is left alone, and there is a new run.
    Debounce(Duration),
}

impl IfTaken {
    /// How long the run waits because of it.
    pub(crate) const fn delay(self) -> Option<Duration> {
        match self {
            Self::Debounce(delay) => Some(delay),
            Self::Existing | Self::Reject | Self::Replace => None,
        }
    }

    /// What it is called in SQL.
    #[cfg(feature = "postgres")]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Existing => "existing",
            Self::Reject => "reject",
            Self::Replace => "replace",
            Self::Debounce(_) => "debounce",
        }
    }

    /// Whether a start may change the run that has its key.
    pub(super) const fn stirs(settings: &Settings) -> bool {
        matches!(settings.if_taken, Some(Self::Replace | Self::Debounce(_)))
    }

    /// The same in the words of the store.
    pub(super) fn conflict(settings: &Settings, hub: &Hub, key: &str) -> Result<KeyConflict, Error> {
        Ok(match settings.if_taken {
            None if !settings.or_existing => KeyConflict::Refuse,
            None | Some(Self::Existing) => KeyConflict::ReturnExisting,
            Some(Self::Reject) => KeyConflict::Reject,
            Some(Self::Debounce(_)) => KeyConflict::Debounce,
            Some(Self::Replace) => {
                let reason = format!("replaced by a later start with the key `{key}`");
                let end = end_of(hub, &Verdict::Cancelled { reason: reason.clone() })?;
                let order = order::encode(&Order::Cancel { reason });
                KeyConflict::Replace(Box::new(Replace { end, order }))
            }
        })
    }
}
