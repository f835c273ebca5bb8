#![allow(unused)]

use windlass::prelude::*;

#[task]
async fn fetch() -> Result<u32> {
    Ok(1)
}

fn main() {
    let _ = compose! { tasks: [fetch, fetch] };
    let _ = compose! { name: "scoring", task: [fetch] };
    let _ = compose! { name = "scoring", tasks: [fetch], output: fetsh };
}
