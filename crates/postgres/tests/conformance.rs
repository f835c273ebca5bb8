//! PostgreSQL does what every store must do, and agrees with the model.

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use common::{cluster, execute};
use windlass_postgres::{Postgres, PostgresOptions};
use windlass_store::{
    Store,
    conformance::{Duel, Fixture, MemoryFixture, TestClock},
};

/// A schema of its own, whose clock stands still.
struct OwnSchema {
    store: Arc<Postgres>,
    clock: TestClock,
    schema: String,
}

async fn fixture() -> OwnSchema {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let schema = format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let store = PostgresOptions::new().schema(&schema).connections(2).open(cluster().url()).await.unwrap();
    let fixture = OwnSchema { store: Arc::new(store), clock: TestClock::new(), schema };
    fixture.set_clock();
    fixture
}

impl OwnSchema {
    fn set_clock(&self) {
        let sql = format!(
            "CREATE OR REPLACE FUNCTION {}.clock() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT {}::bigint'",
            self.schema,
            self.clock.now().0
        );
        execute(sql);
    }
}

impl Fixture for OwnSchema {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn advance(&self, span: Duration) {
        self.clock.advance(span);
        self.set_clock();
    }
}

impl Drop for OwnSchema {
    fn drop(&mut self) {
        execute(format!("DROP SCHEMA {} CASCADE", self.schema));
    }
}

mod suite {
    windlass_store::conformance_tests!(super::fixture);
}

#[tokio::test]
async fn a_database_agrees_with_the_model() {
    Duel::default().fight(0..100, async || MemoryFixture::new(), fixture).await;
}
