//! The laboratory: workflows under virtual time, with failures and crashes on purpose.

use std::{
    future::Future,
    ops::RangeBounds,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use windlass_core::{Failure, Time};
use windlass_store::{Call, Memory, Side, Verdict};

use crate::{Cx, Engine, EngineBuilder};

#[cfg(test)]
mod tests;

/// When a laboratory's time begins: a round instant, so that times in a failing test can be read.
const BEGINNING: Time = Time(1_767_225_600_000_000);
/// Nothing dies unseen in a laboratory, so its engines need few signs of life: two weeks are then a few
/// hundred events, and pass in a millisecond.
const HEARTBEAT: Duration = Duration::from_secs(3600);

/// A place to test workflows: in memory, with virtual time, and with failures and crashes on purpose.
///
/// `#[windlass::test]` gives a test one of its own. Time stands still while anything can run, and jumps to
/// the next timer when nothing can: awaiting a run that retries tomorrow takes no time at all.
///
/// ```
/// use windlass::{prelude::*, testing::Lab};
///
/// #[workflow]
/// mod greet {
///     use super::*;
///
///     #[task]
///     pub async fn hello(input: String) -> Result<String> {
///         Ok(format!("hello, {input}"))
///     }
/// }
///
/// #[windlass::test]
/// async fn a_failed_greeting_is_tried_again(lab: Lab) -> Result<()> {
///     lab.fail("hello", 1..=2, "the line is busy");
///     let engine = lab.engine().workflow(greet::workflow()).launch().await?;
///     let run = engine.start(greet::workflow(), "world".to_owned()).await?;
///     assert_eq!(run.await?, "hello, world");
///     assert_eq!(lab.attempts("hello"), 3);
///     Ok(())
/// }
/// # fn main() {}
/// ```
#[derive(Clone)]
pub struct Lab {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    start: Instant,
    memory: Memory,
    planned: Mutex<Vec<Planned>>,
    /// How often engines have read from the store.
    reads: Arc<AtomicUsize>,
    /// The tasks that were executed, attempt by attempt.
    executed: Mutex<Vec<Arc<str>>>,
    engines: Mutex<Vec<(Engine, Memory)>>,
}

struct Planned {
    task: String,
    attempts: Box<dyn Fn(u32) -> bool + Send + Sync>,
    failure: Failure,
}

impl Lab {
    /// A laboratory with an empty store. It must be made inside a runtime whose time is paused;
    /// `#[windlass::test]` sees to that.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it depends on the runtime it is made in")]
    pub fn new() -> Self {
        let start = Instant::now();
        let memory = Memory::new(move || BEGINNING + start.elapsed());
        let shared = Shared {
            start,
            memory,
            planned: Mutex::default(),
            reads: Arc::default(),
            executed: Mutex::default(),
            engines: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Sets up an engine in this laboratory, as a process of its own. Several may share the store.
    pub fn engine(&self) -> EngineBuilder {
        let (process, reads) = (self.shared.memory.process(), Arc::clone(&self.shared.reads));
        process.on_call(move |moment| {
            if moment.call == Call::Read && moment.side == Side::Before {
                reads.fetch_add(1, Ordering::Relaxed);
            }
            Verdict::Proceed
        });
        self.engine_on(process)
    }

    /// How often engines of this laboratory have read from its store, claims aside, unless they were cut off meanwhile.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.shared.reads.load(Ordering::Relaxed)
    }

    fn engine_on(&self, process: Memory) -> EngineBuilder {
        Engine::over(Arc::new(process.clone()))
            .heartbeat(HEARTBEAT)
            .stale_after(HEARTBEAT * 6)
            .poll(HEARTBEAT)
            .in_lab(Arc::clone(&self.shared), process)
    }

    /// The laboratory's time.
    #[must_use]
    pub fn now(&self) -> Time {
        BEGINNING + self.shared.start.elapsed()
    }

    /// Lets time pass. Whatever falls due happens in its turn.
    pub async fn advance(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    /// Makes these attempts of a task fail instead of being executed: `lab.fail("load", 1..=2, "disk full")`.
    /// For one instance of a `for_each`, name it: `enrich[3]`.
    pub fn fail(
        &self,
        task: impl Into<String>,
        attempts: impl RangeBounds<u32> + Send + Sync + 'static,
        failure: impl Into<Failure>,
    ) {
        let attempts = Box::new(move |attempt| attempts.contains(&attempt));
        self.shared.planned.lock().push(Planned { task: task.into(), attempts, failure: failure.into() });
    }

    /// Takes back all planned failures.
    pub fn forgive(&self) {
        self.shared.planned.lock().clear();
    }

    /// How many attempts of a task were executed, the planned failures included. Counts all instances of a
    /// `for_each`, or one by its name: `enrich[3]`.
    #[must_use]
    pub fn attempts(&self, task: &str) -> usize {
        self.shared.executed.lock().iter().filter(|step| names(step, task)).count()
    }

    /// How many attempts at undoing a task, or a step of a durable function, were executed, the planned failures included.
    /// An element of a `for_each` is named: `enrich[3]`.
    #[must_use]
    pub fn undos(&self, step: &str) -> usize {
        self.attempts(&format!("{step}/undo"))
    }

    /// Fails the test if nobody tried to undo this task or step.
    ///
    /// # Panics
    ///
    /// That is what it does.
    pub fn assert_undone(&self, step: &str) {
        assert!(self.undos(step) > 0, "`{step}` was not undone");
    }

    /// Ends an engine as a power cut would: nothing is handed over, nothing more is written. Another engine
    /// of this laboratory, or a new one, takes its runs over at once.
    pub fn crash(&self, engine: &Engine) {
        let mut engines = self.shared.engines.lock();
        engines.retain(|(other, process)| {
            if !other.is(engine) {
                return true;
            }
            process.crash();
            engine.crash();
            false
        });
    }

    /// Puts the store out of an engine's reach, until [`reconnect`](Self::reconnect).
    pub fn cut_off(&self, engine: &Engine) {
        self.on_calls_of(engine, Verdict::Unavailable);
    }

    /// Puts the store back into an engine's reach.
    pub fn reconnect(&self, engine: &Engine) {
        self.on_calls_of(engine, Verdict::Proceed);
    }

    fn on_calls_of(&self, engine: &Engine, verdict: Verdict) {
        let engines = self.shared.engines.lock();
        for (_, process) in engines.iter().filter(|(other, _)| other.is(engine)) {
            process.on_call(move |_| verdict);
        }
    }

    /// Crashes a program at every record boundary in turn: just before and just after its first commit, then
    /// its second, and so on. After each crash the program is started again on the same store, and has to
    /// finish.
    ///
    /// The program is what `main` would be: it is given an engine to set up, and does the rest. It is run
    /// from its beginning each time, so it should start its run under a key. Answers at how many boundaries
    /// it was crashed.
    ///
    /// # Errors
    ///
    /// The program's own, with the boundary at which it was crashed.
    pub async fn crash_everywhere<P, F, E>(&self, program: P) -> Result<usize, Failure>
    where
        P: Fn(EngineBuilder) -> F,
        F: Future<Output = Result<(), E>>,
        E: Into<Failure>,
    {
        for boundary in 0.. {
            let lab = Self::new();
            let crashed =
                lab.run_and_crash(&program, boundary).await.map_err(|why| at(boundary, why.into()))?;
            if !crashed {
                return Ok(boundary);
            }
            program(lab.engine()).await.map_err(|why| at(boundary, why.into()))?;
            lab.end();
        }
        Ok(0)
    }

    /// Runs a program until it ends or reaches the boundary. Answers whether it was crashed there.
    async fn run_and_crash<P, F, E>(&self, program: &P, boundary: usize) -> Result<bool, E>
    where
        P: Fn(EngineBuilder) -> F,
        F: Future<Output = Result<(), E>>,
    {
        let process = self.shared.memory.process();
        let (count, crashed) = (AtomicUsize::new(0), Arc::new(Notify::new()));
        let reached = Arc::clone(&crashed);
        process.on_call(move |moment| {
            if moment.call != Call::Commit || count.fetch_add(1, Ordering::Relaxed) != boundary {
                return Verdict::Proceed;
            }
            reached.notify_one();
            Verdict::Crash
        });
        let ended = tokio::select! {
            ended = program(self.engine_on(process)) => Some(ended),
            () = crashed.notified() => None,
        };
        self.end();
        ended.map_or(Ok(true), |ended| ended.map(|()| false))
    }

    /// Ends every engine.
    fn end(&self) {
        for (engine, process) in self.shared.engines.lock().drain(..) {
            process.crash();
            engine.crash();
        }
    }
}

impl Shared {
    /// Takes note of an attempt, and says whether it is to fail.
    pub(crate) fn attempt(&self, cx: &Cx) -> Option<Failure> {
        let step = cx.step();
        self.executed.lock().push(Arc::clone(&step));
        let planned = self.planned.lock();
        let plan = planned.iter().find(|plan| names(&step, &plan.task) && (plan.attempts)(cx.attempt()))?;
        Some(plan.failure.clone())
    }

    pub(crate) fn launched(&self, engine: Engine, process: Memory) {
        self.engines.lock().push((engine, process));
    }
}

/// Whether a step is the task of this name, or one of its instances.
fn names(step: &str, task: &str) -> bool {
    step == task || step.strip_prefix(task).is_some_and(|rest| rest.starts_with('['))
}

fn at(boundary: usize, mut failure: Failure) -> Failure {
    let side = if boundary.is_multiple_of(2) { "before" } else { "after" };
    failure.message = format!("crashed just {side} commit {}: {}", boundary / 2 + 1, failure.message);
    failure
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// Runs a test in a laboratory of its own.
#[doc(hidden)]
pub fn lab_test<F: Future>(test: impl FnOnce(Lab) -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(async { test(Lab::new()).await }),
        Err(error) => panic!("the laboratory's runtime cannot be set up: {error}"),
    }
}
