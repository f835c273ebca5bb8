#![allow(unused)]

use windlass::prelude::*;

#[workflow(nam = "etl", timeout = "1 hour", durability = "fast")]
mod etl {
    use super::*;

    #[task(retries = 3)]
    async fn a() -> Result<u32> {
        Ok(1)
    }

    #[task(retry = 3)]
    async fn b(a: u32) -> Result<u32> {
        Ok(1)
    }

    #[task(retry(attempts = 0, delay = 5, backof = fixed, on = sometimes, jitter = 3))]
    async fn c(b: u32) -> Result<u32> {
        Ok(1)
    }

    #[task(timeout = "30", timeout = "40s", after = a, limit = 3)]
    async fn d(c: u32) -> Result<u32> {
        Ok(1)
    }

    #[task(queue = gpu, merge = shallow, for_each)]
    async fn e(d: u32) -> Result<u32> {
        Ok(1)
    }
}

fn main() {}
