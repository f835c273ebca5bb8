//! One connection, and the statements of the limits on it.
//!
//! A transaction is sent whole, from its beginning to its commit, before the first answer is there: each part of a
//! `join!` is sent when it is first polled, and they are polled in order.

use std::ops::Range;

use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::super::{BATCH, NOTHING, id, instant};
use crate::Result;

const RUNS: &str = "\
    INSERT INTO run SELECT u.id, 1, u.at, u.input \
    FROM unnest($1::uuid[], $2::bigint[], $3::bytea[]) AS u (id, at, input)";
const READY: &str = "INSERT INTO ready SELECT unnest($1::uuid[])";
const STEPS: &str = "\
    INSERT INTO step SELECT u.run, u.task, u.at, u.output \
    FROM unnest($1::uuid[], $2::integer[], $3::bigint[], $4::bytea[]) AS u (run, task, at, output)";
const ENDS: &str = "\
    INSERT INTO ended SELECT u.run, 1, u.at, u.output \
    FROM unnest($1::uuid[], $2::bigint[], $3::bytea[]) AS u (run, at, output)";
/// The place of a row that is locked does not change, and is the quickest way to it.
const CLAIM: &str = "\
    DELETE FROM ready WHERE ctid = ANY (ARRAY (\
        SELECT ctid FROM ready WHERE run >= $1 ORDER BY run LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING run";
const SINGLE: &str = "INSERT INTO run VALUES ($1, 1, $2, $3)";

const BEGIN: &str = "BEGIN";
const COMMIT: &str = "COMMIT";

/// A connection with its statements.
pub(super) struct Desk {
    client: Client,
    runs: Statement,
    ready: Statement,
    steps: Statement,
    ends: Statement,
    claim: Statement,
    single: Statement,
}

impl Desk {
    pub(super) async fn open(client: Client) -> Result<Self> {
        Ok(Self {
            runs: client.prepare(RUNS).await?,
            ready: client.prepare(READY).await?,
            steps: client.prepare(STEPS).await?,
            ends: client.prepare(ENDS).await?,
            claim: client.prepare(CLAIM).await?,
            single: client.prepare(SINGLE).await?,
            client,
        })
    }

    /// A wave of runs with so many steps and an end each: what follows from a record is written when that is durable.
    pub(super) async fn chains(&self, first: u64, steps: usize) -> Result<()> {
        let numbers = first..first + BATCH;
        let runs: Vec<Uuid> = numbers.clone().map(run).collect();
        let at: Vec<i64> = numbers.map(instant).collect();
        let values = vec![NOTHING; runs.len()];
        self.client.execute(&self.runs, &[&runs, &at, &values]).await?;
        for task in 1..steps {
            let tasks = vec![task as i32; runs.len()];
            self.client.execute(&self.steps, &[&runs, &tasks, &at, &values]).await?;
        }
        let tasks = vec![steps as i32; runs.len()];
        let (begun, last, ends, committed) = tokio::join!(
            self.client.batch_execute(BEGIN),
            async { self.client.execute(&self.steps, &[&runs, &tasks, &at, &values]).await },
            async { self.client.execute(&self.ends, &[&runs, &at, &values]).await },
            self.client.batch_execute(COMMIT),
        );
        begun?;
        last?;
        ends?;
        Ok(committed?)
    }

    /// A batch of runs that wait.
    pub(super) async fn enqueue(&self, first: u64) -> Result<()> {
        let numbers = first..first + BATCH;
        let runs: Vec<Uuid> = numbers.clone().map(run).collect();
        let at: Vec<i64> = numbers.map(instant).collect();
        let inputs = vec![NOTHING; runs.len()];
        let (begun, written, ready, committed) = tokio::join!(
            self.client.batch_execute(BEGIN),
            async { self.client.execute(&self.runs, &[&runs, &at, &inputs]).await },
            async { self.client.execute(&self.ready, &[&runs]).await },
            self.client.batch_execute(COMMIT),
        );
        begun?;
        written?;
        ready?;
        Ok(committed?)
    }

    /// Ends what was claimed, and claims what is not older than `after`.
    pub(super) async fn work_off(&self, claimed: &[Uuid], after: Uuid) -> Result<Vec<Uuid>> {
        let at = vec![instant(0); claimed.len()];
        let tasks = vec![0_i32; claimed.len()];
        let outputs = vec![NOTHING; claimed.len()];
        let (begun, steps, ends, next, committed) = tokio::join!(
            self.client.batch_execute(BEGIN),
            async { self.client.execute(&self.steps, &[&claimed, &tasks, &at, &outputs]).await },
            async { self.client.execute(&self.ends, &[&claimed, &at, &outputs]).await },
            async { self.client.query(&self.claim, &[&after, &(BATCH as i64)]).await },
            self.client.batch_execute(COMMIT),
        );
        begun?;
        steps?;
        ends?;
        let next = next?.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        committed?;
        Ok(next)
    }

    /// A run, and its step that answers a list.
    pub(super) async fn feed(&self, number: u64, list: &[u8]) -> Result<()> {
        let (run, at) = ([run(number)].to_vec(), [instant(number)].to_vec());
        let (begun, written, step, committed) = tokio::join!(
            self.client.batch_execute(BEGIN),
            async { self.client.execute(&self.runs, &[&run, &at, &vec![NOTHING]]).await },
            async { self.client.execute(&self.steps, &[&run, &vec![0_i32], &at, &vec![list]]).await },
            self.client.batch_execute(COMMIT),
        );
        begun?;
        written?;
        step?;
        Ok(committed?)
    }

    /// Some steps of a run: one statement, which is a transaction by itself.
    pub(super) async fn instances(&self, number: u64, tasks: Range<u64>) -> Result<()> {
        let tasks: Vec<i32> = tasks.map(|task| task as i32).collect();
        let (run, at) = (vec![run(number); tasks.len()], vec![instant(number); tasks.len()]);
        self.client.execute(&self.steps, &[&run, &tasks, &at, &vec![NOTHING; tasks.len()]]).await?;
        Ok(())
    }

    /// The last step of a run, and its end.
    pub(super) async fn join(&self, number: u64, task: u64, joined: &[u8]) -> Result<()> {
        let (run, at) = ([run(number)].to_vec(), [instant(number)].to_vec());
        let (begun, step, end, committed) = tokio::join!(
            self.client.batch_execute(BEGIN),
            async { self.client.execute(&self.steps, &[&run, &vec![task as i32], &at, &vec![joined]]).await },
            async { self.client.execute(&self.ends, &[&run, &at, &vec![joined]]).await },
            self.client.batch_execute(COMMIT),
        );
        begun?;
        step?;
        end?;
        Ok(committed?)
    }

    /// One row, which is a transaction by itself.
    pub(super) async fn single(&self, number: u64) -> Result<()> {
        self.client.execute(&self.single, &[&run(number), &instant(number), &NOTHING]).await?;
        Ok(())
    }

    pub(super) async fn analyze(&self, table: &str) -> Result<()> {
        Ok(self.client.batch_execute(&format!("ANALYZE {table}")).await?)
    }

    pub(super) async fn count(&self, table: &str) -> Result<u64> {
        let count: i64 =
            self.client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await?.try_get(0)?;
        Ok(u64::try_from(count)?)
    }
}

fn run(number: u64) -> Uuid {
    Uuid::from_bytes(id(number))
}
