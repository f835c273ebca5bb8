//! Safety on real files, with real processes: kills, freezes, lost answers, full disks.
//!
//! Some tests run a program in processes of its own: this very test binary, started again with a [`Role`].
//!
//! [`Role`]: role::Role
#![cfg(all(unix, feature = "sqlite"))]

#[macro_use]
mod on_both;

#[cfg(feature = "schedule")]
mod batches;
mod cancelling;
mod child;
mod crash_sweep;
mod disk_full;
mod durable;
mod entries;
mod eventually;
#[cfg(feature = "postgres")]
mod exactly_once;
mod exactly_once_in_a_file;
mod faulty;
mod fencing;
mod flow_sweep;
mod flow_time;
mod flow_traps;
mod flow_waits;
mod frozen_writer;
mod graph;
mod inbox;
mod journal;
mod ledger;
mod new_code;
mod older_tables;
#[cfg(all(feature = "postgres", target_os = "linux"))]
mod outage;
mod poison;
#[cfg(target_os = "linux")]
mod power_cut;
mod program;
#[cfg(feature = "postgres")]
#[path = "../transactions/proxy.rs"]
mod proxy;
mod queues;
mod race;
mod relay;
mod role;
mod room;
#[cfg(feature = "schedule")]
mod schedules;
#[cfg(all(feature = "schedule", target_os = "linux"))]
mod soak;
mod spread;
mod stage;
mod stopping;
#[cfg(feature = "postgres")]
mod three_machines;
mod three_processes;
mod turnstile;
mod upgrade;
mod voyage;
mod voyages;
mod zombie;
