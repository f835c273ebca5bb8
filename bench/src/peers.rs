//! The same workloads on other crates, in the same run.
//!
//! They are programs of a workspace of their own, `bench/peers`, which is built before anything is measured. Each
//! measurement has an empty database, and what a program says it has done is counted there.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use serde::Deserialize;
use tokio::process::Command;

use crate::{
    Result,
    options::Store,
    report::Line,
    workload::{Bench, Workload},
};

/// The variable that says where the programs lie.
const PLACE: &str = "WINDLASS_BENCH_PEERS";

/// How many runs of a peer are under way at once, unless ours are fewer. These crates write each step by itself, so that
/// more of them would only wait.
const CONCURRENCY: usize = 100;

/// How long a measurement may take.
const PATIENCE: Duration = Duration::from_secs(900);

/// Another crate on a store.
struct Peer {
    program: &'static str,
    store: Store,
    workloads: &'static [Workload],
    counts: Counts,
}

/// What there is to count when a peer has done its work.
enum Counts {
    /// As many as have ended.
    Ended(&'static str),
    /// None: what has ended is not kept.
    Left(&'static str),
}

const CHAINS: &[Workload] = &[Workload::Chain3, Workload::Chain3Latency];

const PEERS: [Peer; 4] = [
    Peer {
        program: "peer-graphile-worker",
        store: Store::Postgres,
        workloads: &[Workload::Burndown],
        counts: Counts::Left("SELECT count(*) FROM graphile_worker._private_jobs"),
    },
    Peer {
        program: "peer-dbos",
        store: Store::Postgres,
        workloads: CHAINS,
        counts: Counts::Ended("SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"),
    },
    Peer {
        program: "peer-durare",
        store: Store::Postgres,
        workloads: CHAINS,
        counts: Counts::Ended("SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"),
    },
    Peer {
        program: "peer-durare",
        store: Store::Sqlite,
        workloads: CHAINS,
        counts: Counts::Ended("SELECT count(*) FROM workflow_status WHERE status = 'SUCCESS'"),
    },
];

/// What a peer prints.
#[derive(Debug, Deserialize)]
struct Answer {
    peer: String,
    concurrency: usize,
    runs: u64,
    tasks_per_s: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    enqueued_per_s: Option<f64>,
}

/// The programs that were built.
pub(crate) struct Peers(PathBuf);

impl Peers {
    /// Those that whoever started this program has built.
    pub(crate) fn find() -> Result<Self> {
        let place =
            env::var_os(PLACE).ok_or("--peers is for `cargo xtask bench --peers`, which builds them")?;
        Ok(Self(place.into()))
    }

    /// Measures a workload on every peer that has it.
    pub(crate) async fn measure(&self, bench: &Bench<'_>) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for peer in &PEERS {
            if peer.store == bench.store && peer.workloads.contains(&bench.workload) {
                let measured = self.measure_one(peer, bench).await;
                lines.push(measured.map_err(|error| format!("{}: {error}", peer.program))?);
            }
        }
        Ok(lines)
    }

    async fn measure_one(&self, peer: &Peer, bench: &Bench<'_>) -> Result<Line> {
        let concurrency = bench.concurrency().min(CONCURRENCY);
        let program = self.0.join(peer.program);
        let answer = match peer.store {
            Store::Postgres => {
                let database = bench.server()?.database().await?;
                let answer = ask(&program, bench, database.url(), concurrency).await?;
                let client = database.server().connect().await?;
                let found: i64 = client.query_one(peer.counts.sql(), &[]).await?.try_get(0)?;
                peer.counts.check(found, answer)?
            }
            Store::Sqlite => {
                let directory = bench.ground.directory()?;
                let file = directory.path().join("peer.db");
                let url = format!("sqlite://{}", file.display());
                let answer = ask(&program, bench, &url, concurrency).await?;
                let reader = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
                peer.counts.check(reader.query_row(peer.counts.sql(), [], |row| row.get(0))?, answer)?
            }
        };
        let line = Line::new(bench.workload, bench.store, answer.concurrency, "")
            .of_peer(&answer.peer, answer.tasks_per_s)
            .latencies(answer.p50_ms, answer.p99_ms);
        Ok(answer.enqueued_per_s.into_iter().fold(line, |line, rate| line.also("enqueued_per_s", rate)))
    }
}

/// Starts a program, and reads the one line that it prints.
async fn ask(program: &Path, bench: &Bench<'_>, url: &str, concurrency: usize) -> Result<Answer> {
    let mut command = Command::new(program);
    command.args([bench.workload.name(), url]);
    let numbers = [bench.options.seconds.to_string(), concurrency.to_string(), bench.backlog().to_string()];
    command.args(numbers).stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output())
        .await
        .map_err(|_| format!("it goes on after {} s", PATIENCE.as_secs()))??;
    if !output.status.success() {
        return Err(format!("it ended with {}; what it said above tells why", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

impl Counts {
    fn sql(&self) -> &'static str {
        match self {
            Self::Ended(sql) | Self::Left(sql) => sql,
        }
    }

    /// A figure is worth nothing when the rows are not there.
    fn check(&self, found: i64, answer: Answer) -> Result<Answer> {
        let wanted = match self {
            Self::Ended(_) => answer.runs,
            Self::Left(_) => 0,
        };
        if u64::try_from(found)? == wanted {
            Ok(answer)
        } else {
            let runs = answer.runs;
            Err(format!("it says that {runs} have ended, and the database counts {found}, not {wanted}")
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_the_database_does_not_bear_out_is_an_error() {
        let answer = || Answer {
            peer: "x 1".to_string(),
            concurrency: 1,
            runs: 5,
            tasks_per_s: 1.0,
            p50_ms: None,
            p99_ms: None,
            enqueued_per_s: None,
        };
        assert!(Counts::Ended("").check(5, answer()).is_ok());
        assert!(Counts::Left("").check(0, answer()).is_ok());
        for (counts, found) in [(Counts::Ended(""), 4), (Counts::Left(""), 1)] {
            let why = counts.check(found, answer()).map(|_| ()).expect_err("it is not true").to_string();
            assert!(why.contains("5 have ended") && why.contains(&format!("counts {found}")), "{why}");
        }
    }
}
