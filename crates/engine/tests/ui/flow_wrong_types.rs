#![allow(unused)]

use std::{rc::Rc, time::Duration};

use windlass::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Order {
    cents: u64,
}

#[flow]
async fn not_send(cx: &Flow) -> Result<u32> {
    let held = Rc::new(1);
    cx.sleep(Duration::from_secs(1)).await?;
    Ok(*held)
}

#[flow]
async fn not_clone(cx: &Flow, order: Order) -> Result<u64> {
    Ok(order.cents)
}

fn main() {}
