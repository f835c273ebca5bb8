//! Small values that processes share.

use windlass::{prelude::*, testing::Lab};

#[windlass::test]
async fn changes_of_a_shared_value_by_many_at_once_all_count(lab: Lab) -> Result<()> {
    let engine = lab.engine().launch().await?;
    let count = || engine.client().shared_value::<u32>("count");
    assert_eq!(count().get().await?, 0);
    let add = |n: &mut u32| {
        *n += 1;
        Ok::<_, windlass::Error>(())
    };
    let adders: Vec<_> = (0..20).map(|_| (count(), add)).collect();
    let adders = adders.into_iter().map(|(count, add)| tokio::spawn(async move { count.change(add).await }));
    for adder in adders.collect::<Vec<_>>() {
        adder.await??;
    }
    assert_eq!(count().get().await?, 20);
    let refused: Result<()> = count().change(|_| Err(Failure::permanent("no"))).await;
    assert_eq!(refused.unwrap_err().message, "no");
    assert_eq!(count().get().await?, 20, "nothing is written when the change is refused");
    let other = engine.client().shared_value::<String>("count").get().await.unwrap_err();
    assert!(other.to_string().contains("shared value `count`"), "{other}");
    Ok(())
}
