//! Time zones, whose rules are built in.

use std::{fmt, sync::LazyLock};

use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};
use serde::{Deserialize, Serialize};

use crate::nearest;

/// The rules that came with the program: all that are built from the same sources agree, whatever their systems know.
static RULES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The first second in which anything is looked for: the beginning of the year 1.
pub(super) const FIRST: i64 = -62_135_596_800;
/// The first second in which nothing is looked for any more: the beginning of the year 9999.
pub(super) const LAST: i64 = 253_370_764_800;

/// A time zone, by its IANA name, such as `Europe/Berlin`.
///
/// Its rules are those that the program was built with, so that processes on different machines agree.
///
/// ```
/// use windlass_core::schedule::Zone;
///
/// assert_eq!(Zone::named("europe/berlin").unwrap().name(), "Europe/Berlin");
/// assert_eq!(
///     Zone::named("Europe/Berln").unwrap_err().to_string(),
///     "there is no time zone `Europe/Berln`: did you mean `Europe/Berlin`?",
/// );
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(TimeZone);

/// No time zone has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no time zone `{name}`{}", meant(hint))]
pub struct UnknownZone {
    /// The name.
    pub name: String,
    /// One that is spelled nearly the same.
    pub hint: Option<String>,
}

fn meant(hint: &Option<String>) -> String {
    match hint {
        Some(near) => format!(": did you mean `{near}`?"),
        None => ": write a name such as `Europe/Berlin`, or `UTC`".to_owned(),
    }
}

/// A span in which the clocks of a zone are not changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Its first second.
    pub(super) begin: i64,
    /// The first second after it.
    pub(super) end: i64,
    /// How many seconds local clocks are ahead in it.
    pub(super) offset: i64,
    /// How many seconds they were ahead before it.
    pub(super) before: i64,
}

impl Zone {
    /// The zone with this name, in upper or lower case.
    ///
    /// # Errors
    ///
    /// When there is none; the error guesses what was meant.
    pub fn named(name: &str) -> Result<Self, UnknownZone> {
        match RULES.get(name) {
            Ok(zone) if zone.iana_name().is_some() => Ok(Self(zone)),
            _ => Err(UnknownZone { name: name.to_owned(), hint: guess(name) }),
        }
    }

    /// Coordinated universal time, which knows no summer.
    #[must_use]
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Its IANA name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The span around a second.
    pub(super) fn segment(&self, at: i64) -> Segment {
        let second = |at: i64| Timestamp::from_second(at.clamp(FIRST, LAST)).unwrap_or(Timestamp::MAX);
        let offset = |at: i64| i64::from(self.0.to_offset(second(at)).seconds());
        let begin = self.0.preceding(second(at + 1)).next().map(|change| change.timestamp().as_second());
        let end = self.0.following(second(at)).next().map(|change| change.timestamp().as_second());
        let begin = begin.filter(|begin| *begin > FIRST);
        Segment {
            begin: begin.unwrap_or(FIRST),
            end: end.unwrap_or(LAST).min(LAST),
            offset: offset(at),
            before: offset(begin.map_or(at, |begin| begin - 1)),
        }
    }
}

/// The zone that was probably meant: one that is spelled nearly the same, or whose city it is.
fn guess(name: &str) -> Option<String> {
    let names: Vec<String> = RULES.available().map(|name| name.as_str().to_owned()).collect();
    let wanted = name.trim().replace(' ', "_");
    let city =
        |zone: &&String| zone.rsplit_once('/').is_some_and(|(_, city)| city.eq_ignore_ascii_case(&wanted));
    let found =
        names.iter().find(|zone| zone.eq_ignore_ascii_case(&wanted)).or_else(|| names.iter().find(city));
    found.map(String::as_str).or_else(|| nearest(name, names.iter().map(String::as_str))).map(str::to_owned)
}

impl Default for Zone {
    fn default() -> Self {
        Self::utc()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name())
    }
}

impl TryFrom<String> for Zone {
    type Error = UnknownZone;

    fn try_from(name: String) -> Result<Self, UnknownZone> {
        Self::named(&name)
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        zone.name().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_found_in_any_case_and_keeps_its_proper_name() {
        for (text, name) in [("europe/PARIS", "Europe/Paris"), ("utc", "UTC"), ("UTC", "UTC")] {
            let zone = Zone::named(text).unwrap();
            assert_eq!(zone.name(), name);
            let json = serde_json::to_string(&zone).unwrap();
            assert_eq!(serde_json::from_str::<Zone>(&json).unwrap(), zone);
        }
    }

    #[test]
    fn an_unknown_zone_is_an_error_with_a_guess() {
        for (text, hint) in [
            ("Europe/Berln", Some("Europe/Berlin")),
            ("Berlin", Some("Europe/Berlin")),
            ("new york", Some("America/New_York")),
            (" Europe/Paris", Some("Europe/Paris")),
            ("Mars/Olympus_Mons", None),
            ("", None),
            ("Etc/Unknown", None),
            ("../../etc/passwd", None),
            ("+02:00", None),
        ] {
            let error = Zone::named(text).unwrap_err();
            assert_eq!(error.hint.as_deref(), hint, "{text}");
            assert!(error.to_string().contains(&format!("`{text}`")));
        }
    }
}
