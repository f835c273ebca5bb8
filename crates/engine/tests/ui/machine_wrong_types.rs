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

struct Wrong;

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped])]
impl Wrong {
    #[on(New, to = [Paid])]
    async fn returns_another_type(&self, data: &mut u32) -> Result<u32> {
        Ok(1)
    }

    #[on(Paid, to = [Packed])]
    async fn takes_another_type(&self, data: &mut String) -> Result<Order> {
        Ok(Order::Packed)
    }

    #[on(Packed, to = [Shipped], poll = "1s")]
    async fn returns_a_state(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Shipped)
    }
}

#[derive(Clone)]
struct Unkept;

struct Unkeepable;

#[machine(state = Order, data = Unkept, initial = New, terminal = [Shipped])]
impl Unkeepable {
    #[on(New, to = [Paid])]
    async fn pay(&self, data: &mut Unkept) -> Result<Order> {
        Ok(Order::Paid)
    }

    #[on(Paid, to = [Packed])]
    async fn pack(&self, data: &mut Unkept) -> Result<Order> {
        Ok(Order::Packed)
    }

    #[on(Packed, to = [Shipped])]
    async fn ship(&self, data: &mut Unkept) -> Result<Order> {
        Ok(Order::Shipped)
    }
}

fn main() {}
