//! The Windlass store on PostgreSQL.
//!
//! [`Postgres`] keeps every record of Windlass in one schema of a PostgreSQL database, for as many processes as there
//! are. It is made from a URL such as `postgres://user@host/database`; programs that use `windlass` hand that URL to
//! the engine, and need this crate only for its [options](PostgresOptions).
//!
//! How it writes: a batch is one transaction, sent in one go: begin, the fence of the acting node, one statement of
//! many rows for each kind of record, commit. Nothing is remembered between transactions but where to look for the
//! runs of a node, so an answer that was lost is asked for again.
//!
//! How it locks: first what stands for the life of a node, then runs in the order of their ids, then keys in their own
//! order, and last the rows that say where a run stands. So nobody waits for one who waits for him. A claim locks the
//! other way round, and may, for it waits for nobody: it passes over what is locked. A transaction of a task locks what
//! it likes first, and these last; whoever holds them waits for nothing of the application's.
//!
//! [`Application`] calls the functions that start runs, send to them and cancel them in a transaction of the
//! application's own. A key is held as long as that transaction lasts; a run that is sent to or cancelled only while it
//! commits.

mod application;
mod batch;
mod cell;
mod claim;
mod column;
mod commit;
mod connector;
mod control;
mod definition;
mod discard;
mod error;
mod figures;
mod find;
mod frontier;
mod held;
mod hook;
mod image;
mod lanes;
mod link;
mod location;
mod log_line;
mod migration;
mod node;
mod options;
mod parents;
mod pool;
mod postgres;
mod queue;
mod secret;
mod session;
mod settle;
mod single;
mod spread;
mod statement;
mod stops;
mod task_turn;
mod tenant;
mod tenants;
mod tenure;
mod tls;
mod transaction;
mod unsaid;
mod wire;

pub use tokio_postgres;
pub use windlass_store::CommitMoment;

pub use self::{
    application::{Application, CallError, StartCall},
    connector::Pooler,
    error::OpenError,
    options::PostgresOptions,
    postgres::Postgres,
    tenants::PostgresTenants,
    tls::TlsMode,
    transaction::{Isolation, Sql, Transaction},
};
