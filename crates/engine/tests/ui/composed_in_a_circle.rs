#![allow(unused)]

use windlass::prelude::*;

#[task]
async fn first(second: u32) -> Result<u32> {
    Ok(second)
}

#[task]
async fn second(first: u32) -> Result<u32> {
    Ok(first)
}

#[task]
async fn left() -> Result<u32> {
    Ok(1)
}

#[task]
async fn right() -> Result<u32> {
    Ok(1)
}

fn main() {
    let _circle = compose! { name: "circle", tasks: [first, second, left] };
    let _ends = compose! { name: "ends", tasks: [left, right] };
}
