//! Where a database is: its URL.

use std::{str::FromStr, sync::Arc, time::Duration};

use tokio_postgres::{Config, config::Host};
use windlass_core::nearest;

use crate::{
    OpenError, Pooler, PostgresOptions, TlsMode, connector::Connector, hook::Hook, tls::TlsSettings,
};

/// How many connections there are, unless somebody says otherwise.
const CONNECTIONS: usize = 8;
/// How many transactions of tasks there are at once, unless somebody says otherwise.
const TRANSACTIONS: usize = 4;
/// How long to wait for a server that does not answer at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may be silent while we wait for it, before the network is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long what was sent may stay unconfirmed by the network, before the connection counts as lost.
const UNHEARD: Duration = Duration::from_secs(10);
/// The channel that is named after the schema has as many bytes as a name may have.
const LONGEST_SCHEMA: usize = 63 - "windlass:".len();
/// For how long a server is waited for that is not there yet.
const WAIT: Duration = Duration::from_secs(10);

/// What says how to reach a server.
const WAYS: [&str; 5] = ["pooler", "sslmode", "sslrootcert", "sslcert", "sslkey"];
/// What says how a database is used.
const USES: [&str; 6] = ["schema", "connections", "transactions", "listen_url", "migrate", "wait"];
/// What the driver understands.
const DRIVERS: [&str; 18] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "options",
    "password",
    "port",
    "sslnegotiation",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// A database, and how it is used.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub(crate) connector: Arc<Connector>,
    /// Listens for notifications, when that does not go the same way.
    pub(crate) listener: Option<Arc<Connector>>,
    pub(crate) schema: String,
    pub(crate) connections: usize,
    /// For how long opening tries.
    pub(crate) wait: Duration,
    /// How many connections there are for the transactions of tasks.
    pub(crate) transactions: usize,
    /// Whether the tables are brought to the newest version.
    pub(crate) migrates: bool,
    /// For people, without a password.
    pub(crate) place: String,
    /// Is told of every commit.
    pub(crate) hook: Hook,
}

impl Location {
    /// Reads `postgres://user:password@host:port/database`, with our options and the driver's after a `?`.
    pub(crate) fn of(url: &str, options: PostgresOptions) -> Result<Self, OpenError> {
        let said = Said::parse(url, true)?;
        let refuse = |reason: String| refuse(url, reason);
        let schema = options.schema.or(said.schema).unwrap_or_else(|| "windlass".to_owned());
        if schema.is_empty() || schema.len() > LONGEST_SCHEMA || schema.contains('\0') {
            return Err(refuse(format!("the name of the schema must have 1 to {LONGEST_SCHEMA} bytes")));
        }
        let connections = options.connections.or(said.connections).unwrap_or(CONNECTIONS);
        if connections < 2 {
            return Err(refuse("it takes at least 2 connections: one for commits, one for the rest".into()));
        }
        let transactions = options.transactions.or(said.transactions).unwrap_or(TRANSACTIONS);
        if transactions == 0 {
            return Err(refuse("it takes at least 1 connection for the transactions of tasks".into()));
        }
        let place = place(&said.config);
        let listener = match options.listen_url.or(said.listen_url) {
            Some(url) => {
                let said = Said::parse(&url, false)?;
                let tls = options.tls.clone().over(said.tls);
                Some(connector(said.config, &tls, said.pooler)?)
            }
            None => None,
        };
        let pooler = options.pooler.or(said.pooler);
        let connector = connector(said.config, &options.tls.over(said.tls), pooler)?;
        Ok(Self {
            connector,
            listener,
            schema,
            connections,
            transactions,
            wait: options.wait.or(said.wait).unwrap_or(WAIT),
            migrates: said.migrates && !options.no_migrations,
            place,
            hook: options.hook,
        })
    }
}

/// A URL, taken apart.
struct Said {
    config: Config,
    tls: TlsSettings,
    pooler: Option<Pooler>,
    schema: Option<String>,
    connections: Option<usize>,
    transactions: Option<usize>,
    listen_url: Option<String>,
    wait: Option<Duration>,
    migrates: bool,
}

