//! The workloads, by name.

mod batches;
mod burndown;
mod chain3;
mod compile;
mod depth;
mod fanout;
mod graph;
mod grip;
mod held;
mod idle;
mod latency;
mod memory;
mod queues;
mod recover;
mod replay;
mod retention;
pub(crate) mod roll;
mod schedules;
mod steps;
mod timers;
mod two;
mod wake;
mod watched;

use std::time::Duration;

use windlass::{Engine, EngineBuilder};

use crate::{
    Result,
    database::{self, Database},
    ground::Ground,
    limit::{self, Limit},
    options::{Options, Store},
    report::Line,
    server::Server,
};

/// On how many connections a limit on PostgreSQL is measured. On a machine with two cores, two wrote 1.4 times what one
/// did; which is better depends on the machine and on who else uses it, so both are tried and the better one counts.
const CONNECTIONS: [usize; 2] = [1, 2];

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Workload {
    /// Many concurrent runs of three tasks in a row.
    Chain3,
    /// The same, one run at a time.
    Chain3Latency,
    /// Chain3 in two processes on one database.
    Chain3Two,
    /// Chain3 while somebody has the page open.
    Chain3Watched,
    /// Chain3 while somebody sits idle in a transaction.
    Chain3Held,
    /// A backlog of one-task runs, worked off.
    Burndown,
    /// The same while somebody sits idle in a transaction.
    BurndownHeld,
    /// One run with ten thousand instances of a task.
    Fanout,
    /// Many concurrent durable functions of ten steps in a row.
    Steps,
    /// How much memory such a function takes while it runs.
    StepsMemory,
    /// Parked durable functions that are due at one instant.
    Timers,
    /// Schedules that are due at one instant, one that is due by itself, and all while nothing is due.
    Schedules,
    /// Items that are gathered into runs.
    Batches,
    /// A durable function with ten thousand recorded steps goes on.
    Replay,
    /// Chain3 beside millions of rows that are not its own.
    Depth,
    /// Claims while millions of old runs are discarded.
    Retention,
    /// A queue with limits, deep and shallow.
    Queues,
    /// A process is killed, and another goes on with its runs.
    Recover,
    /// Somebody who waits goes on.
    Wake,
    /// A process with nothing to do.
    Idle,
    /// The same, where what is parked are durable functions.
    IdleFlows,
    /// A node with a long backlog.
    Memory,
    /// A graph of ten thousand tasks.
    Graph,
    /// The build of a first program.
    Compile,
}

impl Workload {
    /// Every workload, in the order in which they run.
    pub(crate) const ALL: [Self; 24] = [
        Self::Chain3,
        Self::Chain3Latency,
        Self::Chain3Two,
        Self::Chain3Watched,
        Self::Chain3Held,
        Self::Burndown,
        Self::BurndownHeld,
        Self::Fanout,
        Self::Steps,
        Self::StepsMemory,
        Self::Timers,
        Self::Schedules,
        Self::Batches,
        Self::Replay,
        Self::Depth,
        Self::Retention,
        Self::Queues,
        Self::Recover,
        Self::Wake,
        Self::Idle,
        Self::IdleFlows,
        Self::Memory,
        Self::Graph,
        Self::Compile,
    ];

