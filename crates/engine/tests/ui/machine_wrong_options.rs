#![allow(unused)]

use serde::{Deserialize, Serialize};
use windlass::{machine::{Joined, MachineState, Poll, Progress}, prelude::*};

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Order {
    New,
    Paid,
    Packed,
    Shipped,
}

struct Shop;

#[machine(state = Order, initial = "New", terminals = [Shipped], timeout = 30, name = "two words")]
impl Shop {
    #[on(New, to = [Paid], retries = 3)]
    async fn pay(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Paid)
    }
}

struct Empty;

#[machine]
impl Empty {}

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped])]
async fn function(cx: &Flow) -> Result<()> {
    Ok(())
}

struct Generic<T>(T);

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped])]
impl<T: Send + Sync + 'static> Generic<T> {
    #[on(New, to = [Shipped])]
    async fn pay(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Shipped)
    }
}

trait Shipping {}

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped])]
impl Shipping for Shop {}

fn main() {}
