//! Where a database is: its URL.

use std::{str::FromStr, time::Duration};

use tokio_postgres::{Config, config::Host};
use windlass_core::nearest;

use crate::OpenError;

/// How many connections there are, unless somebody says otherwise.
const CONNECTIONS: usize = 8;
/// How long to wait for a server that does not answer at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may be silent while we wait for it, before the network is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(10);

const OPTIONS: [&str; 3] = ["schema", "connections", "migrate"];

/// A URL, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub(crate) config: Config,
    /// Where to listen, when that is not the same.
    pub(crate) listen: Option<Config>,
    pub(crate) schema: String,
    pub(crate) connections: usize,
    /// Whether the tables are brought to the newest version.
    pub(crate) migrates: bool,
    /// For people, without a password.
    pub(crate) place: String,
}

impl Location {
    /// Reads `postgres://user:password@host:port/database`, with our options and the driver's after a `?`.
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut location = Self {
            config: Config::new(),
            listen: None,
            schema: "windlass".to_owned(),
            connections: CONNECTIONS,
            migrates: true,
            place: String::new(),
        };
        let mut theirs = Vec::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "schema" => location.schema = value.to_owned(),
                "connections" => {
                    let number = value.parse().map_err(|_| {
                        refuse(url, format!("`connections={value}` is not a number: write `connections=8`"))
                    });
                    location.connections = number?;
                }
                "migrate" => {
                    location.migrates = match value {
                        "yes" => true,
                        "no" => false,
                        _ => return Err(refuse(url, format!("`migrate={value}`: it may be `yes` or `no`"))),
                    }
                }
                _ => theirs.push(option),
            }
        }
        let driver = if theirs.is_empty() { base.to_owned() } else { format!("{base}?{}", theirs.join("&")) };
        location.config = Config::from_str(&driver).map_err(|error| {
            let names = theirs.iter().filter_map(|option| option.split('=').next());
            let hint = names.filter_map(|name| nearest(name, OPTIONS)).next();
            let hint = hint.map(|known| format!(" (did you mean `{known}`?)")).unwrap_or_default();
            refuse(url, format!("{}{hint}", crate::error::describe(&error)))
        })?;
        location.checked(url)
    }

    /// Refuses what cannot be, and fills in what was not said.
    pub(crate) fn checked(mut self, url: &str) -> Result<Self, OpenError> {
        if self.schema.is_empty() || self.schema.len() > 63 || self.schema.contains('\0') {
            return Err(refuse(url, "the name of the schema must have 1 to 63 bytes".into()));
        }
        if self.connections < 2 {
            return Err(refuse(
                url,
                "it takes at least 2 connections: one for commits, one for the rest".into(),
            ));
        }
        if self.config.get_hosts().is_empty() {
            return Err(refuse(url, "it names no host: write `postgres://user@host/database`".into()));
        }
        if self.config.get_connect_timeout().is_none() {
            self.config.connect_timeout(CONNECT_TIMEOUT);
        }
        self.config.keepalives_idle(KEEPALIVE);
        if self.config.get_application_name().is_none() {
            self.config.application_name("windlass");
        }
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        });
        let ports = self.config.get_ports().iter().map(|port| format!(":{port}"));
        let hosts = hosts.zip(ports.chain(std::iter::repeat(String::new())));
        let hosts: Vec<_> = hosts.map(|(host, port)| format!("{host}{port}")).collect();
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        self.place = format!("postgres://{}/{database}", hosts.join(","));
        Ok(self)
    }
}

fn refuse(url: &str, reason: String) -> OpenError {
    // Whatever stands before the last `@` may be a password.
    let url = match url.rsplit_once('@') {
        Some((_, place)) => format!("postgres://…@{place}"),
        None => url.to_owned(),
    };
    OpenError::Url { url, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(url: &str) -> String {
        Location::parse(url).unwrap_err().to_string()
    }

    #[test]
    fn our_options_and_the_drivers_are_told_apart() {
        let location =
            Location::parse("postgres://me:secret@db:5433/app?schema=jobs&connections=3&connect_timeout=2")
                .unwrap();
        assert_eq!((location.schema.as_str(), location.connections), ("jobs", 3));
        assert_eq!(location.place, "postgres://db:5433/app");
        assert_eq!(location.config.get_connect_timeout(), Some(&Duration::from_secs(2)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name_and_without_the_password() {
        for (url, word) in [
            ("postgres://me:secret@db/app?shema=x", "did you mean `schema`"),
            ("postgres://me:secret@db/app?connections=many", "connections=many"),
            ("postgres://me:secret@db/app?connections=1", "at least 2"),
            ("postgres://me:secret@db/app?schema=", "1 to 63"),
            ("postgres:///app", "no host"),
            ("postgres://me:secret@db/app?migrate=perhaps", "`yes` or `no`"),
        ] {
            let text = said(url);
            assert!(text.contains(word) && !text.contains("secret"), "{url}: {text}");
        }
    }
}
