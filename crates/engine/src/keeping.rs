//! What schedules, triggers and batches have in common: each is kept by a run of the engine's own.

use serde::{Deserialize, de::DeserializeOwned};

use crate::Error;

/// What a program has to know to read what this one writes about schedules, triggers and batches.
///
/// It grows whenever something is added that an older program would have to act on. One that cannot read what a newer one
/// has written leaves it alone, and says so; the newer one goes on with it.
pub(crate) const FORMAT: u32 = 1;

/// The format of what was written without one.
pub(crate) const fn first_format() -> u32 {
    1
}

/// Fails unless this program knows a format.
pub(crate) fn check_format(what: &str, format: u32) -> Result<(), Error> {
    match format {
        ..=FORMAT => Ok(()),
        _ => Err(Error::Newer { what: what.to_owned(), format, known: FORMAT }),
    }
}

/// Reads what was written down. If it cannot be read because a newer program wrote it, the error says so.
pub(crate) fn read_page<T: DeserializeOwned>(what: &str, json: &[u8]) -> Result<T, Error> {
    #[derive(Deserialize)]
    struct Written {
        #[serde(default = "first_format")]
        format: u32,
    }
    serde_json::from_slice(json).map_err(|why| {
        let newer = serde_json::from_slice::<Written>(json).ok();
        let newer = newer.and_then(|written| check_format(what, written.format).err());
        newer.unwrap_or_else(|| Error::Decode { what: what.to_owned(), why: why.to_string() })
    })
}
