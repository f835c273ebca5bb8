#![allow(unused)]

use windlass::prelude::*;

#[task]
async fn fetch(input: u32) -> Result<String> {
    Ok(input.to_string())
}

#[task]
async fn score(fetch: &[u32]) -> Result<u32> {
    Ok(1)
}

#[task]
async fn other(input: u64, fetch: &str) -> Result<u64> {
    Ok(input)
}

#[task(for_each = fetch)]
async fn each(item: u32) -> Result<u32> {
    Ok(item)
}

fn plain() {}

fn main() {
    let _missing = compose! { name: "missing", tasks: [score] };
    let _mistyped = compose! { name: "mistyped", tasks: [fetch, score] };
    let _inputs = compose! { name: "inputs", tasks: [fetch, other] };
    let _list = compose! { name: "list", tasks: [fetch, each] };
    let _plain = compose! { name: "plain", tasks: [plain] };
}
