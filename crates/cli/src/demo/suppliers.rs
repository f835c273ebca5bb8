//! Money for suppliers: what fails for ever until somebody mends its cause.

use serde::{Deserialize, Serialize};
use windlass::prelude::*;

/// A supplier of whom nobody knows where to send money.
pub(crate) const STRANGER: &str = "Finca Aurora";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Bill {
    pub(crate) supplier: String,
    pub(crate) cents: u64,
}

/// What the page asks for to start a payout.
pub(crate) fn bill_schema() -> serde_json::Value {
    serde_json::json!({
        "title": "Bill",
        "type": "object",
        "required": ["supplier", "cents"],
        "properties": {"supplier": {"type": "string"}, "cents": {"type": "integer", "minimum": 1}},
    })
}

/// What the page asks for to note a bank account.
pub(crate) fn supplier_schema() -> serde_json::Value {
    serde_json::json!({"title": "Supplier", "type": "string", "description": "The name of the supplier"})
}

/// Pays a supplier.
#[workflow(output = transfer, description = "Pays a supplier")]
pub(crate) mod payout {
    use super::super::shop::Shop;
    use super::*;

    #[task]
    pub async fn statement(input: &Bill, shop: Res<Shop>) -> Result<u64> {
        shop.work(300).await;
        Ok(input.cents)
    }

    #[task]
    pub async fn account(input: &Bill, shop: Res<Shop>) -> Result<String> {
        let supplier = &input.supplier;
        match shop.knows_account_of(supplier) {
            true => Ok(format!("account of {supplier}")),
            false => Err(Failure::permanent(format!(
                "no bank account is known for `{supplier}`: start the workflow `bank_account` with the input \
                 \"{supplier}\", then retry this run"
            ))),
        }
    }

    #[task(retry(attempts = 4, delay = "500ms"))]
    pub async fn transfer(statement: u64, account: &str, shop: Res<Shop>, cx: &Cx) -> Result<String> {
        tracing::info!(cents = statement, account, "transferring");
        shop.work(700).await;
        shop.mishap(6, "the bank is busy")?;
        Ok(format!("{statement} cents to the {account}, under {}", cx.key()))
    }
}

/// Notes the bank account of a supplier.
#[workflow(output = save, description = "Notes the bank account of a supplier, whose name is the input")]
pub(crate) mod bank_account {
    use super::super::shop::Shop;
    use super::*;

    #[task]
    pub async fn check(input: &str, shop: Res<Shop>) -> Result<String> {
        shop.work(300).await;
        match input.trim() {
            "" => Err(Failure::permanent("the input has to be the name of a supplier")),
            name => Ok(name.to_owned()),
        }
    }

    #[task]
    pub async fn save(check: &str, shop: Res<Shop>) -> Result<String> {
        shop.note_account_of(check);
        Ok(format!("the account of {check} is known"))
    }
}

#[cfg(test)]
mod tests {
    use windlass::testing::Lab;

    use super::super::shop::Shop;
    use super::*;

    #[windlass::test]
    async fn a_payout_fails_until_the_account_is_known(lab: Lab) -> Result<()> {
        let engine = lab.engine().resource(Shop::without_mishaps());
        let engine = engine.workflow(payout::workflow()).workflow(bank_account::workflow()).launch().await?;
        let bill = Bill { supplier: STRANGER.to_owned(), cents: 5_000 };
        let mut run = engine.start(payout::workflow(), bill).await?;
        for _ in 0..2 {
            let why = (&mut run).await.unwrap_err().to_string();
            assert!(why.contains("`bank_account`"), "{why}");
            run.retry().await?;
        }
        assert!((&mut run).await.is_err());
        engine.start(bank_account::workflow(), STRANGER.to_owned()).await?.await?;
        run.retry().await?;
        assert!(run.await?.starts_with("5000 cents to the account of Finca Aurora"));
        Ok(())
    }
}
