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

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped])]
impl Shop {
    #[on(New, to = [Paid], rate(0, per = "1s"), breaker(failures = 0, opens = "1s"))]
    async fn new(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Paid)
    }

    #[on(Paid, to = [Packed], rate = 100, breaker(name = "a bank"))]
    async fn paid(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Packed)
    }

    #[on(Packed, to = [Shipped], rate(100, every = "1s"), retry(on = predicate(is_worth_it)), timeout = 5)]
    async fn packed(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Shipped)
    }
}

fn main() {}
