//! What a process of a test is to do.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

/// The variable that carries the role.
pub const VARIABLE: &str = "WINDLASS_SAFETY_ROLE";

/// A process and its part in a test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Role {
    /// How the process is called in the ledger and in the names of its files.
    pub name: String,
    /// The directory of its room.
    pub room: PathBuf,
    pub heartbeat: Duration,
    pub stale_after: Duration,
    pub max_runs: usize,
    pub park_after: Duration,
    pub part: Part,
}

/// What the process does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Part {
    /// Starts two runs of a graph of twenty tasks under keys, and sees them to their ends.
    Sweep {
        /// When to kill itself.
        kill: Option<Boundary>,
    },
    /// Starts a hundred runs of that graph under keys, a few at a time, and sees them to their ends.
    #[cfg(target_os = "linux")]
    Toil,
    /// Starts runs of every kind until it is told to rest.
    #[cfg(all(feature = "schedule", target_os = "linux"))]
    Soak,
    /// Starts two durable functions under keys, or two state machines, and sees them to their ends.
    Travel {
        /// Whether it is state machines.
        by_machine: bool,
        /// How many steps in a row they have.
        links: u64,
        /// When to kill itself.
        kill: Option<Boundary>,
    },
    /// Starts two graphs whose tasks wait under keys, and sees them to their ends.
    Sail {
        /// When to kill itself.
        kill: Option<Boundary>,
    },
    /// Runs durable functions that wait, and does what it is told line by line.
    Attend,
    /// Runs whatever there is, and does what it is told line by line.
    Serve,
    /// Executes what is spread, a few tasks at once, and starts such a run when it is told to.
    Spread,
    /// Runs what there is in a queue with limits, and looks whether they are kept.
    Queue,
    /// The same as to serve, with a task that kills the process.
    Poison,
    /// Runs tasks that make entries in a table of the database, each in a transaction with its record, and does what it
    /// is told line by line.
    Enter,
    /// Starts runs for as long as it lives, whatever becomes of the server, and does what it is told line by line.
    #[cfg(all(feature = "postgres", target_os = "linux"))]
    Endure,
    /// Starts three runs of such tasks under keys, and sees them to their ends.
    EnterAll {
        /// When to kill itself.
        kill: Option<Boundary>,
    },
}

/// A side of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Boundary {
    /// Just before this one, counted since the process opened the database.
    Before(u64),
    /// Just after this one.
    After(u64),
    /// Just before the first that records how something ended.
    BeforeRecord,
    /// Just after the first that records how something ended.
    AfterRecord,
    /// Just after the first that records anything, the start of a step included.
    AfterStart,
}

impl Role {
    /// A role with fast heartbeats and a lease that no test waits for.
    pub fn new(name: &str, room: &crate::room::Room, part: Part) -> Self {
        Self {
            name: name.to_owned(),
            room: room.directory().to_owned(),
            heartbeat: Duration::from_millis(200),
            stale_after: Duration::from_secs(60),
            max_runs: 1000,
            park_after: Duration::from_secs(30),
            part,
        }
    }

    pub fn lease(mut self, heartbeat: Duration, stale_after: Duration) -> Self {
        (self.heartbeat, self.stale_after) = (heartbeat, stale_after);
        self
    }

    pub fn max_runs(mut self, runs: usize) -> Self {
        self.max_runs = runs;
        self
    }

    pub fn park_after(mut self, span: Duration) -> Self {
        self.park_after = span;
        self
    }

    /// The role of this process.
    pub fn mine() -> Self {
        let role = std::env::var(VARIABLE).expect("a role is given");
        serde_json::from_str(&role).expect("the role can be read")
    }
}
