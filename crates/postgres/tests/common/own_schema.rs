//! A schema of a test's own, whose clock stands still.

use std::{sync::Arc, time::Duration};

use windlass_postgres::{Postgres, PostgresOptions};
use windlass_store::{
    Store,
    conformance::{Fixture, TestClock},
};

use super::{execute, fresh};

/// A schema of its own, whose clock stands still.
pub struct OwnSchema {
    store: Arc<Postgres>,
    clock: TestClock,
    schema: String,
}

impl OwnSchema {
    /// One that is reached by this URL, over so many connections.
    pub async fn at(url: &str, connections: usize) -> Self {
        Self::of(PostgresOptions::new().connections(connections), url).await
    }

    /// The same with other options.
    pub async fn of(options: PostgresOptions, url: &str) -> Self {
        let schema = fresh();
        let store = options.schema(&schema).open(url).await.unwrap();
        let fixture = Self { store: Arc::new(store), clock: TestClock::new(), schema };
        fixture.set_clock();
        fixture
    }

    fn set_clock(&self) {
        let sql = format!(
            "CREATE OR REPLACE FUNCTION {0}.clock() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT {1}::bigint'; \
             CREATE OR REPLACE FUNCTION {0}.moment() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT {1}::bigint'",
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

    fn put_back(&self, span: Duration) -> bool {
        self.clock.put_back(span);
        self.set_clock();
        true
    }
}

impl Drop for OwnSchema {
    fn drop(&mut self) {
        execute(format!("DROP SCHEMA {} CASCADE", self.schema));
    }
}
