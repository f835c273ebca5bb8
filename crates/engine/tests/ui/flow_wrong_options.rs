#![allow(unused)]

use windlass::prelude::*;

#[flow(nam = "orders", retry(attempts = 3))]
async fn unknown(cx: &Flow) -> Result<u32> {
    Ok(1)
}

#[flow(name = "two words", version = "", timeout = "30 fortnights")]
async fn wrong(cx: &Flow) -> Result<u32> {
    Ok(1)
}

#[flow(timeout = 30, version, name = "input", name = "twice")]
async fn unquoted(cx: &Flow) -> Result<u32> {
    Ok(1)
}

#[flow(keep = "unquoted")]
async fn keeps(cx: &Flow) -> Result<u32> {
    Ok(1)
}

fn main() {}
