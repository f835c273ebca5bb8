//! The thread that writes.

use std::{
    collections::{HashMap, HashSet},
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::broadcast;
use windlass_core::NodeId;
use windlass_store::{CommitMoment, Hint, StoreError};

use crate::{
    book::Book,
    clock::Clock,
    error::{Fault, Uncommitted, explain},
    held::Mirror,
    job::Job,
    locks::Locks,
    log::Log,
    open::{BUSY, CHECKPOINT_PAGES, VERSION},
    sheets::{Starts, is_repeat},
};

/// How many requests share a transaction at most.
const TOGETHER: usize = 64;
/// How often an idle writer looks for the commits of others while others are there.
const WATCHFUL: Duration = Duration::from_millis(3);
/// The same just after somebody has committed: an answer often follows, and somebody may wait for it.
const KEEN: Duration = Duration::from_micros(500);
/// For how long it does so.
const AFTER_NEWS: Duration = Duration::from_millis(50);
/// How often it looks while nobody else is there.
const ALONE: Duration = Duration::from_millis(250);

/// Moves nothing, and answers how many pages there are in the log.
const PAGES: &str = "PRAGMA wal_checkpoint(NOOP)";

/// Transactions that take longer than this are not for the thread of a caller: what is won by not waking another is
/// little beside it.
const QUICK: Duration = Duration::from_micros(500);
/// How many pages the transactions on the threads of callers may add to the log before somebody asks how long it is: that
/// takes a tenth of such a transaction.
const FEW_PAGES: i32 = 128;
/// As many as one of them adds, and one for each so many bytes that it carries.
const ITS_PAGES: i32 = 8;
const PAGE: usize = 4096;

/// What is done together.
#[derive(Clone, Copy)]
enum Scope {
    Transaction,
    /// One statement is a transaction by itself: an idle process need not say so.
    Statement,
}

/// Owns the connection that writes, and does whole transactions on it.
///
/// Its thread takes whatever requests are waiting, does them one after the other in one transaction, and answers them
/// when the transaction is on disk. A request that fails takes nobody with it: the others are done again. While that
/// thread has nothing to do, others may do a quick transaction on their own.
pub(crate) struct Desk {
    pub(crate) book: Book,
    pub(crate) clock: Clock,
    /// What is known about the runs of the nodes that act through this handle.
    pub(crate) mirrors: HashMap<NodeId, Mirror>,
    /// The nodes that act through this handle, also those of which nothing is known just now.
    pub(crate) nodes: HashSet<NodeId>,
    /// Tells this handle from every other that has the file open.
    pub(crate) handle: i64,
    /// Nodes that are gone once the transaction is committed.
    pub(crate) let_go: Vec<NodeId>,
    pub(crate) file: String,
    pub(crate) locks: Option<Arc<Locks>>,
    pub(crate) peers: Arc<AtomicBool>,
    pub(crate) hints: broadcast::Sender<Hint>,
    pub(crate) hook: Option<Arc<dyn Fn(CommitMoment) + Send + Sync>>,
    /// Whether something happened that others on this very handle may wait for.
    pub(crate) stirred: bool,
    /// How starts are written in this transaction.
    pub(crate) starts: Starts,
    pub(crate) commits: u64,
    pub(crate) seen_version: i64,
    /// When this handle or another was last seen to commit.
    pub(crate) news: Instant,
    /// How long a transaction took lately.
    pub(crate) pace: Duration,
    /// How many pages callers may add to the log before somebody asks how long it is.
    pub(crate) unasked: i32,
    /// Set when the thread that writes is gone: whoever finds that is to find the whole store closed.
    pub(crate) is_abandoned: bool,
    /// `None` for a database in memory.
    pub(crate) log: Option<Log>,
}

impl Desk {
    /// Serves until nobody can ask any more.
    pub(crate) fn run(desk: &Mutex<Self>, requests: &Receiver<Box<dyn Job<Self>>>) {
        loop {
            let pause = desk.lock().pause();
            let request = match pause {
                Some(pause) => requests.recv_timeout(pause),
                None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match request {
                Ok(first) => {
                    let more = std::iter::from_fn(|| requests.try_recv().ok());
                    let jobs = std::iter::once(first).chain(more).take(TOGETHER).collect();
                    let mut desk = desk.lock();
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| desk.serve(jobs))) {
                        desk.is_abandoned = true;
                        drop(desk);
                        resume_unwind(panic);
                    }
                }
                Err(RecvTimeoutError::Timeout) => desk.lock().look_around(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Notes that something happened that others may wait for. The one node of a handle knows what it does;
    /// anybody else on the same handle is told.
    pub(crate) fn stir(&mut self, by: Option<NodeId>) {
        self.stirred |= by.is_none_or(|node| self.nodes.iter().any(|other| *other != node));
    }

    /// Takes the lock that proves the life of a node of this process.
    pub(crate) fn hold(&self, node: NodeId) -> Result<(), StoreError> {
        let held = self.locks.as_ref().map_or(Ok(()), |locks| locks.hold(node));
        held.map_err(|error| self.unavailable("a lock for this process could not be made", &error))
    }

    /// Whether it is proved that the process of a node is gone.
    pub(crate) fn is_gone(&self, node: NodeId) -> bool {
        let Some(locks) = &self.locks else { return false };
        locks.is_gone(node).unwrap_or_else(|error| {
            tracing::warn!(file = self.file, %node, %error, "the lock of another process cannot be read");
            false
        })
    }

    /// Does something in a transaction of its own if that is quick and needs no waiting. `None` when it is not, or
    /// when it fails: nothing was done then. It carries so many bytes.
    pub(crate) fn at_once<T>(
        &mut self,
        bytes: usize,
        mut work: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Option<T> {
        if self.is_abandoned || self.pace > QUICK {
            return None;
        }
        let locks = self.locks.clone();
        let turn = locks.as_ref().map(|locks| locks.turnstile.pass_at_once()).transpose().ok()?;
        if turn.as_ref().is_some_and(Option::is_none) || self.log_needs_work(bytes).unwrap_or(true) {
            return None;
        }
        let mut done = None;
        // Somebody with another program may have locked the database.
        self.book.conn.busy_timeout(Duration::ZERO).ok()?;
        let mut work = |desk: &mut Self| {
            done = match work(desk) {
                Ok(value) => Some(value),
                Err(Fault::Sql(error)) => return Err(error),
                Err(Fault::Refused(_)) => None,
            };
            Ok(())
        };
        // Whoever asked has nothing to do with a panic. If it comes again on the store's own thread, it ends that.
        let written = catch_unwind(AssertUnwindSafe(|| self.write(Scope::Transaction, &mut work)));
        let waits_again = self.book.conn.busy_timeout(BUSY);
        drop(turn);
        match written {
            Ok(Ok(())) if waits_again.is_ok() => {
                self.tidy();
                done
            }
            _ => {
                self.forget();
                None
            }
        }
    }

    /// Whether the next transaction, of so many bytes, makes room in the log or moves it to the database, which takes many
    /// times as long as the transaction itself.
    fn log_needs_work(&mut self, bytes: usize) -> rusqlite::Result<bool> {
        let Some(log) = &mut self.log else { return Ok(false) };
        if log.is_short() {
            return Ok(true);
        }
        let added = i32::try_from(bytes / PAGE).unwrap_or(FEW_PAGES) + ITS_PAGES;
        if self.unasked >= added {
            self.unasked -= added;
            return Ok(false);
        }
        let pages: i32 = self.book.conn.prepare_cached(PAGES)?.query_row([], |row| row.get(1))?;
        let is_long = pages > CHECKPOINT_PAGES - FEW_PAGES;
        self.unasked = if is_long { 0 } else { FEW_PAGES - added };
        Ok(is_long)
    }

    fn serve(&mut self, mut jobs: Vec<Box<dyn Job<Self>>>) {
        let fate = match &mut jobs[..] {
            [job] if job.has_shortcut() => self.do_shortly(job),
            jobs => self.do_together(jobs),
        };
        if fate.is_err() && jobs.len() > 1 {
            for job in jobs {
                self.serve(vec![job]);
            }
            return;
        }
        for job in jobs {
            job.answer(fate.clone());
        }
    }

    fn do_together(&mut self, jobs: &mut [Box<dyn Job<Self>>]) -> Result<(), Uncommitted> {
        self.transact(Scope::Transaction, |desk| jobs.iter_mut().try_for_each(|job| job.attempt(desk)))
    }

    fn do_shortly(&mut self, job: &mut Box<dyn Job<Self>>) -> Result<(), Uncommitted> {
        let mut is_done = false;
        self.transact(Scope::Statement, |desk| job.take_shortcut(desk).map(|done| is_done = done))?;
        if is_done { Ok(()) } else { self.do_together(std::slice::from_mut(job)) }
    }

    /// Does something in a transaction; leaves nothing of it when it cannot be done.
    fn transact(
        &mut self,
        scope: Scope,
        mut work: impl FnMut(&mut Self) -> rusqlite::Result<()>,
    ) -> Result<(), Uncommitted> {
        self.unasked = 0;
        let locks = self.locks.clone();
        let turn = locks.as_ref().map(|locks| locks.turnstile.pass()).transpose();
        let turn = turn.map_err(|error| {
            Uncommitted::Store(self.unavailable("the turn to write could not be taken", &error))
        })?;
        let mut done = self.write(scope, &mut work);
        if done.as_ref().is_err_and(is_repeat) {
            // It is rare that a start is sent again, so the others need not pay for it.
            self.forget();
            self.starts = Starts::OneByOne;
            done = self.write(scope, &mut work);
            self.starts = Starts::Together;
        }
        match done {
            Ok(()) => {
                drop(turn);
                self.tidy();
                Ok(())
            }
            Err(error) => {
                // The next in turn is not to find this transaction still open.
                self.forget();
                drop(turn);
                Err(explain(&error, &self.file))
            }
        }
    }

    fn write(
        &mut self,
        scope: Scope,
        work: &mut impl FnMut(&mut Self) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let began = Instant::now();
        let written = catch_unwind(AssertUnwindSafe(|| match scope {
            Scope::Transaction => self.write_all(work),
            Scope::Statement => self.write_one(work),
        }));
        let pace = (self.pace * 3 + began.elapsed()) / 4;
        let done = written.unwrap_or_else(|panic| {
            // An open transaction would keep everybody else from writing for as long as the store is there.
            self.forget();
            resume_unwind(panic)
        });
        // That it was slow counts even if it failed; that it failed quickly does not.
        self.pace = if done.is_ok() { pace } else { pace.max(self.pace) };
        self.news = Instant::now();
        done
    }

    fn write_all(
        &mut self,
        work: &mut impl FnMut(&mut Self) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        self.book.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.look_for_others()?;
        work(self)?;
        if let Some(log) = &mut self.log {
            log.make_room();
        }
        self.commits += 1;
        self.tell(CommitMoment::Before(self.commits));
        self.book.conn.prepare_cached("COMMIT")?.execute([])?;
        self.tell(CommitMoment::After(self.commits));
        Ok(())
    }

    /// There is no right to write before the statement, so whoever writes next makes room in the log.
    fn write_one(
        &mut self,
        work: &mut impl FnMut(&mut Self) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        self.look_for_others()?;
        self.commits += 1;
        self.tell(CommitMoment::Before(self.commits));
        work(self)?;
        self.tell(CommitMoment::After(self.commits));
        Ok(())
    }

    fn tell(&self, moment: CommitMoment) {
        if let Some(hook) = &self.hook {
            hook(moment);
        }
    }

    /// What is left to do when a transaction is committed.
    fn tidy(&mut self) {
        for node in std::mem::take(&mut self.let_go) {
            self.nodes.remove(&node);
            let Some(locks) = &self.locks else { continue };
            if let Err(error) = locks.let_go(node) {
                tracing::warn!(file = self.file, %node, %error, "the lock of a node that is gone was not removed");
            }
        }
        if std::mem::take(&mut self.stirred) {
            self.hint();
        }
    }

    /// What is left to do when a transaction failed: nothing that it wrote is true.
    fn forget(&mut self) {
        if !self.book.conn.is_autocommit()
            && let Err(error) = self.book.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(file = self.file, %error, "a failed transaction could not be rolled back");
        }
        self.mirrors.clear();
        self.book.names.forget();
        self.let_go.clear();
        self.stirred = false;
    }

    fn pause(&self) -> Option<Duration> {
        self.locks.as_ref()?;
        Some(pause(self.peers.load(Ordering::Relaxed), self.news.elapsed()))
    }

    fn look_around(&mut self) {
        if let Err(error) = self.look_for_others() {
            tracing::warn!(file = self.file, %error, "the commits of other processes cannot be seen");
        }
    }

    /// Tells whether somebody else has committed since the last look.
    fn look_for_others(&mut self) -> rusqlite::Result<()> {
        if self.locks.is_none() {
            return Ok(());
        }
        let version = self.book.conn.prepare_cached(VERSION)?.query_row([], |row| row.get(0))?;
        if version != self.seen_version {
            self.seen_version = version;
            self.news = Instant::now();
            self.peers.store(true, Ordering::Relaxed);
            self.hint();
        }
        Ok(())
    }

    /// Takes what is committed so far as known.
    pub(crate) fn learn_version(&mut self) -> rusqlite::Result<()> {
        self.seen_version = self.book.conn.prepare_cached(VERSION)?.query_row([], |row| row.get(0))?;
        Ok(())
    }

    fn hint(&self) {
        // Nobody may be listening.
        drop(self.hints.send(Hint::Changed));
    }

    fn unavailable(&self, what: &str, error: &io::Error) -> StoreError {
        StoreError::Unavailable(format!("{}: {what}: {error}", self.file))
    }
}

/// How long an idle writer waits before it looks for the commits of others.
fn pause(has_peers: bool, quiet_for: Duration) -> Duration {
    match has_peers {
        false => ALONE,
        true if quiet_for < AFTER_NEWS => KEEN,
        true => WATCHFUL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_often_just_after_news_and_seldom_when_nothing_happens() {
        assert_eq!(pause(true, Duration::ZERO), KEEN);
        assert_eq!(pause(true, AFTER_NEWS), WATCHFUL);
        assert_eq!(pause(false, Duration::ZERO), ALONE);
    }
}
