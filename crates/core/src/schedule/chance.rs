//! Chance that every process draws alike.

use crate::{Fingerprint, Time};

/// A number that is spread evenly over `u64`, and depends on nothing but what it is drawn for.
pub(super) fn draw(what: &str, name: &str, at: Time) -> u64 {
    let bytes = Fingerprint::new().part(what).part(name).part(at.0.to_le_bytes()).sixteen();
    bytes[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The same, in `[0, 1)`.
pub(super) fn dice(what: &str, name: &str, at: Time) -> f64 {
    // As many bits as a float has digits for.
    (draw(what, name, at) >> 11) as f64 / (1_u64 << 53) as f64
}
