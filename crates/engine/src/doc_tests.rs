//! The Rust blocks of the README and of the pages under `docs/`, run as doc tests.

#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(feature = "testing")]
#[doc = include_str!("../../../docs/start-here.md")]
struct StartHere;

#[doc = include_str!("../../../docs/tasks.md")]
struct Tasks;

#[doc = include_str!("../../../docs/rules.md")]
struct Rules;

#[doc = include_str!("../../../docs/for-each.md")]
struct ForEach;

#[doc = include_str!("../../../docs/machines.md")]
struct Machines;

#[doc = include_str!("../../../docs/starting.md")]
struct Starting;

#[doc = include_str!("../../../docs/flows.md")]
struct Flows;

#[doc = include_str!("../../../docs/deploying.md")]
struct Deploying;

#[cfg(feature = "schedule")]
#[doc = include_str!("../../../docs/schedules.md")]
struct Schedules;

#[cfg(feature = "schedule")]
#[doc = include_str!("../../../docs/triggers.md")]
struct Triggers;

#[cfg(feature = "schedule")]
#[doc = include_str!("../../../docs/batches.md")]
struct Batches;

#[doc = include_str!("../../../docs/queues.md")]
struct Queues;

#[doc = include_str!("../../../docs/limits.md")]
struct Limits;

#[doc = include_str!("../../../docs/retention.md")]
struct Retention;

#[doc = include_str!("../../../docs/tenants.md")]
struct Tenants;
#[cfg(feature = "postgres")]
#[doc = include_str!("../../../docs/transactions.md")]
struct Transactions;
#[doc = include_str!("../../../docs/spread.md")]
struct Spread;

#[cfg(feature = "testing")]
#[doc = include_str!("../../../docs/testing.md")]
struct Testing;

#[doc = include_str!("../../../docs/payloads.md")]
struct Payloads;

#[cfg(feature = "postgres")]
#[doc = include_str!("../../../docs/your-transaction.md")]
struct YourTransaction;

#[cfg(feature = "schedule")]
#[doc = include_str!("../../../docs/coming-from/airflow.md")]
struct ComingFromAirflow;

#[doc = include_str!("../../../docs/coming-from/cano.md")]
struct ComingFromCano;

#[doc = include_str!("../../../docs/coming-from/cloacina.md")]
struct ComingFromCloacina;

#[doc = include_str!("../../../docs/coming-from/dbos.md")]
struct ComingFromDbos;

#[doc = include_str!("../../../docs/coming-from/forge.md")]
struct ComingFromForge;

#[doc = include_str!("../../../docs/coming-from/temporal.md")]
struct ComingFromTemporal;

#[cfg(feature = "logs")]
#[doc = include_str!("../../../docs/observing.md")]
struct Observing;
