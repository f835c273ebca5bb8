//! Looks for numbers that JSON cannot hold.
//!
//! `serde_json` writes `null` for NaN and the infinities, and so loses them without a word. A value whose
//! JSON has a `null` in it is walked once more, to find out whether that is what happened, and where.

use std::fmt::{self, Write as _};

use serde::{Serialize, ser};

/// Fails with the place of the first number that is not finite.
pub(crate) fn check<T: Serialize + ?Sized>(value: &T) -> Result<(), NotFinite> {
    value.serialize(&mut Walk { path: String::new() })
}

/// Where a number is that JSON cannot hold.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotFinite(String);

impl ser::Error for NotFinite {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

struct Walk {
    path: String,
}

impl Walk {
    fn number(&self, number: f64) -> Result<(), NotFinite> {
        if number.is_finite() {
            return Ok(());
        }
        let place = if self.path.is_empty() { "the value" } else { self.path.trim_start_matches('.') };
        Err(NotFinite(format!("{place} is {number}, which JSON cannot hold")))
    }

    fn inside<T: Serialize + ?Sized>(
        &mut self,
        part: fmt::Arguments<'_>,
        value: &T,
    ) -> Result<(), NotFinite> {
        let length = self.path.len();
        write!(self.path, "{part}").map_err(ser::Error::custom)?;
        value.serialize(&mut *self)?;
        self.path.truncate(length);
        Ok(())
    }
}

/// The parts of a list, a map or a struct, with the place of the next one.
struct Inside<'a> {
    walk: &'a mut Walk,
    index: usize,
    key: String,
}

impl<'a> Inside<'a> {
    fn new(walk: &'a mut Walk) -> Result<Self, NotFinite> {
        Ok(Self { walk, index: 0, key: String::new() })
    }

    fn next<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFinite> {
        let index = self.index;
        self.index += 1;
        self.walk.inside(format_args!("[{index}]"), value)
    }
}

macro_rules! fine {
    ($($name:ident($($type:ty),*))*) => { $(fn $name(self, $(_: $type),*) -> Result<(), NotFinite> { Ok(()) })* };
}

impl<'a> ser::Serializer for &'a mut Walk {
    type Ok = ();
    type Error = NotFinite;
    type SerializeSeq = Inside<'a>;
    type SerializeTuple = Inside<'a>;
    type SerializeTupleStruct = Inside<'a>;
    type SerializeTupleVariant = Inside<'a>;
    type SerializeMap = Inside<'a>;
    type SerializeStruct = Inside<'a>;
    type SerializeStructVariant = Inside<'a>;

    fine! {
        serialize_bool(bool) serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64) serialize_i128(i128)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64) serialize_u128(u128)
        serialize_char(char) serialize_str(&str) serialize_bytes(&[u8]) serialize_none() serialize_unit()
        serialize_unit_struct(&'static str) serialize_unit_variant(&'static str, u32, &'static str)
    }

    fn serialize_f32(self, number: f32) -> Result<(), NotFinite> {
        self.number(f64::from(number))
    }

    fn serialize_f64(self, number: f64) -> Result<(), NotFinite> {
        self.number(number)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NotFinite> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), NotFinite> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), NotFinite> {
        self.inside(format_args!(".{variant}"), value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Inside<'a>, NotFinite> {
        Inside::new(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Inside<'a>, NotFinite> {
        Inside::new(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Inside<'a>, NotFinite> {
        Inside::new(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Inside<'a>, NotFinite> {
        Inside::new(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Inside<'a>, NotFinite> {
        Inside::new(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Inside<'a>, NotFinite> {
        Inside::new(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Inside<'a>, NotFinite> {
        Inside::new(self)
    }
}

macro_rules! in_order {
    ($($trait:ident::$method:ident)*) => { $(
        impl ser::$trait for Inside<'_> {
            type Ok = ();
            type Error = NotFinite;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFinite> {
                self.next(value)
            }

            fn end(self) -> Result<(), NotFinite> {
                Ok(())
            }
        }
    )* };
}

in_order! {
    SerializeSeq::serialize_element SerializeTuple::serialize_element
    SerializeTupleStruct::serialize_field SerializeTupleVariant::serialize_field
}

macro_rules! by_name {
    ($($trait:ident)*) => { $(
        impl ser::$trait for Inside<'_> {
            type Ok = ();
            type Error = NotFinite;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), NotFinite> {
                self.walk.inside(format_args!(".{name}"), value)
            }

            fn end(self) -> Result<(), NotFinite> {
                Ok(())
            }
        }
    )* };
}

by_name! { SerializeStruct SerializeStructVariant }

impl ser::SerializeMap for Inside<'_> {
    type Ok = ();
    type Error = NotFinite;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NotFinite> {
        let key = serde_json::to_value(key).map_err(ser::Error::custom)?;
        self.key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFinite> {
        let key = std::mem::take(&mut self.key);
        self.walk.inside(format_args!(".{key}"), value)
    }

    fn end(self) -> Result<(), NotFinite> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Serialize)]
    struct Row {
        name: Option<&'static str>,
        score: f64,
    }

    #[derive(Serialize)]
    enum Reading {
        Pair(f32, f32),
        Named { celsius: f64 },
        One(f64),
    }

    fn place(value: &impl Serialize) -> String {
        check(value).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_number_that_json_cannot_hold_is_named_with_its_place() {
        assert_eq!(place(&f64::NAN), "the value is NaN, which JSON cannot hold");
        let rows = vec![Row { name: None, score: 1.0 }, Row { name: Some("b"), score: f64::INFINITY }];
        assert_eq!(place(&rows), "[1].score is inf, which JSON cannot hold");
        let by_city = BTreeMap::from([("Paris", BTreeMap::from([(3, Some(f64::NEG_INFINITY))]))]);
        assert_eq!(place(&by_city), "Paris.3 is -inf, which JSON cannot hold");
        assert_eq!(place(&Reading::Pair(0.0, f32::NAN)), "[1] is NaN, which JSON cannot hold");
        assert_eq!(place(&Reading::Named { celsius: f64::NAN }), "celsius is NaN, which JSON cannot hold");
        assert_eq!(place(&Reading::One(f64::NAN)), "One is NaN, which JSON cannot hold");
    }

    #[test]
    fn an_absent_value_is_not_a_lost_number() {
        assert_eq!(place(&vec![Row { name: None, score: f64::MAX }]), "");
    }
}
