//! Several worlds in one place: tenants.

use std::{fmt, pin::Pin, str::FromStr};

use crate::StoreError;

/// What a schema, a file or a role of a tenant begins with.
const PREFIX: &str = "windlass_";
/// Leaves room for what is put around it in 63 bytes, the longest name that PostgreSQL has.
const LONGEST: usize = 40;

/// The name of a tenant: 1 to 40 lower-case letters of English, digits, `-` and `_`, of which a letter or a digit is
/// the first.
///
/// So it means the same in every database and on every file system, where `Acme` and `acme` may be one file, and has
/// nothing in it that a path or SQL would take for something else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantName(String);

impl TenantName {
    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What a store calls the place where this tenant's records are: `windlass_acme`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{PREFIX}{}", self.0)
    }

    /// The tenant whose records are in a place of this name, if it is one.
    #[must_use]
    pub fn of_place(place: &str) -> Option<Self> {
        place.strip_prefix(PREFIX)?.parse().ok()
    }
}

impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TenantName {
    type Err = TenantError;

    fn from_str(name: &str) -> Result<Self, TenantError> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_sound = (1..=LONGEST).contains(&name.len())
            && name.bytes().all(|byte| is_plain(byte) || byte == b'-' || byte == b'_')
            && name.bytes().next().is_some_and(is_plain);
        if is_sound { Ok(Self(name.to_owned())) } else { Err(TenantError::Name(name.to_owned())) }
    }
}

/// Whether a tenant is removed while somebody serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is not.
    Unserved,
    /// It is, where the store can take it away from whoever serves it.
    Forced,
}

/// Why something was not done with a tenant.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TenantError {
    /// The name cannot be a tenant's.
    #[error(
        "{0:?} cannot be the name of a tenant: it has 1 to {LONGEST} lower-case letters (a to z), digits, `-` and `_`, \
         and begins with a letter or a digit"
    )]
    Name(String),
    /// There is no such tenant.
    #[error("there is no tenant `{0}`: `create` makes it")]
    Unknown(TenantName),
    /// Somebody serves the tenant.
    #[error("the tenant `{name}` is in use by {by}: {way_out}")]
    InUse {
        /// The tenant.
        name: TenantName,
        /// Who uses it.
        by: String,
        /// What to do about it.
        way_out: String,
    },
    /// An option has a value that cannot be meant.
    #[error("{0}")]
    Invalid(String),
    /// The database, or the way to it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What becomes of something that was asked, on its way.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, TenantError>> + Send + 'a>>;

/// Keeps tenants apart: each has its own records, which no other can reach.
///
/// Where an answer is a `String`, it is the URL of the tenant's own store, with all that it takes to open it.
pub trait Tenancy: Send + Sync {
    /// Makes a tenant. One that is there already is put right where something of it is missing.
    fn create(&self, name: TenantName) -> Reply<'_, String>;

    /// Finds a tenant.
    fn find(&self, name: TenantName) -> Reply<'_, String>;

    /// Every tenant, in the order of names.
    fn list(&self) -> Reply<'_, Vec<TenantName>>;

    /// Brings a tenant's tables to the newest version, if it is still there.
    fn migrate(&self, name: TenantName) -> Reply<'_, ()>;

    /// Gives a tenant another password.
    fn rotate(&self, name: TenantName) -> Reply<'_, String>;

    /// Removes a tenant with everything that it has. Answers whether it was there.
    fn remove(&self, name: TenantName, removal: Removal) -> Reply<'_, bool>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_is_a_tenants_and_names_its_place() {
        for name in ["acme", "a", "7", "north-sea_2", &"x".repeat(40)] {
            let tenant: TenantName = name.parse().unwrap();
            assert_eq!(tenant.place(), format!("windlass_{name}"));
            assert_eq!(TenantName::of_place(&tenant.place()), Some(tenant));
        }
    }

    #[test]
    fn what_a_path_or_sql_could_take_for_something_else_is_refused() {
        let long = "x".repeat(41);
        for name in [
            "",
            "../x",
            "..",
            ".",
            "a/b",
            "a\\b",
            "/etc/passwd",
            "a.db",
            "a b",
            "a\0b",
            "a\n",
            "%2e%2e",
            "a?mode=ro",
            "Acme",
            "größe",
            "аcme",
            "ａcme",
            "a\"; DROP SCHEMA public; --",
            "a'b",
            "$(id)",
            "-rf",
            "_a",
            &long,
        ] {
            let error = name.parse::<TenantName>().unwrap_err().to_string();
            assert!(error.contains("lower-case letters (a to z)"), "{error}");
            assert!(!error.contains(['\0', '\n']), "a log takes it for something else: {error}");
        }
        assert_eq!(TenantName::of_place("windlass_../x"), None);
        assert_eq!(TenantName::of_place("windlass"), None);
        assert_eq!(TenantName::of_place("other_acme"), None);
    }
}
