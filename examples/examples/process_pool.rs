//! How do I hand tasks to something else: a pool of processes, a remote service?
//!
//! The tasks of the queue `render` are executed by three processes of their own, which have the same code and no engine.
//! One picture kills the process that works on it; the attempt fails, and the next one is made by another process.

use std::{collections::BTreeSet, process::Stdio};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Mutex,
};
use windlass::{Assignment, Executing, Executor, Resources, prelude::*};

const WORKERS: usize = 3;

#[workflow]
mod gallery {
    use super::*;

    #[task]
    pub async fn pictures(input: u32) -> Result<Vec<u32>> {
        Ok((1..=input).collect())
    }

    #[task(for_each = pictures, queue = "render", retry(attempts = 2, delay = "10ms"))]
    pub async fn render(item: u32, cx: &Cx) -> Result<(u32, u32)> {
        if item == 7 && cx.attempt() == 1 {
            std::process::exit(1);
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        Ok((std::process::id(), cx.attempt()))
    }

    #[task]
    pub async fn summary(render: &[(u32, u32)]) -> Result<(usize, bool, Vec<usize>)> {
        let processes: BTreeSet<u32> = render.iter().map(|(process, _)| *process).collect();
        let elsewhere = processes.len() >= WORKERS && !processes.contains(&std::process::id());
        let again = render.iter().enumerate().filter(|(_, (_, attempt))| *attempt > 1);
        Ok((render.len(), elsewhere, again.map(|(place, _)| place + 1).collect()))
    }
}

/// A process that executes one task at a time: a line in, a line out.
struct Worker {
    _process: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn spawn() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .env("POOL_WORKER", "yes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = process.stdin.take().ok_or("the worker takes no orders")?;
        let answers = process.stdout.take().ok_or("the worker gives no answers")?;
        Ok(Self { _process: process, orders, answers: BufReader::new(answers).lines() })
    }

    async fn execute(&mut self, assignment: &Assignment) -> Result<serde_json::Value> {
        self.orders.write_all(format!("{}\n", serde_json::to_string(assignment)?).as_bytes()).await?;
        let answer = self.answers.next_line().await?.ok_or("the worker died")?;
        serde_json::from_str::<Result<serde_json::Value, Failure>>(&answer)?
    }
}

/// Workers that have nothing to do. The queue's slots see to it that there is always one.
struct Pool(Mutex<Vec<Worker>>);

impl Executor for Pool {
    fn execute(&self, assignment: Assignment, _: Cx) -> Executing<'_> {
        Box::pin(async move {
            let idle = self.0.lock().await.pop();
            let mut worker = match idle {
                Some(worker) => worker,
                None => Worker::spawn()?,
            };
            let answer = worker.execute(&assignment).await;
            // One that died is not used again; nor is one whose attempt was stopped, which is dropped with this future.
            if answer.as_ref().is_err_and(|failure| failure.message == "the worker died") {
                return answer;
            }
            self.0.lock().await.push(worker);
            answer
        })
    }
}

/// What a worker does: the code of the task, without an engine.
async fn work() -> Result<()> {
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    while let Some(order) = orders.next_line().await? {
        let answer = gallery::workflow().perform(serde_json::from_str(&order)?, Resources::default()).await;
        println!("{}", serde_json::to_string(&answer)?);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    if std::env::var_os("POOL_WORKER").is_some() {
        return work().await;
    }
    let engine = Engine::open("sqlite::memory:")
        .workflow(gallery::workflow())
        .executor("render", Pool(Mutex::default()))
        .queue("render", WORKERS)
        .launch()
        .await?;
    let (pictures, elsewhere, again) = engine.start(gallery::workflow(), 12).await?.await?;
    println!("{pictures} pictures, none of them rendered here: {elsewhere}");
    println!("rendered again, because their process died: {again:?}");
    engine.stop().await?;
    Ok(())
}
