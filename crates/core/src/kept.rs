//! What stores keep of the types here: JSON.
//!
//! Whoever reads or writes a type through serde compiles all the code for it once more. These functions are compiled
//! here, once for everybody.

use serde_json::Error;

use crate::{Definition, Detail, Verdict};

macro_rules! kept {
    ($($kept:ty),*) => {$(
        impl $kept {
            /// As it is kept.
            ///
            /// # Errors
            ///
            /// When a value in it cannot be JSON.
            pub fn to_json(&self) -> Result<Vec<u8>, Error> {
                serde_json::to_vec(self)
            }

            /// From what was kept.
            ///
            /// # Errors
            ///
            /// When it is something else.
            pub fn from_json(json: &[u8]) -> Result<Self, Error> {
                serde_json::from_slice(json)
            }
        }
    )*};
}

kept!(Definition, Detail, Verdict);
