//! What was asked on the command line.

use std::path::PathBuf;

use crate::{Result, workload::Workload};

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Windlass beside the raw limit of its store, measured in one run on this machine.

  cargo xtask bench [OPTIONS]

  --workload NAME     only this workload; may be given several times (default: all)
  --store NAME        only this store; may be given several times (default: all: sqlite, postgres)
  --url URL           a PostgreSQL server to use, as `postgres://user@host/database`; each measurement makes a schema
                      of its own there, and drops it (default: a throw-away cluster with the settings of a fresh one)
  --seconds N         how long each measurement lasts (default: 10)
  --concurrency N     how many runs are under way at once (default: as the workload's budget says)
  --scale F           a factor on the counts of `depth`, `retention`, `queues`, `burndown`, `timers`, `batches`, `replay`, `idle`, `idle-flows`, `memory`
                      and `graph` (default: 1)
  --peers             the same workloads on other crates too, where they have them; builds them first (bench/peers)
  --directory PATH    where the databases go (default: the directory for temporary files, if it is on a disk)
  --json              one line of JSON for each workload and store instead of a table
  --help              this text

Workloads:
";

/// A database that Windlass can keep its state in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Store {
    /// A file.
    Sqlite,
    /// A server.
    Postgres,
}

impl Store {
    /// Every store that is built in.
    pub(crate) const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];

    /// The name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// The command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// The workloads to run, in the order of the list.
    pub(crate) workloads: Vec<Workload>,
    /// The stores to run them on.
    pub(crate) stores: Vec<Store>,
    /// The PostgreSQL server, when a person names one.
    pub(crate) url: Option<String>,
    /// How long a measurement lasts.
    pub(crate) seconds: f64,
    /// How many runs are under way at once, when a person says so.
    pub(crate) concurrency: Option<usize>,
    /// A factor on the counts of `depth`, `retention`, `queues`, `burndown`, `timers`, `batches`, `replay`, `idle`, `idle-flows`, `memory` and `graph`.
    pub(crate) scale: f64,
    /// Where the databases go, when a person says so.
    pub(crate) directory: Option<PathBuf>,
    /// Whether to measure other crates too.
    pub(crate) peers: bool,
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// Whether to print the help and do nothing.
    pub(crate) help: bool,
}

impl Options {
    /// Reads the command line.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            workloads: Vec::new(),
            stores: Vec::new(),
            url: None,
            seconds: 10.0,
            concurrency: None,
            scale: 1.0,
            directory: None,
            peers: false,
            json: false,
            help: false,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (name, joined) = match argument.split_once('=') {
                Some((name, value)) => (name.to_string(), Some(value.to_string())),
                None => (argument, None),
            };
            let mut value =
                || joined.clone().or_else(|| arguments.next()).ok_or_else(|| format!("{name} wants a value"));
            match name.as_str() {
                "--workload" => options.workloads.push(workload(&value()?)?),
                "--store" => options.stores.push(store(&value()?)?),
                "--url" => options.url = Some(value()?),
                "--seconds" => options.seconds = positive(&name, &value()?)?,
                "--scale" => options.scale = positive(&name, &value()?)?,
                "--concurrency" => options.concurrency = Some(count(&name, &value()?)?),
                "--directory" => options.directory = Some(value()?.into()),
                "--peers" => options.peers = true,
                "--json" => options.json = true,
                "--help" | "-h" => options.help = true,
                other => return Err(format!("`{other}` is not understood; --help lists the options").into()),
            }
        }
        if options.stores.is_empty() {
            options.stores = Store::ALL.to_vec();
        }
        let known = |workload: &Workload| options.stores.iter().any(|store| workload.knows(*store));
        if let Some(workload) = options.workloads.iter().find(|workload| !known(workload)) {
            return Err(format!("{} is about PostgreSQL: give `--store postgres`", workload.name()).into());
        }
        if options.workloads.is_empty() {
            options.workloads = Workload::ALL.to_vec();
        }
        Ok(options)
    }
}

fn workload(name: &str) -> Result<Workload> {
    let names = || Workload::ALL.map(Workload::name).join(", ");
    Workload::ALL
        .into_iter()
        .find(|workload| workload.name() == name)
        .ok_or_else(|| format!("there is no workload called `{name}`; there are: {}", names()).into())
}

fn store(name: &str) -> Result<Store> {
    let names = || Store::ALL.map(Store::name).join(", ");
    Store::ALL
        .into_iter()
        .find(|store| store.name() == name)
        .ok_or_else(|| format!("this build has no store called `{name}`; it has: {}", names()).into())
}

fn positive(name: &str, value: &str) -> Result<f64> {
    match value.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(format!("{name} wants a number above zero, not `{value}`").into()),
    }
}

fn count(name: &str, value: &str) -> Result<usize> {
    match value.parse::<usize>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{name} wants a whole number above zero, not `{value}`").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn nothing_asked_means_everything() {
        let options = parse("").expect("it is valid");
        assert_eq!(options.workloads, Workload::ALL);
        assert_eq!(options.stores, Store::ALL);
    }

    #[test]
    fn options_may_be_repeated_and_joined_with_their_values() {
        let options = parse("--workload depth --workload=chain3 --seconds=0.5 --concurrency 7 --json --url=postgres://me@db/x?y=z")
            .expect("it is valid");
        assert_eq!(options.workloads, [Workload::Depth, Workload::Chain3]);
        assert_eq!((options.seconds, options.concurrency, options.json), (0.5, Some(7), true));
        assert_eq!(options.url.as_deref(), Some("postgres://me@db/x?y=z"));
    }

    #[test]
    fn a_mistake_is_named_with_what_would_be_right() {
        for (line, part) in [
            ("--workload chain4", "chain3-latency"),
            ("--store oracle", "it has: sqlite, postgres"),
            ("--seconds 0", "above zero"),
            ("--concurrency -1", "`-1`"),
            ("--scale", "wants a value"),
            ("--fast", "`--fast`"),
        ] {
            let why = parse(line).expect_err(line).to_string();
            assert!(why.contains(part), "{line}: {why}");
        }
    }
}
