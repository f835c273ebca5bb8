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

struct Misspelt;

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped])]
impl Misspelt {
    #[on(New, to = [Piad])]
    async fn pay(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Paid)
    }

    #[on(Paid, to = [Packed])]
    async fn pack(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Packed)
    }

    #[on(Packed, to = [Shipped])]
    async fn ship(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Shipped)
    }
}

struct Twice;

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped])]
impl Twice {
    #[on(New, to = [Shipped])]
    async fn pay(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Shipped)
    }

    #[on(New, to = [Shipped])]
    async fn pay_again(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Shipped)
    }

    #[on(Shipped, to = [New])]
    async fn send_back(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::New)
    }
}

struct Nowhere;

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped])]
impl Nowhere {
    #[on(New)]
    async fn pay(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Shipped)
    }

    #[on]
    async fn pack(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Shipped)
    }

    #[on(to = [Shipped])]
    async fn ship(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Shipped)
    }
}

struct Unreachable;

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped, Packed])]
impl Unreachable {
    #[on(New, to = [New, Shipped])]
    async fn pay(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Shipped)
    }

    #[on(Paid, to = [Packed])]
    async fn pack(&self, data: &mut u32) -> Result<Order> {
        Ok(Order::Packed)
    }
}

fn main() {}
