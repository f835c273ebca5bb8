#![allow(unused)]

use windlass::prelude::*;

#[flow]
async fn nothing(cx: &Flow) {}

#[flow]
async fn plain(cx: &Flow) -> u32 {
    1
}

#[flow]
async fn borrowed(cx: &Flow) -> Result<&str> {
    Ok("")
}

#[flow]
async fn opaque(cx: &Flow) -> Result<impl Sized> {
    Ok(1)
}

fn main() {}
