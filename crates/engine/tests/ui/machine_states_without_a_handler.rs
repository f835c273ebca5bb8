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

struct Forgetful;

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped])]
impl Forgetful {
    #[on(New, to = [Shipped])]
    async fn pay(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Shipped)
    }
}

fn main() {}
