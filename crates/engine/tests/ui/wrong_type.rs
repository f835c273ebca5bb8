#![allow(unused)]

use windlass::prelude::*;

#[workflow]
mod etl {
    use super::*;

    #[task]
    async fn extract() -> Result<Vec<String>> {
        Ok(vec![])
    }

    #[task]
    async fn borrowed(extract: &[u32]) -> Result<usize> {
        Ok(extract.len())
    }

    #[task]
    async fn owned(extract: u32, borrowed: usize) -> Result<usize> {
        Ok(1)
    }

    #[task]
    async fn optional(extract: Option<u32>, owned: usize) -> Result<usize> {
        Ok(1)
    }
}

fn main() {}
