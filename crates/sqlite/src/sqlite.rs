//! The store.

use std::{
    any::Any,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::AtomicBool,
        mpsc::{Sender, channel},
    },
    thread::JoinHandle,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::{broadcast, oneshot};
use windlass_core::{NodeId, RunId, Time};
use windlass_store::{
    Aged, AgedRun, Answer, Backlog, Cell, Claim, Claimed, Count, Death, DefinitionId, DefinitionRow, Discard,
    End, Heartbeat, Hint, InboxRow, Joined, LogLine, Looked, NewNode, NodeRow, Page, Pulse, Query,
    QueueChange, QueueChanged, QueueRow, Refusal, RunImage, SpreadClaim, SpreadClaimed, SpreadRow, StepRow,
    Store, StoreError, Swapped, Swept, Tally, Unit, Versions, Written,
};

use crate::{
    Holder, OpenError, SqliteOptions, Transacted, Transaction,
    book::Book,
    cell, claim,
    clock::Clock,
    commit, definition,
    desk::Desk,
    discard,
    error::Fault,
    figures, find, image, inbox,
    job::{self, Asked, Job},
    key,
    location::{Location, Where},
    log::Log,
    log_line, node,
    open::{self, Setup},
    queue, readers,
    sheets::Starts,
    spread, transaction,
    watcher::{PATIENCE, Watcher},
};

const READERS: usize = 2;
/// What is larger than this, in bytes, takes longer to write than another thread takes to be woken.
const SMALL: usize = 64 << 10;

/// A store on an SQLite database.
///
/// It may be opened by several processes at once, and more than once by one process. Dropping it finishes what
/// was asked, and leaves its nodes without a proof of life: others take their runs over at once.
pub struct Sqlite {
    file: String,
    clock: Clock,
    hints: broadcast::Sender<Hint>,
    threads: RwLock<Option<Threads>>,
}

/// The ways to the threads, which end when these are dropped.
struct Threads {
    requests: Sender<Box<dyn Job<Desk>>>,
    desk: Arc<Mutex<Desk>>,
    /// `None` for a database in memory: only its writer can see it.
    readers: Option<Sender<Box<dyn Job<Book>>>>,
    /// All but the one that writes.
    handles: Vec<JoinHandle<()>>,
    writer: JoinHandle<()>,
    _watching: Option<Sender<()>>,
}

