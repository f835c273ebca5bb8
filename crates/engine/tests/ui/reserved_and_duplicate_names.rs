#![allow(unused)]

use windlass::prelude::*;

#[workflow(output = load)]
mod etl {
    use super::*;

    #[task]
    async fn input() -> Result<u32> {
        Ok(1)
    }

    #[task(name = "load")]
    async fn store() -> Result<u32> {
        Ok(1)
    }

    #[task]
    async fn load() -> Result<u32> {
        Ok(1)
    }

    #[task(name = "two words")]
    async fn third() -> Result<u32> {
        Ok(1)
    }

    fn workflow() {}
}

fn main() {}
