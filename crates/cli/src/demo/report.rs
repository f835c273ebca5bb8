//! A report that a schedule starts: a graph that fans out, with a rule.

use windlass::prelude::*;

/// Adds up what was sold, region by region.
#[workflow(output = publish, description = "Adds up what was sold, region by region")]
pub(crate) mod sales_report {
    use std::time::Duration;

    use super::super::shop::Shop;
    use super::*;

    #[task]
    pub async fn regions(shop: Res<Shop>) -> Result<Vec<String>> {
        shop.work(200).await;
        Ok(["Lisbon", "Porto", "Madrid", "Sevilla", "Lyon", "Torino", "Gent", "Malmö"]
            .map(str::to_owned)
            .into())
    }

    #[task(for_each = regions, limit = 3, retry(attempts = 5, delay = "400ms"))]
    pub async fn sales(item: &str, shop: Res<Shop>) -> Result<u64> {
        tracing::info!(region = item, "asking the till");
        shop.work(600).await;
        shop.mishap(8, &format!("the till of {item} did not answer"))?;
        Ok(25_000 + 1_000 * item.len() as u64 + fastrand::u64(0..20_000))
    }

    #[task]
    pub async fn total(sales: &[u64], context: &mut Context) -> Result<u64> {
        let total = sales.iter().sum();
        context.set("total", total)?;
        Ok(total)
    }

    /// Runs only when little was sold.
    #[task(when = all(succeeded(total), context("total") < 300000))]
    pub async fn warn(total: u64) -> Result<String> {
        Ok(format!("only {}.{:02} €", total / 100, total % 100))
    }

    #[task(retry(attempts = 3, delay = "500ms"), timeout = "10s")]
    pub async fn chart(sales: &[u64], shop: Res<Shop>) -> Result<usize> {
        shop.work(900).await;
        shop.mishap(10, "the printer of charts is busy")?;
        Ok(sales.len())
    }

    #[task(when = all(succeeded(total), succeeded(chart)), after = [warn])]
    pub async fn publish(
        total: Option<u64>,
        chart: Option<usize>,
        cx: &Cx,
        shop: Res<Shop>,
    ) -> Result<String> {
        tokio::time::timeout(Duration::from_secs(5), shop.work(200)).await?;
        let when = cx.fired().map(|fired| fired.scheduled_at.to_string()).unwrap_or_default();
        Ok(format!("{} cents in {} regions {when}", total.unwrap_or_default(), chart.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use windlass::{TaskState, testing::Lab};

    use super::super::shop::Shop;
    use super::*;

    #[windlass::test]
    async fn a_report_asks_a_till_again_and_adds_up_what_all_have_sold(lab: Lab) -> Result<()> {
        lab.fail("sales[3]", 1..=2, "the till did not answer");
        let engine = lab.engine().resource(Shop::without_mishaps()).workflow(sales_report::workflow());
        let engine = engine.launch().await?;
        let mut run = engine.start(sales_report::workflow(), ()).await?;
        let published = (&mut run).await?;
        assert!(published.contains("in 8 regions"), "{published}");
        assert_eq!((lab.attempts("sales[3]"), lab.attempts("sales")), (3, 10));
        let warned = run.status().await?.task("warn").map(|task| task.state);
        assert!(matches!(warned, Some(TaskState::Completed | TaskState::Skipped)), "{warned:?}");
        Ok(())
    }
}
