//! A value on its way from one task to another.

use std::{
    any::{Any, type_name},
    cell::Cell,
    fmt,
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use smallvec::SmallVec;
use windlass_core::Failure;

use super::finite;

/// A value as JSON, and in memory as what it was or was decoded to.
///
/// A copy is cheap and shares both. Decoding happens at most once per type. Debug builds forget the value that
/// a slot was made from, so that every reader decodes it: a type that does not survive the round trip then fails
/// in a test, and not on the day of a recovery.
#[doc(hidden)]
#[derive(Clone)]
pub struct Slot {
    /// `None` for a value without content, which many tasks return.
    inner: Option<Arc<Inner>>,
}

struct Inner {
    bytes: Bytes,
    /// The value that it was made from.
    made: Option<Typed>,
    /// The value as the types that were asked for: nearly always none or one.
    decoded: Mutex<SmallVec<[Typed; 1]>>,
}

type Typed = Arc<dyn Any + Send + Sync>;

/// A value without content, as JSON.
static NOTHING: Bytes = Bytes::from_static(b"null");

impl Slot {
    /// Encodes a value.
    ///
    /// # Errors
    ///
    /// When it cannot be written as JSON, or contains a number that JSON cannot hold.
    pub fn new<T: Serialize + Send + Sync + 'static>(value: T) -> Result<Self, Failure> {
        let bytes = to_json(&value)?;
        // What has no content is as quickly made as kept.
        let keep = !cfg!(debug_assertions) && size_of::<T>() > 0;
        let made = keep.then(|| Arc::new(value) as Typed);
        if made.is_none() && bytes == NOTHING {
            return Ok(Self { inner: None });
        }
        Ok(Self::from_parts(bytes, made))
    }

    /// A value that is already JSON.
    #[must_use]
    pub fn from_bytes(bytes: Bytes) -> Self {
        Self::from_parts(bytes, None)
    }

    fn from_parts(bytes: Bytes, made: Option<Typed>) -> Self {
        Self { inner: Some(Arc::new(Inner { bytes, made, decoded: Mutex::default() })) }
    }

    /// The value as JSON.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        self.inner.as_ref().map_or(&NOTHING, |inner| &inner.bytes)
    }

    /// The value, decoded unless it is in memory.
    ///
    /// # Errors
    ///
    /// When the JSON does not fit the type.
    pub fn get<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<Arc<T>, Failure> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let value: Arc<T> = Arc::new(self.decode()?);
        if let Some(inner) = &self.inner {
            inner.decoded.lock().push(Arc::clone(&value) as Typed);
        }
        Ok(value)
    }

    fn known<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let is_it = |value: &&Typed| (***value).is::<T>();
        let inner = self.inner.as_ref()?;
        let known = match inner.made.as_ref().filter(is_it) {
            Some(made) => Arc::clone(made),
            None => Arc::clone(inner.decoded.lock().iter().find(is_it)?),
        };
        known.downcast().ok()
    }

    /// The value, decoded anew.
    ///
    /// # Errors
    ///
    /// When the JSON does not fit the type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        from_json(self.bytes())
    }
}

/// A value as JSON.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<Bytes, Failure> {
    let what = || format!("a value of type `{}`", type_name::<T>());
    let bytes = encode(value).map_err(|error| Failure::encode(what(), error))?;
    if bytes.windows(4).any(|window| window == b"null") {
        finite::check(value).map_err(|error| Failure::encode(what(), error))?;
    }
    Ok(bytes)
}

/// A value from JSON.
pub(crate) fn from_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(json)
        .map_err(|error| Failure::decode(format!("a recorded value for `{}`", type_name::<T>()), error))
}

/// The same, whatever becomes of its numbers. Nothing, which many tasks return, costs nothing.
fn encode<T: Serialize>(value: &T) -> serde_json::Result<Bytes> {
    thread_local! {
        static SHEET: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    /// A larger one would be kept by its thread for ever.
    const LARGEST: usize = 64 << 10;
    let mut sheet = SHEET.take();
    sheet.clear();
    serde_json::to_writer(&mut sheet, value)?;
    let bytes = match &sheet[..] {
        b"null" => NOTHING.clone(),
        json => Bytes::copy_from_slice(json),
    };
    if sheet.capacity() <= LARGEST {
        SHEET.set(sheet);
    }
    Ok(bytes)
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A payload may be large, and may be nobody's business.
        f.debug_struct("Slot").field("bytes", &self.bytes().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use windlass_core::{Again, FailureKind};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct User {
        name: String,
        score: Option<f64>,
    }

    #[test]
    fn a_value_comes_back_as_it_went_in() {
        let ada = || User { name: "Ada".into(), score: Some(0.1 + 0.2) };
        let slot = Slot::new(ada()).unwrap();
        assert_eq!(*slot.get::<User>().unwrap(), ada());
        assert_eq!(&slot.bytes()[..], br#"{"name":"Ada","score":0.30000000000000004}"#);
    }

    #[test]
    fn a_value_is_decoded_once_and_shared() {
        let slot = Slot::from_bytes(Bytes::from_static(b"[1,2]"));
        let first = slot.get::<Vec<u8>>().unwrap();
        assert!(Arc::ptr_eq(&first, &slot.clone().get::<Vec<u8>>().unwrap()));
        assert_eq!(*slot.get::<(u8, u8)>().unwrap(), (1, 2));
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_type_that_does_not_survive_the_round_trip_is_found_in_debug_builds() {
        #[derive(Debug, Serialize, Deserialize)]
        struct Forgetful {
            #[serde(skip_serializing)]
            secret: String,
        }
        let forgetful = Forgetful { secret: "x".into() };
        assert_eq!(forgetful.secret, "x");
        let slot = Slot::new(forgetful).unwrap();
        let failure = slot.get::<Forgetful>().unwrap_err();
        assert!(failure.messages().any(|message| message.contains("missing field `secret`")), "{failure:?}");
    }

    #[test]
    fn json_that_does_not_fit_is_a_permanent_failure_that_names_the_type_and_the_place() {
        let failure = Slot::from_bytes(Bytes::from_static(br#"{"name":7}"#)).get::<User>().unwrap_err();
        assert_eq!((failure.kind, failure.again), (FailureKind::Decode, Again::Never));
        assert!(failure.message.contains("User"), "{failure:?}");
        assert!(failure.chain[0].contains("line 1 column 9"), "{failure:?}");
    }

    #[test]
    fn a_number_that_json_cannot_hold_is_refused_with_its_field() {
        let users = vec![
            User { name: "Bob".into(), score: None },
            User { name: "Eve".into(), score: Some(f64::NAN) },
        ];
        let failure = Slot::new(users).unwrap_err();
        assert_eq!((failure.kind, failure.again), (FailureKind::Encode, Again::Never));
        assert_eq!(failure.chain[0], "[1].score is NaN, which JSON cannot hold");
    }

    #[test]
    fn an_absent_value_is_kept_as_absent() {
        let slot = Slot::new(User { name: "null".into(), score: None }).unwrap();
        assert_eq!(slot.get::<User>().unwrap().score, None);
    }
}