impl Said {
    /// `all` when it may also say how the database is used.
    fn parse(url: &str, all: bool) -> Result<Self, OpenError> {
        let refuse = |reason: String| refuse(url, reason);
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        // The driver takes other text for names and values, and repeats what it does not know.
        if !["postgres://", "postgresql://"].iter().any(|scheme| base.starts_with(scheme)) {
            return Err(refuse("it begins with `postgres://`".into()));
        }
        let mut said = Self {
            config: Config::new(),
            tls: TlsSettings::default(),
            pooler: None,
            schema: None,
            connections: None,
            transactions: None,
            listen_url: None,
            wait: None,
            migrates: true,
        };
        let mut theirs = Vec::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if DRIVERS.contains(&name) {
                theirs.push(option);
                continue;
            }
            let value =
                decoded(value).ok_or_else(|| refuse(format!("the value of `{name}` is not UTF-8")))?;
            if !(WAYS.contains(&name) || all && USES.contains(&name)) {
                return Err(refuse(unknown(name, all)));
            }
            said.set(name, value).map_err(refuse)?;
        }
        let driver = if theirs.is_empty() { base.to_owned() } else { format!("{base}?{}", theirs.join("&")) };
        said.config = Config::from_str(&driver).map_err(|error| refuse(crate::error::describe(&error)))?;
        let config = &mut said.config;
        if config.get_hosts().is_empty() {
            return Err(refuse("it names no host: write `postgres://user@host/database`".into()));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if !theirs.iter().any(|option| option.starts_with("keepalives_idle=")) {
            config.keepalives_idle(KEEPALIVE);
        }
        if !theirs.iter().any(|option| option.starts_with("tcp_user_timeout=")) {
            config.tcp_user_timeout(UNHEARD);
        }
        if config.get_application_name().is_none() {
            config.application_name("windlass");
        }
        Ok(said)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "schema" => self.schema = Some(value),
            "connections" => self.connections = Some(number(name, &value, CONNECTIONS)?),
            "transactions" => self.transactions = Some(number(name, &value, TRANSACTIONS)?),
            "listen_url" => self.listen_url = Some(value),
            "wait" => {
                let seconds = value.parse();
                let wrong = |_| format!("`wait={value}` is not a number of seconds: write `wait=10`");
                self.wait = Some(Duration::from_secs(seconds.map_err(wrong)?));
            }
            "migrate" => {
                self.migrates = match value.as_str() {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(format!("`migrate={value}`: it may be `yes` or `no`")),
                }
            }
            "pooler" => {
                self.pooler = Some(match value.as_str() {
                    "detect" => Pooler::Detect,
                    "transaction" => Pooler::Transaction,
                    "session" => Pooler::Session,
                    _ => {
                        return Err(format!(
                            "`pooler={value}`: it may be `detect`, `transaction` or `session`"
                        ));
                    }
                });
            }
            "sslmode" => self.tls.mode = Some(TlsMode::parse(&value)?),
            "sslrootcert" => self.tls.roots = Some(value.into()),
            "sslcert" => self.tls.certificate = Some(value.into()),
            "sslkey" => self.tls.key = Some(value.into()),
            _ => return Err(unknown(name, true)),
        }
        Ok(())
    }
}

fn connector(
    mut config: Config,
    tls: &TlsSettings,
    pooler: Option<Pooler>,
) -> Result<Arc<Connector>, OpenError> {
    let tls = tls.prepare(&mut config).map_err(|reason| OpenError::Tls { place: place(&config), reason })?;
    // For each host, and for all that is said before the first statement.
    let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX);
    let patience = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT) * hosts;
    Ok(Arc::new(Connector::new(config, tls, pooler.unwrap_or_default(), patience)))
}

/// A database for people.
fn place(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let ports = config.get_ports().iter().map(|port| format!(":{port}"));
    let hosts = hosts.zip(ports.chain(std::iter::repeat(String::new())));
    let hosts: Vec<_> = hosts.map(|(host, port)| format!("{host}{port}")).collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{}/{database}", hosts.join(","))
}

/// What to say of an option that nobody knows.
fn unknown(name: &str, all: bool) -> String {
    if name.contains('@') {
        // This is no option, and may be half a password.
        return "in a user or a password, `?` is written `%3F`, `@` is `%40`, and `/` is `%2F`".to_owned();
    }
    if USES.contains(&name) && !all {
        return format!("`{name}` has no meaning where notifications are listened for");
    }
    let known = WAYS.into_iter().chain(USES).chain(DRIVERS);
    let hint = nearest(name, known).map(|known| format!(" (did you mean `{known}`?)"));
    format!("there is no option `{name}`{}", hint.unwrap_or_default())
}

/// A value without its `%`.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

fn number(name: &str, value: &str, example: usize) -> Result<usize, String> {
    value.parse().map_err(|_| format!("`{name}={value}` is not a number: write `{name}={example}`"))
}

