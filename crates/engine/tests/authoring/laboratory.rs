//! `#[windlass::test]`.

use std::time::Duration;

use windlass::{prelude::*, testing::Lab};

#[windlass::test]
async fn two_weeks_pass_in_a_moment(lab: Lab) -> Result<()> {
    let (before, wall) = (tokio::time::Instant::now(), std::time::Instant::now());
    tokio::time::sleep(Duration::from_secs(14 * 86_400)).await;
    assert!(before.elapsed() >= Duration::from_secs(14 * 86_400));
    assert!(wall.elapsed() < Duration::from_secs(60), "the time was real");
    drop(lab);
    Ok(())
}

#[windlass::test]
#[should_panic(expected = "as it should")]
async fn a_test_may_do_without_the_laboratory_and_keeps_its_other_attributes() {
    tokio::task::yield_now().await;
    panic!("as it should");
}
