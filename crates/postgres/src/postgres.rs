//! The store.

use std::{any::Any, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{broadcast, mpsc, oneshot},
    time::{Instant, sleep, timeout},
};
use uuid::Uuid;
use windlass_core::{NodeId, RunId, Time};
use windlass_store::{
    Aged, AgedRun, Along, Answer, Backlog, Cell, Claim, Claimed, Count, Death, DefinitionId, DefinitionRow,
    Discard, End, Fate, Heartbeat, Hint, InboxRow, Joined, LogLine, Looked, NewNode, News, NodeRow, Page,
    Pulse, Query, QueueChange, QueueChanged, QueueRow, Refusal, RunImage, SpreadClaim, SpreadClaimed,
    SpreadRow, StepRow, Store, StoreError, Swapped, Swept, Tally, Unit, Versions, Written,
};

use crate::{
    Isolation, OpenError, PostgresOptions, Transaction, cell, claim, column,
    commit::{self, Bond},
    definition, discard,
    error::Fault,
    figures, find,
    frontier::Frontier,
    held::{Facts, Held, UnderWay},
    image,
    link::Link,
    location::Location,
    log_line, migration, node,
    pool::{Lent, Pool},
    queue,
    session::channel,
    settle, spread,
    unsaid::Unsaid,
};

/// Without optimization, the steps of a commit that looks at other runs first need more than the two megabytes that threads
/// usually get. What is not used is never taken from the system.
const STACK: usize = 8 << 20;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// What fails within this has not waited for anything.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A store on a PostgreSQL database.
///
/// It may be opened by as many processes as there are, and more than once by one process. It has a thread of its own,
/// on which its connections live. Dropping it finishes what was asked.
pub struct Postgres {
    shared: Arc<Shared>,
    runtime: Handle,
    /// Everything that is under way has one; the thread ends when all are gone.
    alive: mpsc::Sender<()>,
}

pub(crate) struct Shared {
    pub(crate) place: String,
    schema: String,
    pub(crate) pool: Arc<Pool>,
    /// The connections for the transactions of tasks.
    tasks: Arc<Pool>,
    held: Mutex<Held>,
    frontier: Mutex<Frontier>,
    declared: queue::Declared,
    hints: broadcast::Sender<Hint>,
    unsaid: Arc<Unsaid>,
}

impl Shared {
    /// The tenure of the run that a transaction is for, if it is held beyond doubt.
    pub(crate) fn tenure(&self, along: &Along) -> Option<i64> {
        self.held.lock().known((along.run, along.claim), Some(along.node)).map(|facts| facts.tenure.no)
    }
}