fn refuse(url: &str, reason: String) -> OpenError {
    // Whatever stands before the last `@` may be a password, and among the options there may be another one.
    let place = url.rsplit_once('@').map_or(url, |(_, place)| place);
    let place = place.split('?').next().unwrap_or_default();
    let url = if url.contains('@') { format!("postgres://…@{place}") } else { place.to_owned() };
    OpenError::Url { url, reason }
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, proptest};

    use super::*;

    fn parse(url: &str) -> Result<Location, OpenError> {
        Location::of(url, PostgresOptions::new())
    }

    #[test]
    fn our_options_and_the_drivers_are_told_apart() {
        let url = "postgres://me:secret@db:5433/app?schema=a%20b&connections=3&connect_timeout=2&wait=1";
        let location = parse(url).unwrap();
        assert_eq!((location.schema.as_str(), location.connections), ("a b", 3));
        assert_eq!((location.place.as_str(), location.wait), ("postgres://db:5433/app", WAIT / 10));
        let said = Said::parse(url, true).unwrap();
        assert_eq!(said.config.get_connect_timeout(), Some(&Duration::from_secs(2)));
        let said = Said::parse("postgres://db/app?keepalives_idle=60", true).unwrap();
        assert_eq!(said.config.get_keepalives_idle(), Duration::from_secs(60));
        assert_eq!(said.config.get_tcp_user_timeout(), Some(&UNHEARD));
        let said = Said::parse("postgres://db/app?tcp_user_timeout=60", true).unwrap();
        assert_eq!(said.config.get_tcp_user_timeout(), Some(&Duration::from_secs(60)));
    }

    #[test]
    fn what_is_set_in_code_counts_more_than_the_url() {
        let options = PostgresOptions::new().schema("mine").connections(4).wait(Duration::ZERO);
        let location = Location::of("postgres://db/app?schema=x&connections=3&wait=9", options).unwrap();
        assert_eq!((location.schema.as_str(), location.connections), ("mine", 4));
        assert_eq!(location.wait, Duration::ZERO);
    }

    #[test]
    fn the_listening_connection_may_go_another_way() {
        let location =
            parse("postgres://me@pool/app?listen_url=postgres%3A%2F%2Fme%3Ap%40db%2Fapp%3Fpooler%3Dsession");
        let listener = location.unwrap().listener.expect("it has its own");
        assert!(format!("{listener:?}").contains("\"db\""), "{listener:?}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name_and_without_the_password() {
        for (url, word) in [
            ("postgres://me:secret@db/app?shema=x", "did you mean `schema`"),
            ("postgres://me:secret@db/app?aplication_name=x", "did you mean `application_name`"),
            ("postgres://me:secret@db/app?ssl_mode=require", "did you mean `sslmode`"),
            ("postgres://me:secret@db/app?frobnicate=x", "no option `frobnicate`"),
            ("postgres://me:secret@db/app?connections=many", "connections=many"),
            ("postgres://me:secret@db/app?connections=1", "at least 2"),
            ("postgres://me:secret@db/app?transactions=0", "at least 1"),
            ("postgres://me:secret@db/app?schema=", "1 to 54"),
            (
                "postgres://me:secret@db/app?schema=a123456789b123456789c123456789d123456789e123456789f1234",
                "1 to 54",
            ),
            ("postgres:///app", "no host"),
            ("me:secret@db/app?connect_timeout=1", "it begins with `postgres://`"),
            ("postgres://me:secret@db/app?migrate=perhaps", "`yes` or `no`"),
            ("postgres://me:secret@db/app?wait=soon", "wait=soon"),
            ("postgres://me:secret@db/app?pooler=statement", "`detect`, `transaction` or `session`"),
            ("postgres://me:secret@db/app?sslmode=requir", "did you mean `require`"),
            ("postgres://db/app?password=secret&schma=x", "did you mean `schema`"),
            ("postgres://me:se?cret@db/app", "`%3F`"),
            (
                "postgres://db/app?listen_url=postgres%3A%2F%2Fme%3Asecret%40db%2Fapp%3Fschema%3Dx",
                "`schema` has no meaning",
            ),
            ("postgres://db/app?listen_url=postgres%3A%2F%2Fme%3Asecret%40db%2Fapp&wait=x", "wait=x"),
        ] {
            let text = parse(url).unwrap_err().to_string();
            assert!(
                text.contains(word) && !text.contains("secret") && !text.contains("cret@"),
                "{url}: {text}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd_to_be_answered_and_no_answer_tells_the_password(
            begin in "postgres(ql)?://|.{0,6}",
            host in "[a-z0-9.:,%\\[\\]]{0,20}(/[a-z%]{0,6})?|.{0,20}",
            options in proptest::collection::vec(
                "(schema|wait|pooler|sslmode|listen_url|connect_timeout|port|host|[a-z_]{0,8})=([a-z0-9%]{0,8}|.{0,8})",
                0..4,
            ),
        ) {
            let url = format!("{begin}me:pass-word@{host}?{}", options.join("&"));
            if let Err(error) = parse(&url) {
                let text = error.to_string();
                prop_assert!(!text.contains("pass-word"), "{url}: {text}");
            }
        }
    }
}
