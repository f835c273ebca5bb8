//! The code of a task, with its types forgotten.

use std::{
    any::{TypeId, type_name},
    fmt,
    sync::Arc,
};

use windlass_core::{Failure, Retry};

use super::{
    Body, BoxFuture, Call,
    parts::{RetryParts, join_conditions},
    transaction::Kind,
};

/// A function that says whether a failure is worth another attempt.
#[doc(hidden)]
pub type Predicate = Arc<dyn Fn(&Failure) -> bool + Send + Sync>;

/// The code of a task.
#[doc(hidden)]
#[derive(Clone)]
pub struct TaskCode {
    /// The body.
    pub run: Code,
    /// The resources that it takes.
    pub wants: Vec<Want>,
    /// Which failures are worth another attempt, where the author's own function decides.
    pub predicate: Option<Predicate>,
    /// How it is undone.
    pub undo: Option<Arc<UndoCode>>,
}

/// How a task is undone.
#[doc(hidden)]
#[derive(Debug)]
pub struct UndoCode {
    /// What happens after a failed attempt.
    pub retry: Retry,
    /// What it does. Its only dependency is the task that it undoes.
    pub code: TaskCode,
}

/// The body of a task.
#[doc(hidden)]
#[derive(Clone)]
pub enum Code {
    /// Runs on the runtime.
    Async(Arc<dyn Fn(Call) -> BoxFuture + Send + Sync>),
    /// Runs on the blocking pool.
    Blocking(Arc<dyn Fn(Call) -> Body + Send + Sync>),
    /// Runs on the runtime, in a transaction that also writes its record.
    #[cfg(feature = "postgres")]
    Postgres(windlass_postgres::Isolation, OnPostgres),
    /// Runs on the thread that writes, in the transaction that also writes its record.
    #[cfg(feature = "sqlite")]
    Sqlite(OnSqlite),
}

/// A body with a transaction on PostgreSQL.
#[cfg(feature = "postgres")]
#[doc(hidden)]
pub type OnPostgres = Arc<dyn Fn(Call, Arc<windlass_postgres::Transaction>) -> BoxFuture + Send + Sync>;

/// A body with a transaction on SQLite.
#[cfg(feature = "sqlite")]
#[doc(hidden)]
pub type OnSqlite = Arc<dyn Fn(Call, &windlass_sqlite::Transaction<'_>) -> Body + Send + Sync>;

impl Code {
    /// The store that the body needs, if its record is written in a transaction of its own.
    pub(crate) const fn transaction(&self) -> Option<Kind> {
        match self {
            Self::Async(_) | Self::Blocking(_) => None,
            #[cfg(feature = "postgres")]
            Self::Postgres(..) => Some(Kind::Postgres),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Some(Kind::Sqlite),
        }
    }
}

/// A resource that a task takes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Want {
    /// Which type.
    pub type_id: TypeId,
    /// What people call it.
    pub type_name: &'static str,
}

impl Want {
    /// A resource of this type.
    #[must_use]
    pub fn of<T: ?Sized + 'static>() -> Self {
        Self { type_id: TypeId::of::<T>(), type_name: type_name::<T>() }
    }
}

impl TaskCode {
    /// Code that runs on the runtime.
    #[must_use]
    pub fn asynchronous(run: impl Fn(Call) -> BoxFuture + Send + Sync + 'static) -> Self {
        Self::of(Code::Async(Arc::new(run)))
    }

    /// Code that runs on the blocking pool.
    #[must_use]
    pub fn blocking(run: impl Fn(Call) -> Body + Send + Sync + 'static) -> Self {
        Self::of(Code::Blocking(Arc::new(run)))
    }

    pub(crate) const fn of(run: Code) -> Self {
        Self { run, wants: Vec::new(), predicate: None, undo: None }
    }

    /// The same code, whose transaction sees so much of others.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn isolated(mut self, isolation: windlass_postgres::Isolation) -> Self {
        if let Code::Postgres(level, _) = &mut self.run {
            *level = isolation;
        }
        self
    }

    /// The same code, which also takes this resource.
    #[must_use]
    pub fn wanting<T: Send + Sync + 'static>(mut self) -> Self {
        self.wants.push(Want::of::<T>());
        self
    }

    /// The same code, which is undone by that.
    #[must_use]
    pub fn undone_by(mut self, retry: &RetryParts, code: Self) -> Self {
        self.undone_with(retry.policy(), code);
        self
    }

    pub(crate) fn undone_with(&mut self, retry: Retry, code: Self) {
        self.wants.extend(&code.wants);
        let code = join_conditions(code, &retry);
        self.undo = Some(Arc::new(UndoCode { retry, code }));
    }

    /// The same code, where this function finds failures worth another attempt. Several are joined by *any*.
    #[must_use]
    pub fn retried_when(mut self, predicate: impl Fn(&Failure) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some(match self.predicate.take() {
            None => Arc::new(predicate),
            Some(other) => Arc::new(move |failure| other(failure) || predicate(failure)),
        });
        self
    }
}

impl fmt::Debug for TaskCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = match self.run {
            Code::Async(_) => "async",
            Code::Blocking(_) => "blocking",
            #[cfg(feature = "postgres")]
            Code::Postgres(..) => "in a transaction on PostgreSQL",
            #[cfg(feature = "sqlite")]
            Code::Sqlite(_) => "in a transaction on SQLite",
        };
        f.debug_struct("TaskCode").field("run", &run).field("wants", &self.wants).finish_non_exhaustive()
    }
}
