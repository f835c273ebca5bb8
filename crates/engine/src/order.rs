//! Orders, as they travel through a run's inbox.

use bytes::Bytes;
use windlass_core::{Order, RunId};
use windlass_store::{InboxRow, NewMessage, STOPS};

pub(crate) const CANCEL: &str = STOPS[0];
pub(crate) const PAUSE: &str = "!pause";
pub(crate) const RESUME: &str = "!resume";
pub(crate) const TERMINATE: &str = STOPS[1];

/// What the keys of messages begin with that nobody gave a key.
const FRESH: char = '!';

/// The key of a message that has none of its sender's: one that is sent again because the answer was lost is received
/// once, and does not undo what somebody has told since.
pub(crate) fn fresh_key() -> String {
    format!("{FRESH}{}", RunId::new())
}

/// Whether nobody else can send a message with this key.
pub(crate) fn is_fresh(key: &str) -> bool {
    key.starts_with(FRESH)
}

pub(crate) fn encode(order: &Order) -> NewMessage {
    let (topic, reason) = match order {
        Order::Cancel { reason } => (CANCEL, reason.as_str()),
        Order::Pause => (PAUSE, ""),
        Order::Resume => (RESUME, ""),
        Order::Terminate { reason } => (TERMINATE, reason.as_str()),
    };
    NewMessage {
        topic: topic.to_owned(),
        body: Bytes::copy_from_slice(reason.as_bytes()),
        key: Some(fresh_key()),
    }
}

pub(crate) fn decode(row: &InboxRow) -> Option<Order> {
    let reason = String::from_utf8_lossy(&row.body).into_owned();
    Some(match row.topic.as_str() {
        CANCEL => Order::Cancel { reason },
        PAUSE => Order::Pause,
        RESUME => Order::Resume,
        TERMINATE => Order::Terminate { reason },
        _ => return None,
    })
}
