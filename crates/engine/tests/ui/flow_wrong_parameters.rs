#![allow(unused)]

use windlass::prelude::*;

struct Bank;

#[flow]
async fn no_flow(order: u32) -> Result<u32> {
    Ok(order)
}

#[flow]
async fn two_inputs(order: u32, cx: &Flow, (name, age): (String, u32), town: &str) -> Result<u32> {
    Ok(order)
}

#[flow]
async fn two_flows(cx: &Flow, again: &windlass::Flow) -> Result<u32> {
    Ok(1)
}

#[flow]
async fn by_value(cx: Flow) -> Result<u32> {
    Ok(1)
}

#[flow]
async fn mutable(cx: &mut Flow, order: &mut u32) -> Result<u32> {
    Ok(1)
}

#[flow]
async fn of_a_task(cx: &Cx, context: &mut Context, tx: &windlass::sqlite::Transaction<'_>) -> Result<u32> {
    Ok(1)
}

#[flow]
async fn borrowed(cx: &Flow, bank: &Res<Bank>, order: impl Into<String>) -> Result<u32> {
    Ok(1)
}

#[flow]
async fn sometimes(cx: &Flow, #[cfg(unix)] bank: Res<Bank>) -> Result<u32> {
    Ok(1)
}

#[flow]
async fn method(&self, cx: &Flow) -> Result<u32> {
    Ok(1)
}

// Its type is known all the same, so nothing more is said here.
fn used() -> Workflow<u32, u32> {
    no_flow::workflow()
}

fn main() {}
