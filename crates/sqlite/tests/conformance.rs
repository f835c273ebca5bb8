//! SQLite does what every store must do, on a file and in memory, and agrees with the model.

use std::{sync::Arc, time::Duration};

use windlass_core::NodeId;
use windlass_sqlite::{Sqlite, SqliteOptions, Synchronous};
use windlass_store::{
    Store,
    conformance::{Duel, Fixture, MemoryFixture, TestClock},
};

/// A database in a directory of its own.
struct OnFile {
    store: Arc<Sqlite>,
    clock: TestClock,
    directory: tempfile::TempDir,
}

/// A database in memory.
struct InMemory {
    store: Arc<Sqlite>,
    clock: TestClock,
}

async fn open(url: &str, clock: &TestClock) -> Arc<Sqlite> {
    let reader = clock.clone();
    let options = SqliteOptions::new().clock(move || reader.now()).synchronous(Synchronous::Normal);
    Arc::new(options.open(url).await.unwrap())
}

async fn on_file() -> OnFile {
    let (directory, clock) = (tempfile::tempdir().unwrap(), TestClock::new());
    let store = open(directory.path().join("app.db").to_str().unwrap(), &clock).await;
    OnFile { store, clock, directory }
}

async fn in_memory() -> InMemory {
    let clock = TestClock::new();
    InMemory { store: open("sqlite::memory:", &clock).await, clock }
}

impl Fixture for OnFile {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// A file in the place of the node's, which nobody has locked, is what the death of a process leaves.
    fn kill(&self, node: NodeId) -> bool {
        let file = self.directory.path().join("app.db-locks").join(format!("node-{node}"));
        if file.exists() {
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&file, "").unwrap();
        }
        true
    }
}

impl Fixture for InMemory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }
}

mod a_file {
    windlass_store::conformance_tests!(super::on_file);
}

mod memory {
    windlass_store::conformance_tests!(super::in_memory);
}

async fn model() -> MemoryFixture {
    MemoryFixture::new()
}

/// How many random sequences are played; `WINDLASS_DUELS` asks for more.
fn duels(usual: u64) -> u64 {
    std::env::var("WINDLASS_DUELS")
        .map_or(usual, |number| number.parse().expect("WINDLASS_DUELS is a number"))
}

#[tokio::test]
async fn a_database_in_memory_agrees_with_the_model() {
    Duel::default().fight(0..duels(2_000), model, in_memory).await;
}

#[tokio::test]
async fn a_file_agrees_with_the_model_when_processes_die() {
    Duel::default().with_kills().fight(0..duels(100), model, on_file).await;
}

#[tokio::test]
async fn a_database_agrees_with_the_model_when_answers_are_lost() {
    Duel::default().with_faults().fight(0..duels(50), model, in_memory).await;
}
