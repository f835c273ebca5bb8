//! How do I write a state machine?

use serde::{Deserialize, Serialize};
use windlass::{
    machine::{Joined, MachineState, Poll},
    prelude::*,
};

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Order {
    New,
    Paid,
    Packed,
    Shipped,
    Rejected,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Cart {
    amount: u32,
    parcel: String,
    asked: u32,
}

struct Fulfilment {
    limit: u32,
}

#[machine(state = Order, data = Cart, initial = New, terminal = [Shipped, Rejected])]
impl Fulfilment {
    #[on(New, to = [Paid, Rejected])]
    async fn pay(&self, cx: &Flow, data: &mut Cart) -> Result<Order> {
        if data.amount > self.limit {
            return Ok(Order::Rejected);
        }
        let amount = data.amount;
        // Recorded before the next state is entered; undone if the order fails later.
        cx.step("charge", move || async move { Ok::<_, Failure>(amount) })
            .undo(|amount: u32| async move {
                println!("gave {amount} back");
                Ok::<_, Failure>(())
            })
            .await?;
        Ok(Order::Paid)
    }

    async fn pack(&self, data: &Cart) -> Result<String> {
        Ok(format!("a parcel worth {}", data.amount))
    }

    async fn bill(&self, cx: &Cx) -> Result<String> {
        Ok(format!("bill {}", cx.key()))
    }

    async fn notify(&self) -> Result<()> {
        Err(Failure::permanent("the customer has no telephone"))
    }

    /// Two of the three are enough.
    #[on(Paid, to = [Packed], split = [pack, bill, notify], join = quorum(2))]
    async fn joined(&self, data: &mut Cart, results: Joined) -> Result<Order> {
        data.parcel = results.get("pack")?;
        Ok(Order::Packed)
    }

    /// Asked again and again; between two questions the run costs nothing.
    #[on(Packed, to = [Shipped], poll = "50ms")]
    async fn courier(&self, data: &mut Cart) -> Result<Poll<Order>> {
        data.asked += 1;
        Ok(if data.asked < 3 { Poll::Again } else { Poll::Ready(Order::Shipped) })
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:")
        .resource(Fulfilment { limit: 100 })
        .workflow(Fulfilment::workflow())
        .launch()
        .await?;
    for amount in [20, 500] {
        let cart = Cart { amount, ..Cart::default() };
        let end = engine.start(Fulfilment::workflow(), cart).await?.await?;
        println!("{amount}: {:?} after {} questions, {:?}", end.state, end.data.asked, end.data.parcel);
    }
    print!("{}", Fulfilment::workflow().to_mermaid());
    engine.stop().await?;
    Ok(())
}
