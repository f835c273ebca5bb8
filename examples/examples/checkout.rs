//! How do I write a durable function that waits for a person, and undoes what it did?
//!
//! ```sh
//! cargo run --example checkout
//! ```

use std::{sync::Mutex, time::Duration};

use serde::{Deserialize, Serialize};
use windlass::prelude::*;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    id: u32,
    cents: u64,
}

/// Who said yes, or no.
#[derive(Debug, Serialize, Deserialize)]
struct Approval {
    by: String,
    yes: bool,
}

const APPROVED: Event<Approval> = Event::new("approved");

/// A bank that keeps its books in memory.
#[derive(Debug, Default)]
struct Bank {
    books: Mutex<Vec<String>>,
}

impl Bank {
    async fn charge(&self, order: &Order, key: String) -> Result<String> {
        // A real bank would use the key to tell a repeat from a second charge.
        assert!(key.ends_with("charge"));
        self.note(format!("charged {} cents for order {}", order.cents, order.id));
        Ok(format!("charge-{}", order.id))
    }

    fn note(&self, line: String) {
        println!("{line}");
        self.books.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(line);
    }
}

#[flow]
async fn checkout(cx: &Flow, order: Order, bank: Res<Bank>) -> Result<String> {
    let refunding = Res::clone(&bank);
    let charge = cx
        .step("charge", |s: Cx| bank.charge(&order, s.key()))
        .retry(Retry::attempts(5))
        .undo(move |charge: String| async move {
            refunding.note(format!("refunded {charge}"));
            Ok::<_, Failure>(())
        })
        .await?;

    let (label, invoice) = tokio::try_join!(
        cx.step("label", || async { Ok::<_, Failure>(format!("label for {}", order.id)) }),
        cx.step("invoice", || async { Ok::<_, Failure>(format!("invoice for {}", order.cents)) }),
    )?;

    match cx.event(APPROVED).timeout(Duration::from_secs(48 * 3600)).await? {
        Some(approval) if approval.yes => {
            Ok(format!("{charge}: shipped with {label} and {invoice}, approved by {}", approval.by))
        }
        Some(approval) => Err(Failure::permanent(format!("{} said no", approval.by))),
        None => Err(Failure::permanent("nobody approved it")),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:")
        .resource(Bank::default())
        .workflow(checkout::workflow())
        .launch()
        .await?;

    let run = engine.start(checkout::workflow(), Order { id: 1, cents: 1999 }).key("order-1").await?;
    run.send(APPROVED, &Approval { by: "Ada".to_owned(), yes: true }).await?;
    println!("{}", run.await?);

    let run = engine.start(checkout::workflow(), Order { id: 2, cents: 500 }).key("order-2").await?;
    run.send(APPROVED, &Approval { by: "Bob".to_owned(), yes: false }).await?;
    if let Err(error) = run.await {
        println!("{error}");
    }
    engine.stop().await?;
    Ok(())
}
