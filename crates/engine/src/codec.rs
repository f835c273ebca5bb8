//! Payloads as stores keep them.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use windlass_core::Failure;

use crate::attempt::guard;

/// Turns payloads into the bytes that a store keeps, and back.
///
/// A codec must be able to read whatever an earlier codec of the same database wrote. The default one
/// writes JSON as it is, and compresses it above one kibibyte.
pub trait Codec: Send + Sync + 'static {
    /// What the store keeps for this JSON.
    ///
    /// # Errors
    ///
    /// When it cannot be encoded.
    fn encode(&self, json: Bytes) -> Result<Bytes, CodecError>;

    /// The JSON that these bytes stand for.
    ///
    /// # Errors
    ///
    /// When they were not written by a codec that this one knows, or are damaged.
    fn decode(&self, kept: Bytes) -> Result<Bytes, CodecError>;

    /// Whether what tasks log is encoded as well, because the database is not to see it. Default: it is not.
    fn hides(&self) -> bool {
        false
    }
}

/// Why a payload could not be written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecError(String);

impl CodecError {
    /// A codec's own words.
    #[must_use]
    pub fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CodecError {}

/// A codec of the application's, whose panic is an error like any other: it is asked in the middle of the engine's own work.
pub(crate) struct Guarded(pub(crate) Arc<dyn Codec>);

impl Codec for Guarded {
    fn encode(&self, json: Bytes) -> Result<Bytes, CodecError> {
        guard(|| self.0.encode(json)).unwrap_or_else(panicked)
    }

    fn decode(&self, kept: Bytes) -> Result<Bytes, CodecError> {
        guard(|| self.0.decode(kept)).unwrap_or_else(panicked)
    }

    fn hides(&self) -> bool {
        self.0.hides()
    }
}

fn panicked<T>(panic: Failure) -> Result<T, CodecError> {
    Err(CodecError::new(format_args!("the codec panicked: {}", panic.message)))
}

/// The default codec: plain JSON when small, LZ4 when larger.
///
/// JSON never begins with the byte that marks a compressed payload, so small payloads carry no header.
#[derive(Clone, Copy, Debug)]
pub struct Compressed {
    /// Payloads of at least this many bytes are compressed. Default: 1,024.
    pub above: usize,
}

const LZ4: u8 = 0x01;
/// No payload inflates beyond this, whatever its header says.
const LARGEST: usize = 1 << 30;

impl Default for Compressed {
    fn default() -> Self {
        Self { above: 1024 }
    }
}

impl Codec for Compressed {
    fn encode(&self, json: Bytes) -> Result<Bytes, CodecError> {
        if json.len() < self.above {
            return Ok(json);
        }
        let small = lz4_flex::compress(&json);
        if small.len() + 9 >= json.len() {
            return Ok(json);
        }
        let mut kept = Vec::with_capacity(small.len() + 9);
        kept.push(LZ4);
        kept.extend_from_slice(&(json.len() as u64).to_le_bytes());
        kept.extend_from_slice(&small);
        Ok(kept.into())
    }

    fn decode(&self, kept: Bytes) -> Result<Bytes, CodecError> {
        let Some((&LZ4, rest)) = kept.split_first() else { return Ok(kept) };
        let (size, small) = rest
            .split_first_chunk::<8>()
            .ok_or_else(|| CodecError::new("a compressed payload is cut short"))?;
        let size = usize::try_from(u64::from_le_bytes(*size)).unwrap_or(usize::MAX);
        if size > LARGEST {
            return Err(CodecError::new("a compressed payload claims an impossible size"));
        }
        // What inflates the most is a byte said again and again: 255 times for each that says so.
        if size / 256 > small.len() {
            return Err(CodecError::new("a compressed payload claims an impossible size"));
        }
        let json = lz4_flex::decompress(small, size).map_err(CodecError::new)?;
        match json.len() == size {
            true => Ok(json.into()),
            false => Err(CodecError::new("a compressed payload is cut short")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_payloads_are_kept_as_they_are() {
        let json = Bytes::from_static(b"{\"a\":1}");
        assert_eq!(Compressed::default().encode(json.clone()).unwrap(), json);
    }

    #[test]
    fn large_payloads_shrink_and_come_back() {
        let json = Bytes::from(format!("\"{}\"", "windlass ".repeat(1000)));
        let kept = Compressed::default().encode(json.clone()).unwrap();
        assert!(kept.len() < json.len() / 10);
        assert_eq!(Compressed::default().decode(kept).unwrap(), json);
    }

    #[test]
    fn damaged_payloads_are_an_error_and_never_a_panic() {
        let json = Bytes::from(format!("\"{}\"", "windlass ".repeat(1000)));
        let kept = Compressed::default().encode(json).unwrap();
        for cut in 1..kept.len() {
            assert!(Compressed::default().decode(kept.slice(..cut)).is_err());
        }
        let mut huge = kept.to_vec();
        huge[1..9].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Compressed::default().decode(huge.into()).is_err());
    }
}
