//! The model passes the suite that every store has to pass.

#![cfg(feature = "conformance")]

use windlass_store::conformance::{Duel, MemoryFixture};

async fn fixture() -> MemoryFixture {
    MemoryFixture::new()
}

mod suite {
    windlass_store::conformance_tests!(super::fixture);
}

#[tokio::test]
async fn the_model_agrees_with_itself() {
    Duel::default().with_kills().fight(0..300, fixture, fixture).await;
}