impl Sqlite {
    /// Opens a database; makes it when it is not there.
    ///
    /// `url` is `sqlite://path`, `sqlite:path`, a plain path, or `sqlite::memory:` for a database that is gone
    /// when the store is dropped. In a URL, `%20` stands for a space and so on, and options may follow a `?`:
    /// `synchronous=full` (the default) or `synchronous=normal`, see [`Synchronous`](crate::Synchronous); with `mode=rw`
    /// a file that is not there is an error.
    ///
    /// # Errors
    ///
    /// Says which file cannot be used, why, and what to do.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        Self::open_with(url, SqliteOptions::new()).await
    }

    pub(crate) async fn open_with(url: &str, options: SqliteOptions) -> Result<Self, OpenError> {
        let location = Location::parse(url)?;
        let (opened, open) = oneshot::channel();
        // Opening waits for locks and disks, which is not for the caller's thread.
        let opener = std::thread::Builder::new()
            .name("windlass-open".into())
            .spawn(move || drop(opened.send(Self::open_now(location, options))));
        let gone = |reason: String| OpenError::Unavailable { file: url.into(), reason };
        opener.map_err(|error| gone(error.to_string()))?;
        open.await.map_err(|_| gone("the thread that opens it stopped".into()))?
    }

    fn open_now(location: Location, options: SqliteOptions) -> Result<Self, OpenError> {
        let clock = options.clock.unwrap_or_else(Clock::system);
        let synchronous = options.synchronous.or(location.synchronous).unwrap_or_default();
        let setup = Setup { synchronous, max_pages: options.max_pages, makes: location.makes };
        let (hints, peers) = (broadcast::Sender::new(256), Arc::new(AtomicBool::new(false)));
        let mut handles = Vec::new();

        let (conn, log, locks, file, readers, watching) = match location.place {
            Where::Memory => {
                (open::open_memory(setup, &clock)?, None, None, "sqlite::memory:".to_owned(), None, None)
            }
            Where::File(path) => {
                let opened = open::open_file(&path, setup, &clock)?;
                let file = format!("sqlite://{}", opened.path.display());
                let locks = Arc::new(opened.locks);
                let books = (0..options.readers.unwrap_or(READERS))
                    .map(|_| open::open_reader(&opened.path).map(Book::new))
                    .collect::<Result<_, _>>()?;
                let (readers, threads) = readers::spawn(books, &file);
                handles.extend(threads);
                let watcher = Watcher {
                    file: file.clone(),
                    locks: Arc::clone(&locks),
                    peers: Arc::clone(&peers),
                    hints: hints.clone(),
                    patience: PATIENCE,
                };
                let (watching, closed) = channel();
                handles.push(spawn("windlass-watch", move || watcher.run(&closed)));
                let log = Log::of(&opened.path);
                (opened.conn, log, Some(locks), file, Some(readers), Some(watching))
            }
        };

        let mut desk = Desk {
            book: Book::new(conn),
            clock: clock.clone(),
            mirrors: std::collections::HashMap::new(),
            nodes: std::collections::HashSet::new(),
            // Two handles that take the same number are one chance in 2^63.
            handle: RandomState::new().hash_one(std::process::id()).cast_signed() | 1,
            let_go: Vec::new(),
            file: file.clone(),
            locks,
            peers,
            hints: hints.clone(),
            hook: options.hook,
            stirred: false,
            starts: Starts::Together,
            commits: 0,
            seen_version: 0,
            news: std::time::Instant::now(),
            log,
            pace: std::time::Duration::ZERO,
            unasked: 0,
            is_abandoned: false,
        };
        desk.learn_version().map_err(|error| open::failed(std::path::Path::new(&file), &error))?;
        let desk = Arc::new(Mutex::new(desk));
        let (sender, requests) = channel();
        let written = Arc::clone(&desk);
        let writer = spawn("windlass-write", move || Desk::run(&written, &requests));
        let threads = Threads { requests: sender, desk, readers, handles, writer, _watching: watching };
        Ok(Self { file, clock, hints, threads: RwLock::new(Some(threads)) })
    }

    /// Closes the database when everything that was asked is done. Later calls answer that the store is closed.
    /// Closing twice is harmless.
    pub async fn close(&self) {
        let Some(threads) = self.threads.write().take() else { return };
        let (closed, wait) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            let Threads { requests, desk, readers, handles, writer, _watching } = threads;
            drop((readers, _watching));
            for handle in handles {
                join(handle);
            }
            // Whoever closes last moves the log to the database and removes it. Of several who close at once, each may
            // find the others still there, and then nobody does.
            drop((desk, requests));
            join(writer);
            drop(closed);
        });
        // Nothing is ever sent: the other end goes away when all is closed.
        let _: Result<(), _> = wait.await;
    }

    /// What the connection that writes does when it commits, as SQLite numbers it: 1 is normal, 2 is full.
    ///
    /// # Errors
    ///
    /// When the store is closed.
    #[doc(hidden)]
    pub async fn synchronous(&self) -> Result<i64, StoreError> {
        self.write(|desk| Ok(desk.book.conn.pragma_query_value(None, "synchronous", |row| row.get(0))?)).await
    }

    /// Has the writer do a task's own work, and record it in the same transaction. It may be done more than once: what
    /// was done before is undone then. Dropping the answer withdraws nothing.
    #[doc(hidden)]
    pub fn transact<E: Send + 'static>(
        &self,
        holder: Holder,
        mut work: impl FnMut(&Transaction<'_>) -> Result<StepRow, E> + Send + 'static,
    ) -> Answer<'static, Transacted<E>> {
        let work = move |desk: &mut Desk| transaction::transact(desk, holder, &mut work);
        self.send_to_writer(job::ask_for_application(work, Transacted::Refused))
    }

    /// Has the writer do something in a transaction.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Desk) -> Result<T, Fault> + Send + 'static,
    ) -> Answer<'static, T> {
        self.send_to_writer(job::ask(work))
    }

    fn send_to_writer<T: Send + 'static>(&self, asked: Asked<Desk, T>) -> Answer<'static, T> {
        send(self.threads.read().as_ref().map(|threads| &threads.requests), asked)
    }

    /// Has a reader look something up.
    fn read<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut Book) -> Result<T, Fault> + Send + 'static,
    ) -> Answer<'static, T> {
        match self.readers() {
            Some(readers) => send(Some(&readers), job::ask(work)),
            None => self.write(move |desk| work(&mut desk.book)),
        }
    }

    /// The same with a single statement.
    fn read_one<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut Book) -> Result<T, Fault> + Clone + Send + 'static,
    ) -> Answer<'static, T> {
        match self.readers() {
            Some(readers) => {
                let mut alone = work.clone();
                send(Some(&readers), job::ask_shortly(move |book| alone(book).map(Some), work))
            }
            None => self.write(move |desk| work(&mut desk.book)),
        }
    }

    fn readers(&self) -> Option<Sender<Box<dyn Job<Book>>>> {
        self.threads.read().as_ref().and_then(|threads| threads.readers.clone())
    }
}

