//! How a database is opened.

use std::{fmt, sync::Arc};

use windlass_core::Time;
use windlass_store::CommitMoment;

use crate::{OpenError, Sqlite, Synchronous, clock::Clock};

type Hook = Arc<dyn Fn(CommitMoment) + Send + Sync>;

/// How to open a database.
///
/// ```no_run
/// # async fn example() -> Result<(), windlass_sqlite::OpenError> {
/// use windlass_sqlite::{SqliteOptions, Synchronous};
///
/// let store = SqliteOptions::new().synchronous(Synchronous::Normal).open("app.db").await?;
/// # drop(store);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct SqliteOptions {
    pub(crate) synchronous: Option<Synchronous>,
    pub(crate) readers: Option<usize>,
    pub(crate) max_pages: Option<u32>,
    pub(crate) clock: Option<Clock>,
    pub(crate) hook: Option<Hook>,
}

impl SqliteOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// When a commit counts as written. Default: [`Synchronous::Full`]. Wins over `?synchronous=` in the URL.
    #[must_use]
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = Some(synchronous);
        self
    }

    /// How many threads read, each with a connection of its own. Default: 2; at least one. An in-memory database
    /// is read by the thread that writes it.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = Some(readers.max(1));
        self
    }

    /// How large the file may grow, in pages of 4 KiB. Default: as large as the disk allows. A commit that needs
    /// more is refused whole, as if the disk were full.
    #[must_use]
    pub fn max_pages(mut self, pages: u32) -> Self {
        self.max_pages = Some(pages);
        self
    }

    /// Takes the time from `clock` in place of the machine, for tests. The store never lets time go backwards.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        self.clock = Some(Clock::new(Arc::new(clock)));
        self
    }

    /// Calls `hook` on the writing thread just before and just after every commit, for crash tests. Transactions
    /// are numbered from 1 since the opening.
    #[must_use]
    pub fn on_commit(mut self, hook: impl Fn(CommitMoment) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Opens the database; makes it when it is not there. See [`Sqlite::open`] for the forms of `url`.
    ///
    /// # Errors
    ///
    /// Says which file cannot be used, why, and what to do.
    pub async fn open(self, url: &str) -> Result<Sqlite, OpenError> {
        Sqlite::open_with(url, self).await
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("synchronous", &self.synchronous)
            .field("readers", &self.readers)
            .field("max_pages", &self.max_pages)
            .field("clock", &self.clock)
            .field("hook", &self.hook.is_some())
            .finish()
    }
}
