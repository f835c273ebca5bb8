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
    #[on(New, to = [Paid], router, poll = "1s")]
    async fn both(&self, data: &u32) -> Result<Order> {
        Ok(Order::Paid)
    }

    #[on(Paid, to = [Packed], split = [a, b, missing], join = quorum(4))]
    async fn pack(&self, data: &mut u32, other: u8) -> Result<Order> {
        Ok(Order::Packed)
    }

    async fn a(&self) -> Result<()> {
        Ok(())
    }

    fn b(&self) -> Result<()> {
        Ok(())
    }

    #[on(Packed, to = [Shipped], join = all, limit = 3, each_retry(attempts = 2))]
    async fn ship(cx: &Cx, data: &mut u32) -> Result<Order> {
        Ok(Order::Shipped)
    }
}

struct Joins;

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped])]
impl Joins {
    #[on(New, to = [Paid], split = [a], join = most)]
    async fn new(&self, results: Joined) -> Result<Order> {
        Ok(Order::Paid)
    }

    #[on(Paid, to = [Packed], split = [a], join = quorum)]
    async fn paid(&self, results: Joined) -> Result<Order> {
        Ok(Order::Packed)
    }

    #[on(Packed, to = [Shipped], split = [a], join = percentage(120))]
    async fn packed(&self, results: Joined) -> Result<Order> {
        Ok(Order::Shipped)
    }

    async fn a(&self) -> Result<()> {
        Ok(())
    }
}

struct Batches;

#[machine(state = Order, data = u32, initial = New, terminal = [Shipped])]
impl Batches {
    #[on(New, to = [Paid], batch = [load])]
    async fn new(&self, results: Vec<Result<u32>>) -> Result<Order> {
        Ok(Order::Paid)
    }

    #[on(Paid, to = [Packed], split = [])]
    async fn paid(&self, results: Joined) -> Result<Order> {
        Ok(Order::Packed)
    }

    #[on(Packed, to = [Shipped], batch = [load, item])]
    async fn packed(&self, results: Vec<Result<u32>>) -> Result<Order> {
        Ok(Order::Shipped)
    }

    async fn load(&self, cx: &Flow) -> Result<Vec<u32>> {
        Ok(vec![])
    }

    async fn item(&self, item: &u32) -> Result<u32> {
        Ok(*item)
    }
}

fn main() {}
