//! Where a database is: the forms of its URL.

use std::path::PathBuf;

use windlass_core::nearest;

use crate::{OpenError, Synchronous};

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) place: Where,
    pub(crate) synchronous: Option<Synchronous>,
    /// Whether the file is made when it is not there.
    pub(crate) makes: bool,
}

/// The database itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Memory,
    File(PathBuf),
}

const OPTIONS: [&str; 2] = ["synchronous", "mode"];

impl Location {
    /// Reads `sqlite://path`, `sqlite:path`, `sqlite::memory:` or a plain path, each with options after a `?`.
    /// A plain path is taken as it is written, question marks and percent signs included.
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let Some(rest) = url.strip_prefix("sqlite:") else {
            if let Some((scheme, _)) = url.split_once("://") {
                return Err(refuse(url, format!("`{scheme}` is not a SQLite URL: write `sqlite://path`")));
            }
            let place = if url == ":memory:" { Where::Memory } else { Where::File(PathBuf::from(url)) };
            return Self { place, synchronous: None, makes: true }.checked(url);
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.strip_prefix("//").unwrap_or(path);
        let place = match path {
            ":memory:" => Where::Memory,
            path => Where::File(PathBuf::from(decode(path).map_err(|reason| refuse(url, reason))?)),
        };
        let mut location = Self { place, synchronous: None, makes: true };
        for option in query.split('&').filter(|option| !option.is_empty()) {
            location.apply(option).map_err(|reason| refuse(url, reason))?;
        }
        location.checked(url)
    }

    fn checked(self, url: &str) -> Result<Self, OpenError> {
        match &self.place {
            Where::File(path) if path.as_os_str().is_empty() => {
                Err(refuse(url, "it names no file: write `sqlite://path/to/app.db`".into()))
            }
            _ => Ok(self),
        }
    }

    fn apply(&mut self, option: &str) -> Result<(), String> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match (name, value) {
            ("synchronous", "full") => self.synchronous = Some(Synchronous::Full),
            ("synchronous", "normal") => self.synchronous = Some(Synchronous::Normal),
            ("synchronous", other) => {
                return Err(format!("`synchronous={other}` is not known: it may be `full` or `normal`"));
            }
            ("mode", "rwc") => {}
            ("mode", "rw") => self.makes = false,
            ("mode", "ro") => {
                return Err(
                    "`mode=ro` asks for a database that cannot be written, and an engine writes all the \
                            time: leave it out, or open a copy"
                        .into(),
                );
            }
            ("mode", other) => return Err(format!("`mode={other}` is not known: leave it out")),
            (unknown, _) => {
                let hint = match nearest(unknown, OPTIONS) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => format!("known options: {}", OPTIONS.join(", ")),
                };
                return Err(format!("there is no option `{unknown}`: {hint}"));
            }
        }
        Ok(())
    }
}

/// A path as a URL has it, so that [`Location::parse`] reads the same path again.
pub(crate) fn encode(path: &str) -> String {
    path.replace('%', "%25").replace('?', "%3f")
}

fn refuse(url: &str, reason: String) -> OpenError {
    OpenError::Url { url: url.to_owned(), reason }
}

/// Replaces `%41` by `A`.
fn decode(path: &str) -> Result<String, String> {
    if !path.contains('%') {
        return Ok(path.to_owned());
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path.as_bytes());
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(0) => return Err("a path holds no zero byte (`%00`)".into()),
            Some(code) => bytes.push(code),
            None => {
                return Err(
                    "`%` is followed by two hexadecimal digits; write `%25` for a percent sign".into()
                );
            }
        }
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| "the path is not UTF-8 once its `%` are decoded".into())
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn file(path: &str) -> Where {
        Where::File(PathBuf::from(path))
    }

    #[test]
    fn every_form_of_a_url_names_its_file() {
        for (url, place) in [
            ("sqlite://app.db", file("app.db")),
            ("sqlite:///var/lib/app.db", file("/var/lib/app.db")),
            ("sqlite:app.db", file("app.db")),
            ("sqlite:/var/app.db", file("/var/app.db")),
            ("sqlite::memory:", Where::Memory),
            ("sqlite://:memory:", Where::Memory),
            (":memory:", Where::Memory),
            ("data/app.db", file("data/app.db")),
            ("100%.db", file("100%.db")),
            ("sqlite://my%20app.db", file("my app.db")),
            ("sqlite://app.db?mode=rwc", file("app.db")),
        ] {
            assert_eq!(
                Location::parse(url).unwrap(),
                Location { place, synchronous: None, makes: true },
                "{url}"
            );
        }
    }

    #[test]
    fn any_path_can_be_written_as_a_url() {
        for path in ["/data/app.db", "/100%/app.db", "/what?/a%20b.db", "/größe/:memory:"] {
            let url = format!("sqlite://{}?mode=rw", encode(path));
            let location = Location { place: file(path), synchronous: None, makes: false };
            assert_eq!(Location::parse(&url).unwrap(), location, "{url}");
        }
    }

    #[test]
    fn synchronous_is_read_from_the_url() {
        let read = |url| Location::parse(url).unwrap().synchronous;
        assert_eq!(read("sqlite://a.db?synchronous=normal"), Some(Synchronous::Normal));
        assert_eq!(read("sqlite://a.db?synchronous=full"), Some(Synchronous::Full));
    }

    #[test]
    fn a_url_that_says_something_unknown_is_refused_with_the_way_out() {
        for (url, part) in [
            ("sqlite://a.db?syncronous=normal", "did you mean `synchronous`?"),
            ("sqlite://a.db?zzzzzzzz=1", "known options: synchronous, mode"),
            ("sqlite://a.db?synchronous=off", "`full` or `normal`"),
            ("sqlite://a.db?mode=ro", "cannot be written"),
            ("sqlite://", "names no file"),
            ("", "names no file"),
            ("postgres://localhost/app", "not a SQLite URL"),
            ("sqlite://a%2", "two hexadecimal digits"),
            ("sqlite://a%+1", "two hexadecimal digits"),
            ("sqlite://a%00b", "zero byte"),
            ("sqlite://a%ff", "not UTF-8"),
        ] {
            let error = Location::parse(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd_to_be_answered(
            url in "(sqlite:(//)?)?[a-z%?=&:/.0-9]{0,30}(\\?(mode|synchronous|[a-z]{0,4})=.{0,6})?|.{0,40}",
        ) {
            match Location::parse(&url) {
                Ok(Location { place: Where::File(path), .. }) => prop_assert!(!path.as_os_str().is_empty()),
                Ok(_) => prop_assert!(url.contains(":memory:")),
                Err(error) => prop_assert!(error.to_string().contains(&url)),
            }
        }

        #[test]
        fn any_path_survives_its_url(path in "[^\0]{1,20}") {
            let url = format!("sqlite:///{}", encode(&path));
            prop_assert_eq!(Location::parse(&url).unwrap().place, file(&format!("/{path}")));
        }
    }
}
