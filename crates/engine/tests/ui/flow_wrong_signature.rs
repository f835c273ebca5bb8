#![allow(unused)]

use windlass::prelude::*;

#[flow]
struct NotAFunction;

#[flow]
fn waits(cx: &Flow) -> Result<u32> {
    Ok(1)
}

#[flow]
async unsafe extern "C" fn foreign(cx: &Flow) -> Result<u32> {
    Ok(1)
}

#[flow]
const fn constant(cx: &Flow) -> Result<u32> {
    Ok(1)
}

#[flow]
async fn generic<'a, T, const N: usize>(cx: &'a Flow, order: T) -> Result<u32> {
    Ok(1)
}

#[flow]
async fn workflow(cx: &Flow) -> Result<u32> {
    Ok(1)
}

fn main() {}