impl Postgres {
    /// Opens a database; makes the schema when it is not there.
    ///
    /// `url` is `postgres://user:password@host:port/database`. Options may follow a `?`: all that [`PostgresOptions`]
    /// has, as `schema`, `connections`, `listen_url`, `pooler`, `wait`, `sslmode`, `sslrootcert`, `sslcert`, `sslkey`
    /// and `migrate=no`, and those of the driver (`connect_timeout`, `options`, …).
    ///
    /// # Errors
    ///
    /// Says which database cannot be used, why, and what to do.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        PostgresOptions::new().open(url).await
    }

    /// Everything that a schema of this name needs, as plain SQL, for those who migrate by hand.
    #[must_use]
    pub fn dump(schema: &str) -> String {
        migration::dump(schema)
    }

    pub(crate) async fn open_at(location: Location) -> Result<Self, OpenError> {
        let place = location.place.clone();
        let gone = |reason: String| OpenError::Unavailable { place: place.clone(), reason };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| gone(error.to_string()))?;
        let handle = runtime.handle().clone();
        let (alive, mut others) = mpsc::channel::<()>(1);
        std::thread::Builder::new()
            .name("windlass-postgres".into())
            .stack_size(STACK)
            .spawn(move || {
                // Nothing is ever sent: the channel closes when nobody asks any more, and all is answered.
                runtime.block_on(others.recv());
                runtime.shutdown_background();
            })
            .map_err(|error| gone(error.to_string()))?;

        let pool = Pool::new(&location);
        let (hints, unsaid) = (broadcast::Sender::new(256), Arc::<Unsaid>::default());
        let shared = Arc::new(Shared {
            place: location.place.clone(),
            schema: location.schema.clone(),
            pool: Arc::clone(&pool),
            tasks: Pool::for_tasks(&location),
            held: Mutex::default(),
            frontier: Mutex::default(),
            declared: queue::Declared::default(),
            hints: hints.clone(),
            unsaid: Arc::clone(&unsaid),
        });
        let store = Self { shared, runtime: handle, alive };
        let link = Link {
            connector: Arc::clone(location.listener.as_ref().unwrap_or(&location.connector)),
            channel: Arc::from(channel(&location.schema)),
            speaker: Arc::from(Uuid::now_v7().to_string()),
            place: Arc::from(location.place.as_str()),
            hints,
            unsaid,
        };
        let opened = store.spawn(async move {
            let session = first(&pool, &location).await?;
            migration::migrate(&session, &location).await?;
            session.give_back();
            Ok(())
        });
        opened.await.unwrap_or_else(|_| Err(gone("the thread that opens it stopped".into())))?;
        store.runtime.spawn(link.run());
        Ok(store)
    }

    /// Has something done on the store's own thread, whoever waits for the answer.
    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        spawn(&self.runtime, &self.alive, work)
    }

    /// Begins a transaction of a task, as soon as there is a connection for it.
    ///
    /// # Errors
    ///
    /// When the server is out of reach.
    #[doc(hidden)]
    pub async fn begin(&self, isolation: Isolation) -> Result<Transaction, StoreError> {
        let (shared, runtime, alive) = (Arc::clone(&self.shared), self.runtime.clone(), self.alive.clone());
        let begun = self.spawn(async move {
            let begun = async {
                let lent = shared.tasks.lend().await?;
                Transaction::begin(lent, isolation, Arc::clone(&shared), runtime, alive).await
            };
            begun.await.map_err(|fault: Fault| fault.tell(&shared.place))
        });
        begun.await.unwrap_or(Err(StoreError::Closed))
    }

    /// What became of a transaction of a task whose commit was not answered.
    ///
    /// # Errors
    ///
    /// When the server is out of reach, or the node was declared dead.
    #[doc(hidden)]
    pub async fn fate(&self, along: Along) -> Result<Fate, StoreError> {
        self.ask(async move |_, session| settle::fate(&session, &along).await).await
    }

    fn write(
        &self,
        node: Option<NodeId>,
        batch: Arc<Vec<Unit>>,
        bond: Bond,
    ) -> Answer<'_, Vec<Result<Written, Refusal>>> {
        self.ask(async move |shared, session| {
            let (answers, news) = commit::commit(&session, &shared.held, node, &batch, bond).await?;
            shared.declared.learn_from(&batch);
            // Whoever asked may want back what is shared with it.
            drop(batch);
            shared.unsaid.add(&news);
            Ok(answers)
        })
    }

    /// Has something looked up. A connection that was lost while nobody used it is not always known to be: then another
    /// one is asked.
    fn look_up<T: Send + 'static>(
        &self,
        ask: impl Fn(&Self) -> Answer<'static, T> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(async move {
            let asked = Instant::now();
            match ask(self).await {
                Err(StoreError::Unavailable(_)) if asked.elapsed() < AT_ONCE => ask(self).await,
                answer => answer,
            }
        })
    }

    /// Has something done on a connection.
    fn ask<T, F>(&self, work: impl FnOnce(Arc<Shared>, Arc<Lent>) -> F + Send + 'static) -> Answer<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send,
    {
        self.ask_within(PATIENCE, work)
    }

    /// The same for what may not take longer than this.
    fn ask_within<T, F>(
        &self,
        patience: Duration,
        work: impl FnOnce(Arc<Shared>, Arc<Lent>) -> F + Send + 'static,
    ) -> Answer<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send,
    {
        let shared = Arc::clone(&self.shared);
        let answer = self.spawn(async move {
            let work = async {
                let session = Arc::new(shared.pool.lend().await?);
                let done = work(Arc::clone(&shared), Arc::clone(&session)).await;
                let is_sound = done.as_ref().map_or_else(Fault::leaves_connection, |_| true);
                if !is_sound {
                    // Whatever ended this one may have ended the others too.
                    shared.pool.distrust();
                }
                if let Some(session) = Arc::into_inner(session).filter(|_| is_sound) {
                    session.give_back();
                }
                done
            };
            // A connection that is half open never answers. What became of the work is then not known, as with any
            // other connection that is lost, and asking again is harmless.
            let Ok(done) = timeout(patience, work).await else {
                // Whatever cut this one off may have cut off the others too.
                shared.pool.distrust();
                let seconds = patience.as_secs_f64();
                let why = format!("{}: the server has not answered for {seconds} s", shared.place);
                return Err(StoreError::Unavailable(why));
            };
            done.map_err(|fault: Fault| fault.tell(&shared.place))
        });
        Box::pin(async move { answer.await.unwrap_or(Err(StoreError::Closed)) })
    }
}

