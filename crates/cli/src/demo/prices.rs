//! What suppliers ask for their goods: started by a trigger, when a file has come.

use windlass::prelude::*;

use super::shop::Shop;

/// Whether a supplier has sent a price list.
#[trigger(every = "4s", starts = price_list)]
pub(crate) async fn inbox(shop: Res<Shop>) -> Result<Fire<String>> {
    Ok(match shop.oldest_file() {
        Some(file) => Fire::run(file.clone()).key(file),
        None => Fire::Skip,
    })
}

/// Takes over the prices of a supplier.
#[workflow(output = archive, description = "Takes over the prices of a supplier")]
pub(crate) mod price_list {
    use super::*;

    #[task]
    pub async fn read(input: &str, shop: Res<Shop>) -> Result<Vec<String>> {
        shop.work(300).await;
        Ok(["Espresso", "Filter", "Decaf", "Green"].map(|sort| format!("{sort} from {input}")).into())
    }

    #[task(for_each = read, limit = 2, retry(attempts = 3, delay = "300ms"))]
    pub async fn price(item: &str, shop: Res<Shop>) -> Result<u64> {
        shop.work(350).await;
        shop.mishap(9, &format!("the rate of exchange for {item} is not there yet"))?;
        Ok(700 + fastrand::u64(0..500))
    }

    #[task]
    pub async fn archive(input: &str, price: &[u64], shop: Res<Shop>) -> Result<usize> {
        shop.file_away(input);
        Ok(price.len())
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use windlass::testing::Lab;

    use super::*;

    #[windlass::test]
    async fn each_file_is_read_once(lab: Lab) -> Result<()> {
        let shop = Arc::new(Shop::without_mishaps());
        let engine = lab.engine().shared(Arc::clone(&shop)).workflow(price_list::workflow());
        let engine = engine.trigger(inbox::trigger()).launch().await?;
        for file in ["a.csv", "b.csv"] {
            shop.receive(file.to_owned());
        }
        lab.advance(Duration::from_secs(60)).await;
        assert_eq!(shop.oldest_file(), None);
        assert_eq!(engine.runs().workflow("price_list").completed().list().await?.len(), 2);
        Ok(())
    }
}