/// Sends work to a thread, if there still is one.
fn send<D, T: Send + 'static>(
    thread: Option<&Sender<Box<dyn Job<D>>>>,
    (job, answer): job::Asked<D, T>,
) -> Answer<'static, T> {
    let sent = thread.is_some_and(|thread| thread.send(job).is_ok());
    Box::pin(
        async move { if sent { answer.await.unwrap_or(Err(StoreError::Closed)) } else { readers::closed() } },
    )
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(run);
    thread.expect("the operating system has room for a thread")
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the store had panicked");
    }
}

impl std::fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sqlite").field(&self.file).finish()
    }
}

impl Store for Sqlite {
    fn describe(&self) -> String {
        self.file.clone()
    }

    fn join(&self, new: NewNode) -> Answer<'_, Joined> {
        self.write(move |desk| node::join(desk, &new))
    }

    fn heartbeat(&self, node: NodeId, pulse: Pulse) -> Answer<'_, Heartbeat> {
        let again = pulse.clone();
        let asked = job::ask_shortly(
            move |desk| node::beat_alone(desk, node, &pulse),
            move |desk| node::heartbeat(desk, node, &again),
        );
        send(self.threads.read().as_ref().map(|threads| &threads.requests), asked)
    }

    fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.write(move |desk| node::leave(desk, node))
    }

    fn declare_dead(&self, judge: NodeId, condemned: NodeId, why: Death) -> Answer<'_, bool> {
        self.write(move |desk| node::declare_dead(desk, judge, condemned, why))
    }

    fn sweep(&self, judge: NodeId, limit: usize) -> Answer<'_, Swept> {
        self.write(move |desk| node::sweep(desk, judge, limit))
    }

    fn commit_at_once(&self, node: Option<NodeId>, batch: &[Unit]) -> Option<Vec<Result<Written, Refusal>>> {
        let threads = self.threads.read();
        let threads = threads.as_ref()?;
        let bytes = commit::payload(batch);
        if bytes > SMALL {
            return None;
        }
        let mut desk = threads.desk.try_lock()?;
        let done = desk.at_once(bytes, |desk| commit::commit(desk, node, batch));
        // Whoever waits for it has waited for this.
        MutexGuard::unlock_fair(desk);
        done
    }

    fn commit(
        &self,
        node: Option<NodeId>,
        batch: Arc<Vec<Unit>>,
    ) -> Answer<'_, Vec<Result<Written, Refusal>>> {
        self.write(move |desk| commit::commit(desk, node, &batch))
    }

    fn inbox(&self, node: NodeId, only: Option<Vec<RunId>>) -> Answer<'_, Vec<InboxRow>> {
        self.read(move |book| Ok(inbox::of_node(&book.conn, node, only.as_deref())?))
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        self.write(move |desk| claim::claim(desk, &request))
    }

    fn look(&self, request: Claim) -> Answer<'_, Looked> {
        let clock = self.clock.clone();
        let (asked, soon) = (request.clone(), clock.clone());
        // Without declared queues it is a single statement.
        let shortcut = move |book: &mut Book| {
            let looked = claim::look_plainly(book, soon.now(), &asked)?;
            Ok((!looked.limited).then_some(looked))
        };
        let work = move |book: &mut Book| claim::look(book, clock.now(), &request);
        match self.readers() {
            Some(readers) => send(Some(&readers), job::ask_shortly(shortcut, work)),
            None => self.write(move |desk| work(&mut desk.book)),
        }
    }

    fn change_queue(&self, queue: Arc<str>, change: QueueChange) -> Answer<'_, QueueChanged> {
        self.write(move |desk| queue::change(desk, &queue, change))
    }

    fn queues(&self, only: Option<Arc<str>>) -> Answer<'_, Vec<QueueRow>> {
        self.read(move |book| queue::all(book, only.as_ref()))
    }

    fn claim_tasks(&self, request: SpreadClaim) -> Answer<'_, SpreadClaimed> {
        // Mostly there is nothing, and then nobody has to wait for the right to write.
        let (clock, asked) = (self.clock.clone(), request.clone());
        let looked = self.read_one(move |book| spread::is_any_for(book, &asked));
        Box::pin(async move {
            if looked.await? {
                return self.write(move |desk| spread::claim(desk, &request)).await;
            }
            Ok(SpreadClaimed::nothing(clock.now()))
        })
    }

    fn held_tasks(&self, node: NodeId) -> Answer<'_, Vec<SpreadRow>> {
        self.read(move |book| spread::of_node(book, node))
    }

    fn unblock(&self, node: NodeId, workflows: Vec<(Arc<str>, DefinitionId)>) -> Answer<'_, usize> {
        self.write(move |desk| claim::unblock(desk, node, &workflows))
    }

    fn define(&self, new: DefinitionRow) -> Answer<'_, DefinitionId> {
        self.write(move |desk| definition::define(&mut desk.book, &new))
    }

    fn definition(&self, id: DefinitionId) -> Answer<'_, Option<DefinitionRow>> {
        self.read(move |book| definition::read(book, id))
    }

    fn definitions(&self, which: Versions) -> Answer<'_, Vec<(DefinitionId, DefinitionRow)>> {
        self.read(move |book| definition::list(book, &which))
    }

    fn load(&self, run: RunId) -> Answer<'_, Option<RunImage>> {
        self.read(move |book| image::load(book, run))
    }

    fn ends(&self, runs: Vec<RunId>) -> Answer<'_, Vec<(RunId, End)>> {
        self.read(move |book| image::ends(book, &runs))
    }

    fn by_key(&self, workflow: Arc<str>, key: String) -> Answer<'_, Option<RunId>> {
        let clock = self.clock.clone();
        self.read(move |book| {
            let Some(workflow) = book.names.find(&book.conn, &workflow)? else { return Ok(None) };
            Ok(key::read(&book.conn, workflow, &key, clock.now())?.map(|(run, ..)| run))
        })
    }

    fn find(&self, query: Query) -> Answer<'_, Page> {
        self.read(move |book| find::find(book, &query))
    }

    fn count(&self, query: Query, look: usize) -> Answer<'_, Vec<Count>> {
        self.read(move |book| figures::count(book, query.clone(), look))
    }

    fn backlog(&self, look: usize) -> Answer<'_, Backlog> {
        self.read(move |book| figures::backlog(book, look))
    }

    fn outlines(&self, runs: Vec<RunId>, limit: usize) -> Answer<'_, Vec<(RunId, Vec<StepRow>)>> {
        self.read(move |book| figures::outlines(book, &runs, limit))
    }

    fn tally(&self, add: Vec<Tally>) -> Answer<'_, ()> {
        self.write(move |desk| figures::tally(desk, &add))
    }

    fn tallies(&self, since: Time) -> Answer<'_, Vec<Tally>> {
        self.read(move |book| figures::tallies(book, since))
    }

    fn add_log(&self, lines: Vec<LogLine>) -> Answer<'_, ()> {
        self.write(move |desk| Ok(log_line::add(&desk.book.conn, &lines)?))
    }

    fn log(&self, run: RunId) -> Answer<'_, Vec<LogLine>> {
        self.read(move |book| Ok(log_line::read(&book.conn, run)?))
    }

    fn aged(&self, request: Aged) -> Answer<'_, Vec<AgedRun>> {
        self.read(move |book| discard::aged(book, &request))
    }

    fn discard(&self, request: Discard) -> Answer<'_, Vec<Result<(), Refusal>>> {
        self.write(move |desk| discard::discard(desk, &request))
    }

    fn cell(&self, name: Arc<str>) -> Answer<'_, Option<Cell>> {
        self.read(move |book| Ok(cell::read(&book.conn, &name)?))
    }

    fn swap_cell(
        &self,
        node: Option<NodeId>,
        name: Arc<str>,
        version: u64,
        body: Bytes,
    ) -> Answer<'_, Swapped> {
        self.write(move |desk| cell::swap(desk, node, &name, version, &body))
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeRow>> {
        self.read(|book| Ok(node::all(&book.conn)?))
    }

    fn itself(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.hints.subscribe()
    }
}