/// The first connection. A server that is not there yet is waited for.
async fn first(pool: &Arc<Pool>, location: &Location) -> Result<Lent, OpenError> {
    let (begun, mut tries, mut pause) = (Instant::now(), 0_u32, Duration::from_millis(50));
    loop {
        tries += 1;
        let fault = match timeout(PATIENCE, pool.lend()).await {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(fault)) => fault,
            Err(_) => Fault::Silent(PATIENCE),
        };
        let is_last = !fault.may_pass() || begun.elapsed() >= location.wait;
        let mut error = migration::failed(fault, location);
        if is_last {
            if let OpenError::Unavailable { reason, .. } = &mut error
                && tries > 1
            {
                reason.push_str(&format!(" (tried {tries} times in {} s)", begun.elapsed().as_secs()));
            }
            return Err(error);
        }
        if tries == 1 {
            tracing::warn!(%error, wait = ?location.wait, "waiting for the server");
        }
        sleep(pause.min(location.wait.saturating_sub(begun.elapsed()))).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// Has something done on a store's own thread, whoever waits for the answer.
pub(crate) fn spawn<T: Send + 'static>(
    runtime: &Handle,
    alive: &mpsc::Sender<()>,
    work: impl Future<Output = T> + Send + 'static,
) -> oneshot::Receiver<T> {
    let (reply, answer) = oneshot::channel();
    let alive = alive.clone();
    runtime.spawn(async move {
        // The asker may have stopped listening; the work is done all the same.
        drop(reply.send(work.await));
        drop(alive);
    });
    answer
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Postgres").field(&self.describe()).finish()
    }
}

impl Store for Postgres {
    fn describe(&self) -> String {
        format!("{} ({})", self.shared.place, self.shared.schema)
    }

    /// While the server writes one batch the next one is on its way, and two are written at once where there are
    /// processors for that. A key that another transaction has taken, and not yet committed, is waited for in a third.
    fn lanes(&self) -> usize {
        3
    }

