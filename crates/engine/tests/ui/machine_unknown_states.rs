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

struct Inventive;

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped, Lost])]
impl Inventive {
    #[on(New, to = [Paid, Lost])]
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

enum Plain {
    Only,
    Over,
}

struct Underived;

#[machine(state = Plain, data = u32, initial = Only, terminal = [Over])]
impl Underived {
    #[on(Only, to = [Over])]
    async fn only(&self, data: &mut u32) -> Result<Plain> {
        Ok(Plain::Over)
    }
}

fn main() {}