    /// The name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chain3 => "chain3",
            Self::Chain3Latency => "chain3-latency",
            Self::Chain3Two => "chain3-two",
            Self::Chain3Watched => "chain3-watched",
            Self::Chain3Held => "chain3-held",
            Self::Burndown => "burndown",
            Self::BurndownHeld => "burndown-held",
            Self::Fanout => "fanout",
            Self::Steps => "steps",
            Self::StepsMemory => "steps-memory",
            Self::Timers => "timers",
            Self::Schedules => "schedules",
            Self::Batches => "batches",
            Self::Replay => "replay",
            Self::Depth => "depth",
            Self::Retention => "retention",
            Self::Queues => "queues",
            Self::Recover => "recover",
            Self::Wake => "wake",
            Self::Idle => "idle",
            Self::IdleFlows => "idle-flows",
            Self::Memory => "memory",
            Self::Graph => "graph",
            Self::Compile => "compile",
        }
    }

    /// What it is, for the help.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Chain3 => "many concurrent runs of three tasks in a row",
            Self::Chain3Latency => "one such run at a time, from start to awaited result",
            Self::Chain3Two => "chain3 in two processes on one database, beside one alone",
            Self::Chain3Watched => {
                "chain3 while the overview and the page of a run are open, beside chain3 without"
            }
            Self::Chain3Held => "chain3 while a session sits idle in a transaction (postgres only)",
            Self::Burndown => "200,000 one-task runs, enqueued in bulk, then worked off",
            Self::BurndownHeld => "burndown while a session sits idle in a transaction (postgres only)",
            Self::Fanout => "one task feeding 10,000 instances, one joining them",
            Self::Steps => "many concurrent durable functions of ten steps in a row",
            Self::StepsMemory => {
                "10,000 durable functions at work, each with ten steps done and one under way"
            }
            Self::Timers => "10,000 parked durable functions that are due at one instant",
            Self::Schedules => {
                "1,000 schedules that are due at one instant, one by itself, and all of them idle"
            }
            Self::Batches => {
                "10,000 items in batches of 100, one by one and all at once, and how soon a full batch begins"
            }
            Self::Replay => "a parked durable function with 10,000 recorded steps gets an event",
            Self::Depth => "chain3 beside 5,000,000 finished and 1,000,000 delayed runs",
            Self::Retention => "claims while 5,000,000 old runs are discarded, beside claims while none is",
            Self::Queues => {
                "claims from 1,000,000 pending runs of 10,000 keys with limits, beside claims from 1,000"
            }
            Self::Recover => "a process that holds 10,000 runs is killed; another goes on",
            Self::Wake => {
                "from a start, an end, a cancel or an event to whoever waits, in one process and between two"
            }
            Self::Idle => "a process with 100,000 parked runs and nothing to do",
            Self::IdleFlows => "the same with parked durable functions",
            Self::Memory => "a node with 100,000 pending runs and 1,000 at work",
            Self::Graph => "a graph of 10,000 tasks, from its description to its first task",
            Self::Compile => "a clean release build of a first program",
        }
    }

    /// Whether it has anything to say about a store.
    pub(crate) fn knows(self, store: Store) -> bool {
        store == Store::Postgres || !matches!(self, Self::Chain3Held | Self::BurndownHeld)
    }

    /// How many runs are under way at once, unless a person says otherwise.
    fn concurrency(self, store: Store) -> usize {
        match self {
            // A commit on a server takes longer, so more runs share it.
            Self::Chain3
            | Self::Chain3Two
            | Self::Chain3Watched
            | Self::Chain3Held
            | Self::Depth
            | Self::Steps => match store {
                Store::Postgres => 4_000,
                Store::Sqlite => 1_000,
            },
            Self::Burndown | Self::BurndownHeld | Self::Idle | Self::IdleFlows | Self::Memory => 1_000,
            Self::Timers | Self::Schedules | Self::Batches => 1_000,
            Self::Retention | Self::Queues => 1,
            Self::Chain3Latency | Self::Fanout | Self::Replay | Self::Wake | Self::Graph | Self::Compile => 1,
            Self::Recover | Self::StepsMemory => 10_000,
        }
    }
}

/// One workload on one store.
pub(crate) struct Bench<'a> {
    /// What to measure.
    pub(crate) workload: Workload,
    /// On which store.
    pub(crate) store: Store,
    /// Where databases go.
    pub(crate) ground: &'a Ground,
    /// Where schemas go, if PostgreSQL is asked for.
    pub(crate) server: Option<&'a Server>,
    /// What was asked.
    pub(crate) options: &'a Options,
}

