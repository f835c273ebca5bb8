//! An order: a durable function that waits for a person, has a child, and undoes what it did.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::prelude::*;

use super::{
    delivery::{Courier, Parcel, Place},
    shop::Shop,
};

/// From how many cents on somebody has to approve an order.
pub(crate) const LARGE: u64 = 50_000;

/// Whether an order may be sent: `true` or `false`.
pub(crate) const APPROVED: Event<bool> = Event::new("approved");

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) number: u32,
    pub(crate) customer: String,
    pub(crate) city: String,
    pub(crate) goods: String,
    pub(crate) cents: u64,
}

/// What the page asks for to start a checkout.
pub(crate) fn order_schema() -> serde_json::Value {
    serde_json::json!({
        "title": "Order",
        "type": "object",
        "required": ["number", "customer", "city", "goods", "cents"],
        "properties": {
            "number": {"type": "integer", "minimum": 0},
            "customer": {"type": "string"},
            "city": {"type": "string", "default": "Lisbon"},
            "goods": {"type": "string", "default": "espresso beans"},
            "cents": {
                "type": "integer",
                "minimum": 1,
                "default": LARGE,
                "description": "From 50000 on somebody has to approve it",
            },
        },
    })
}

/// Takes an order: reserves and charges, asks for approval of large ones, and has them delivered. Whatever goes wrong, the
/// money and the goods go back.
#[flow]
pub(crate) async fn checkout(cx: &Flow, order: Order, shop: Res<Shop>) -> Result<String> {
    let Order { number, cents, goods, .. } = &order;
    let (releasing, refunding) = (Res::clone(&shop), Res::clone(&shop));
    cx.step("reserve", || async {
        shop.work(150).await;
        Ok::<_, Failure>(format!("{goods} for order {number}"))
    })
    .undo(move |_: String| async move {
        releasing.work(150).await;
        Ok::<_, Failure>(())
    })
    .await?;

    let charge = cx
        .step("charge", |step: Cx| {
            let shop = &shop;
            async move {
                tracing::info!(order = number, cents, "charging");
                shop.work(400).await;
                shop.mishap(6, "connection reset by the bank")?;
                Ok::<_, Failure>(format!("{cents} cents, asked for once as {}", step.key()))
            }
        })
        .retry(Retry::attempts(6).delay(Duration::from_millis(500)))
        .undo(move |_: String| async move {
            refunding.work(400).await;
            refunding.mishap(4, "connection reset by the bank")
        })
        .await?;

    if *cents >= LARGE {
        cx.progress(0.4, "waiting for approval")?;
        match cx.event(APPROVED).timeout(Duration::from_secs(10 * 60)).await? {
            Some(true) => {}
            Some(false) => return Err(Failure::permanent("the order was not approved")),
            None => return Err(Failure::permanent("nobody approved the order in ten minutes")),
        }
    }

    cx.progress(0.6, "on its way")?;
    let parcel = Parcel::new(order.number, &order.city);
    let delivered = cx.run(Courier::workflow(), parcel).await?;
    if delivered.state == Place::Returned {
        return Err(Failure::permanent(format!("no courier goes to {}", order.city)));
    }
    cx.step("receipt", || async {
        shop.work(100).await;
        Ok::<_, Failure>(format!("order {number} for {}: {charge}", order.customer))
    })
    .await
}

#[cfg(test)]
mod tests {
    use windlass::testing::Lab;

    use super::*;

    async fn launched(lab: &Lab) -> Result<Engine, windlass::Error> {
        let shop = Shop::without_mishaps();
        let engine = lab.engine().resource(shop).resource(Courier);
        engine.workflow(checkout::workflow()).workflow(Courier::workflow()).launch().await
    }

    fn order(cents: u64, city: &str) -> Order {
        let (customer, city, goods) = ("Ada".to_owned(), city.to_owned(), "beans".to_owned());
        Order { number: 7, customer, city, goods, cents }
    }

    #[windlass::test]
    async fn a_small_order_is_delivered(lab: Lab) -> Result<()> {
        lab.fail("charge", 1..=3, "connection reset by the bank");
        let engine = launched(&lab).await?;
        let receipt = engine.start(checkout::workflow(), order(1_999, "Lisbon")).await?.await?;
        assert!(receipt.starts_with("order 7 for Ada: 1999 cents"), "{receipt}");
        assert_eq!(lab.attempts("charge"), 4);
        Ok(())
    }

    #[windlass::test]
    async fn a_large_order_waits_until_it_is_approved(lab: Lab) -> Result<()> {
        let engine = launched(&lab).await?;
        let run = engine.start(checkout::workflow(), order(LARGE, "Lisbon")).await?;
        lab.advance(Duration::from_secs(300)).await;
        assert_eq!(run.status().await?.state, windlass::RunState::Suspended);
        run.send(APPROVED, &true).await?;
        run.await?;
        Ok(())
    }

    #[windlass::test]
    async fn an_order_that_nobody_approves_is_undone(lab: Lab) -> Result<()> {
        let engine = launched(&lab).await?;
        let run = engine.start(checkout::workflow(), order(LARGE, "Lisbon")).await?;
        let why = run.await.unwrap_err().to_string();
        assert!(why.contains("nobody approved"), "{why}");
        lab.assert_undone("charge");
        lab.assert_undone("reserve");
        Ok(())
    }

    #[windlass::test]
    async fn what_no_courier_delivers_is_undone(lab: Lab) -> Result<()> {
        let engine = launched(&lab).await?;
        let why = engine.start(checkout::workflow(), order(1_999, "Tristan")).await?.await.unwrap_err();
        assert!(why.to_string().contains("no courier goes to Tristan"), "{why}");
        lab.assert_undone("charge");
        Ok(())
    }
}
