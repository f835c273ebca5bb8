//! PostgreSQL does what every store must do, and agrees with the model.

mod common;

use common::{cluster, failing_way::Failable, own_schema::OwnSchema};
use windlass_store::conformance::{Duel, MemoryFixture};

async fn fixture() -> OwnSchema {
    OwnSchema::at(cluster().url(), 2).await
}

mod suite {
    windlass_store::conformance_tests!(super::fixture);
}

#[tokio::test]
async fn a_database_agrees_with_the_model() {
    Duel::default().fight(0..100, async || MemoryFixture::new(), fixture).await;
}

#[tokio::test]
async fn a_database_agrees_with_the_model_when_commits_are_lost_or_not_answered() {
    Duel::default().with_faults().fight(0..10, async || MemoryFixture::new(), Failable::new).await;
}