impl Bench<'_> {
    /// Measures it.
    pub(crate) async fn measure(&self) -> Result<Line> {
        match self.workload {
            Workload::Chain3 => chain3::measure(self, chain3::CHAIN).await,
            Workload::Chain3Latency => latency::measure(self).await,
            Workload::Chain3Two => two::measure(self).await,
            Workload::Chain3Watched => watched::measure(self).await,
            Workload::Chain3Held => held::chain3(self).await,
            Workload::Burndown => burndown::measure(self).await,
            Workload::BurndownHeld => held::burndown(self).await,
            Workload::Fanout => fanout::measure(self).await,
            Workload::Steps => chain3::measure(self, steps::STEPS).await,
            Workload::StepsMemory => grip::measure(self).await,
            Workload::Timers => timers::measure(self).await,
            Workload::Schedules => schedules::measure(self).await,
            Workload::Batches => batches::measure(self).await,
            Workload::Replay => replay::measure(self).await,
            Workload::Depth => depth::measure(self).await,
            Workload::Retention => retention::measure(self).await,
            Workload::Queues => queues::measure(self).await,
            Workload::Recover => recover::measure(self).await,
            Workload::Wake => wake::measure(self).await,
            Workload::Idle => idle::measure(self, idle::parked::workflow()).await,
            Workload::IdleFlows => idle::measure(self, idle::sleeper::workflow()).await,
            Workload::Memory => memory::measure(self).await,
            Workload::Graph => graph::measure(self).await,
            Workload::Compile => compile::measure(self).await,
        }
    }

    pub(crate) fn concurrency(&self) -> usize {
        self.options.concurrency.unwrap_or_else(|| self.workload.concurrency(self.store))
    }

    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.options.seconds)
    }

    /// How long a limit is measured each time: before ours and after it, so that a machine that slows down
    /// meanwhile slows both.
    fn half(&self) -> Duration {
        self.span() / 2
    }

    /// A place for a database that is not there yet.
    async fn database(&self) -> Result<Database> {
        Ok(match self.store {
            Store::Sqlite => Database::Sqlite(database::Sqlite::new(self.ground)?),
            Store::Postgres => Database::Postgres(database::Postgres::new(self.server()?).await?),
        })
    }

    /// An empty database for a limit, with so many connections where there may be several.
    async fn limit(&self, connections: usize) -> Result<Limit> {
        Ok(match self.store {
            Store::Sqlite => Limit::Sqlite(limit::Sqlite::open(self.ground)?),
            Store::Postgres => Limit::Postgres(limit::Postgres::open(self.server()?, connections).await?),
        })
    }

    /// Measures limits, each at its best.
    async fn limits<const N: usize>(
        &self,
        measure: impl AsyncFn(Limit) -> Result<[f64; N]>,
    ) -> Result<[f64; N]> {
        let mut best = [0.0; N];
        let tries = if self.store == Store::Postgres { &CONNECTIONS[..] } else { &CONNECTIONS[..1] };
        for &connections in tries {
            let measured = measure(self.limit(connections).await?).await?;
            best = std::array::from_fn(|at| measured[at].max(best[at]));
        }
        Ok(best)
    }

    pub(crate) fn server(&self) -> Result<&Server> {
        self.server.ok_or_else(|| "PostgreSQL was not asked for".into())
    }

    /// How many runs the backlog of `burndown` has.
    pub(crate) fn backlog(&self) -> u64 {
        burndown::runs(self.options.scale)
    }

    fn line(&self, budget: &str) -> Line {
        Line::new(self.workload, self.store, self.concurrency(), budget)
    }
}

/// Plays a part of a measurement, in a process that another one started for it.
pub(crate) async fn play(part: &str) -> Result<()> {
    match part.split_once(' ') {
        Some((recover::VICTIM, order)) => recover::be_killed(order).await,
        Some((two::HAULER, order)) => two::play(order).await,
        Some((wake::RUNNER, order)) => wake::play(order).await,
        Some((grip::HOLDER, order)) => grip::play(order).await,
        Some((idle::IDLER, order)) => idle::play(order).await,
        _ => Err(format!("there is no part called `{part}`").into()),
    }
}

/// The words of an order; the last one, a URL, may have spaces in it.
fn words<const N: usize>(order: &str) -> Result<[&str; N]> {
    let words: Vec<&str> = order.splitn(N, ' ').collect();
    words.try_into().map_err(|_| format!("the order `{order}` does not have {N} words").into())
}

/// An engine with room for so many runs, all of them at work.
fn engine(url: &str, concurrency: usize) -> EngineBuilder {
    Engine::open(url).max_runs(concurrency).slots(concurrency.max(1_000)).stop_grace(Duration::from_secs(1))
}

/// The middle between two measurements of a limit.
fn mean(before: f64, after: f64) -> f64 {
    (before + after) / 2.0
}