    fn join(&self, new: NewNode) -> Answer<'_, Joined> {
        self.ask(async move |shared, session| {
            let mut joined = node::join(&session, &new).await;
            if let (Err(fault), Some(name)) = (&joined, &new.name)
                && fault.is_lock()
            {
                let ended = node::evict_namesakes(&session, &new).await?;
                tracing::warn!(
                    place = shared.place,
                    name,
                    connections = ended,
                    "a node of the same name is frozen in a transaction; its connections were ended"
                );
                joined = node::join(&session, &new).await;
            }
            if joined.is_ok() {
                shared.held.lock().joined(new.id, new.stale_after);
            }
            joined
        })
    }

    fn heartbeat(&self, node: NodeId, pulse: Pulse) -> Answer<'_, Heartbeat> {
        let patience = self.shared.held.lock().patience(node).map_or(PATIENCE, |lease| lease.min(PATIENCE));
        self.ask_within(patience, async move |shared, session| {
            let mut beat = node::heartbeat(&session, node, &pulse).await?;
            beat.strangers = shared.held.lock().strangers(node, beat.strangers);
            Ok(beat)
        })
    }

    fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.ask(async move |shared, session| {
            let left = node::leave(&session, node).await;
            if matches!(&left, Err(fault) if fault.is_lock()) {
                // Whoever leaves has nothing in hand any more: what still waits here would be refused anyway.
                let ended = node::evict(&session, node).await?;
                tracing::warn!(
                    place = shared.place, %node, connections = ended,
                    "a transaction of a node that leaves does not end; its connections were ended"
                );
                node::leave(&session, node).await?;
            } else {
                left?;
            }
            shared.held.lock().gone(node);
            shared.unsaid.add(&News { tasks: true, ..News::of_runs() });
            Ok(())
        })
    }

    fn declare_dead(&self, judge: NodeId, condemned: NodeId, why: Death) -> Answer<'_, bool> {
        self.ask(async move |shared, session| {
            let mut declared = node::declare_dead(&session, judge, condemned, why).await;
            if matches!(&declared, Err(fault) if fault.is_lock()) {
                let ended = node::evict(&session, condemned).await?;
                tracing::warn!(
                    place = shared.place, node = %condemned, connections = ended,
                    "a node that may be dead is frozen in a transaction; its connections were ended"
                );
                declared = node::declare_dead(&session, judge, condemned, why).await;
            }
            declared
        })
    }

    fn sweep(&self, judge: NodeId, limit: usize) -> Answer<'_, Swept> {
        self.ask(async move |shared, session| {
            let swept = node::sweep(&session, judge, limit).await?;
            if swept.released + swept.tasks > 0 {
                shared.unsaid.add(&News {
                    runs: swept.released > 0,
                    tasks: swept.tasks > 0,
                    ..News::default()
                });
            }
            Ok(swept)
        })
    }

    fn commit(
        &self,
        node: Option<NodeId>,
        batch: Arc<Vec<Unit>>,
    ) -> Answer<'_, Vec<Result<Written, Refusal>>> {
        self.write(node, batch, Bond::Together)
    }

    fn commit_apart(
        &self,
        node: Option<NodeId>,
        batch: Arc<Vec<Unit>>,
    ) -> Answer<'_, Vec<Result<Written, Refusal>>> {
        self.write(node, batch, Bond::Apart)
    }

    fn inbox(&self, node: NodeId, only: Option<Vec<RunId>>) -> Answer<'_, Vec<InboxRow>> {
        self.ask(async move |_, session| node::inbox(&session, node, only.as_deref()).await)
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        self.ask(async move |shared, session| {
            let _under_way = UnderWay::begin(&shared.held);
            let taken = claim::claim(&session, &shared.frontier, &shared.declared, &request).await?;
            let mut held = shared.held.lock();
            for (image, (row, tenure)) in taken.claimed.runs.iter().zip(taken.holds) {
                let facts = Facts {
                    workflow: Arc::clone(&image.run.workflow),
                    generation: image.standing.generation,
                    parent: image.run.parent.as_ref().map(|parent| parent.run),
                    tenure,
                    is_bare: image.saved.is_empty() && image.published.is_empty(),
                };
                held.add((image.run.id, request.claim), row, request.node, facts);
            }
            Ok(taken.claimed)
        })
    }

    fn look(&self, request: Claim) -> Answer<'_, Looked> {
        self.ask(async move |shared, session| claim::look(&session, &shared.declared, &request).await)
    }

    fn change_queue(&self, queue: Arc<str>, change: QueueChange) -> Answer<'_, QueueChanged> {
        self.ask(async move |shared, session| {
            let changed = queue::change(&session, &queue, change).await?;
            shared.declared.learn(vec![queue.to_string()]);
            if changed != QueueChanged::Unchanged {
                shared.unsaid.add(&News { tasks: true, ..News::of_runs() });
            }
            Ok(changed)
        })
    }

    fn queues(&self, only: Option<Arc<str>>) -> Answer<'_, Vec<QueueRow>> {
        self.look_up(move |store| {
            let only = only.clone();
            store.ask(async move |_, session| queue::all(&session, only.as_deref()).await)
        })
    }

    fn claim_tasks(&self, request: SpreadClaim) -> Answer<'_, SpreadClaimed> {
        self.ask(async move |_, session| spread::claim(&session, &request).await)
    }

    fn held_tasks(&self, node: NodeId) -> Answer<'_, Vec<SpreadRow>> {
        self.ask(async move |_, session| spread::of_node(&session, node).await)
    }

    fn unblock(&self, node: NodeId, workflows: Vec<(Arc<str>, DefinitionId)>) -> Answer<'_, usize> {
        self.ask(async move |shared, session| {
            let freed = claim::unblock(&session, node, &workflows).await?;
            if freed > 0 {
                shared.unsaid.add(&News::of_runs());
            }
            Ok(freed)
        })
    }

    fn define(&self, new: DefinitionRow) -> Answer<'_, DefinitionId> {
        self.ask(async move |_, session| definition::define(&session, &new).await)
    }

    fn definition(&self, id: DefinitionId) -> Answer<'_, Option<DefinitionRow>> {
        self.look_up(move |store| store.ask(async move |_, session| definition::read(&session, id).await))
    }

    fn definitions(&self, which: Versions) -> Answer<'_, Vec<(DefinitionId, DefinitionRow)>> {
        self.look_up(move |store| {
            let which = which.clone();
            store.ask(async move |_, session| definition::list(&session, &which).await)
        })
    }

    fn load(&self, run: RunId) -> Answer<'_, Option<RunImage>> {
        self.look_up(move |store| {
            store.ask(async move |_, session| {
                let images = session.look(async || image::load(&session, &[column::run(run)]).await).await?;
                Ok(images.into_iter().next())
            })
        })
    }

    fn ends(&self, runs: Vec<RunId>) -> Answer<'_, Vec<(RunId, End)>> {
        self.look_up(move |store| {
            let runs = runs.clone();
            store.ask(async move |_, session| image::ends(&session, &runs).await)
        })
    }

    fn by_key(&self, workflow: Arc<str>, key: String) -> Answer<'_, Option<RunId>> {
        self.look_up(move |store| {
            let workflow = workflow.clone();
            let key = key.clone();
            store.ask(async move |_, session| find::by_key(&session, &workflow, &key).await)
        })
    }

    fn find(&self, query: Query) -> Answer<'_, Page> {
        self.look_up(move |store| {
            let query = query.clone();
            store.ask(async move |shared, session| find::find(&session, &shared.schema, &query).await)
        })
    }

    fn count(&self, query: Query, look: usize) -> Answer<'_, Vec<Count>> {
        self.look_up(move |store| {
            let query = query.clone();
            store.ask(async move |shared, session| {
                figures::count(&session, &shared.schema, &query, look).await
            })
        })
    }

    fn backlog(&self, look: usize) -> Answer<'_, Backlog> {
        self.look_up(move |store| store.ask(async move |_, session| figures::backlog(&session, look).await))
    }

    fn outlines(&self, runs: Vec<RunId>, limit: usize) -> Answer<'_, Vec<(RunId, Vec<StepRow>)>> {
        self.look_up(move |store| {
            let runs = runs.clone();
            store.ask(async move |_, session| {
                session.look(async || figures::outlines(&session, &runs, limit).await).await
            })
        })
    }

    fn tally(&self, add: Vec<Tally>) -> Answer<'_, ()> {
        self.ask(async move |_, session| figures::tally(&session, &add).await)
    }

    fn tallies(&self, since: Time) -> Answer<'_, Vec<Tally>> {
        self.look_up(move |store| store.ask(async move |_, session| figures::tallies(&session, since).await))
    }

    fn add_log(&self, lines: Vec<LogLine>) -> Answer<'_, ()> {
        self.ask(async move |_, session| log_line::add(&session, &lines).await)
    }

    fn log(&self, run: RunId) -> Answer<'_, Vec<LogLine>> {
        self.look_up(move |store| store.ask(async move |_, session| log_line::read(&session, run).await))
    }

    fn aged(&self, request: Aged) -> Answer<'_, Vec<AgedRun>> {
        self.ask(async move |_, session| discard::aged(&session, &request).await)
    }

    fn discard(&self, request: Discard) -> Answer<'_, Vec<Result<(), Refusal>>> {
        self.ask(async move |_, session| discard::discard(&session, &request).await)
    }

    fn cell(&self, name: Arc<str>) -> Answer<'_, Option<Cell>> {
        self.look_up(move |store| {
            let name = name.clone();
            store.ask(async move |_, session| cell::read(&session, &name).await)
        })
    }

    fn swap_cell(
        &self,
        node: Option<NodeId>,
        name: Arc<str>,
        version: u64,
        body: Bytes,
    ) -> Answer<'_, Swapped> {
        self.ask(async move |_, session| cell::swap(&session, node, &name, version, &body).await)
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeRow>> {
        self.look_up(move |store| store.ask(async move |_, session| node::all(&session).await))
    }

    fn itself(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.shared.hints.subscribe()
    }
}
