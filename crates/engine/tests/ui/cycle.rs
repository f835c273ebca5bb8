#![allow(unused)]

use windlass::prelude::*;

#[workflow]
mod circle {
    use super::*;

    #[task]
    async fn first(third: u32) -> Result<u32> {
        Ok(third)
    }

    #[task]
    async fn second(first: u32) -> Result<u32> {
        Ok(first)
    }

    #[task]
    async fn third(second: u32) -> Result<u32> {
        Ok(second)
    }
}

#[workflow]
mod own_tail {
    use super::*;

    #[task]
    async fn snake(snake: u32) -> Result<u32> {
        Ok(snake)
    }
}

fn main() {}
