//! Settings from the environment.

use std::{any::type_name, fmt::Display, str::FromStr};

use crate::Error;

/// What every setting's name begins with in the environment, unless the engine says otherwise.
pub(crate) const PREFIX: &str = "WINDLASS_VAR_";

/// A setting from the environment: `var::<u16>("PORT")` reads `WINDLASS_VAR_PORT`.
///
/// # Errors
///
/// When it is not set, or its text does not fit the type.
///
/// ```
/// # fn main() -> Result<(), windlass::Error> {
/// let retries: u32 = windlass::var_or("RETRIES", 3)?;
/// assert_eq!(retries, 3);
/// assert!(windlass::var::<u32>("RETRIES").unwrap_err().to_string().contains("WINDLASS_VAR_RETRIES"));
/// # Ok(())
/// # }
/// ```
pub fn var<T: FromStr<Err: Display>>(name: &str) -> Result<T, Error> {
    read(name)?.ok_or_else(|| Error::Setting(format!("{PREFIX}{name} is not set ({})", type_name::<T>())))
}

/// A setting from the environment, or this value when it is not set.
///
/// # Errors
///
/// When it is set, and its text does not fit the type.
pub fn var_or<T: FromStr<Err: Display>>(name: &str, default: T) -> Result<T, Error> {
    Ok(read(name)?.unwrap_or(default))
}

fn read<T: FromStr<Err: Display>>(name: &str) -> Result<Option<T>, Error> {
    let full = format!("{PREFIX}{name}");
    let text = match std::env::var(&full) {
        Ok(text) => text,
        Err(std::env::VarError::NotPresent) => return Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(Error::Setting(format!("{full} is not valid text")));
        }
    };
    let parsed = text.parse();
    parsed.map(Some).map_err(|why| Error::Setting(format!("{full} is not a {}: {why}", type_name::<T>())))
}

/// A setting that an engine was told to check at launch.
pub(crate) type Check = Box<dyn FnOnce() -> Result<(), Error> + Send>;

/// Checks that a setting is there and fits its type.
pub(crate) fn check<T: FromStr<Err: Display>>(name: String) -> Check {
    Box::new(move || var::<T>(&name).map(|_| ()))
}
