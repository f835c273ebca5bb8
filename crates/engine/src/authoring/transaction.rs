//! Tasks whose record is written in a transaction of their own.
#![cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    allow(unused_variables, reason = "without a database there are no transactions")
)]

use std::sync::Arc;

use windlass_core::Durability;
use windlass_store::Store;

use super::{AnyWorkflow, BoxFuture, Call, TaskCode};

/// A store that transactions are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    #[cfg(feature = "postgres")]
    Postgres,
    #[cfg(feature = "sqlite")]
    Sqlite,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => "PostgreSQL",
            #[cfg(feature = "sqlite")]
            Self::Sqlite => "SQLite",
        }
    }

    fn is_of(self, store: &dyn Store) -> bool {
        let Some(store) = store.itself() else { return false };
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => store.is::<windlass_postgres::Postgres>(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite => store.is::<windlass_sqlite::Sqlite>(),
        }
    }
}

/// Every task that cannot have the transaction it asks for, in words.
pub(crate) fn problems(workflows: &[AnyWorkflow], store: &dyn Store) -> Vec<String> {
    let mut problems = Vec::new();
    for workflow in workflows {
        let definition = workflow.definition();
        for (task, code) in definition.tasks.iter().zip(workflow.code()) {
            let Some(kind) = code.run.transaction() else { continue };
            let (name, of) = (&task.name, &definition.name);
            if !kind.is_of(store) {
                problems.push(format!(
                    "task `{name}` of `{of}` takes a transaction on {}, and the engine's store is {}: open a store of that \
                     kind, or take no `tx`",
                    kind.name(),
                    store.describe()
                ));
            }
            if task.queue.is_some() {
                problems.push(format!(
                    "task `{name}` of `{of}` takes a transaction, and can only be executed where its run is: leave its \
                     `queue` out, or take no `tx`"
                ));
            }
            if definition.durability == Durability::Pipelined {
                problems.push(format!(
                    "task `{name}` of `{of}` takes a transaction, which could be committed before the results that it \
                     builds on: leave `durability = pipelined` out, or take no `tx`"
                ));
            }
        }
    }
    problems
}

/// What an `async` task may take as its `tx`.
#[diagnostic::on_unimplemented(
    message = "an `async` task cannot take a `{Self}` as its `tx`",
    label = "this is no transaction that an `async` task can have",
    note = "an `async fn` takes `tx: &windlass::postgres::Transaction`, a plain `fn` takes `tx: &windlass::sqlite::Transaction`"
)]
pub trait AsyncTransaction: Sized {
    /// The code of a task with this body.
    fn code(run: fn(Call, Arc<Self>) -> BoxFuture) -> TaskCode;
}

#[cfg(feature = "postgres")]
impl AsyncTransaction for windlass_postgres::Transaction {
    fn code(run: fn(Call, Arc<Self>) -> BoxFuture) -> TaskCode {
        TaskCode::of(super::Code::Postgres(Default::default(), Arc::new(run)))
    }
}

/// The code of a plain `fn` with this body.
#[cfg(feature = "sqlite")]
pub fn on_sqlite(run: fn(Call, &windlass_sqlite::Transaction<'_>) -> super::Body) -> TaskCode {
    TaskCode::of(super::Code::Sqlite(Arc::new(run)))
}
