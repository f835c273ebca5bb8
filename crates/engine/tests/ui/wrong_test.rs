#![allow(unused)]

use windlass::prelude::*;

#[windlass::test]
fn not_async() {}

#[windlass::test]
async fn two(lab: u32, other: u32) -> Result<()> {
    Ok(())
}

fn main() {}
