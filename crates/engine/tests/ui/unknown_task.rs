#![allow(unused)]

use windlass::prelude::*;

#[workflow]
mod etl {
    use super::*;

    #[task]
    pub async fn extract(input: u32) -> Result<Vec<u32>> {
        Ok(vec![input])
    }

    #[task]
    pub async fn clean(exract: &[u32]) -> Result<Vec<u32>> {
        Ok(exract.to_vec())
    }

    #[task(after = [claen])]
    pub async fn load(clean: &[u32], pool: u64) -> Result<usize> {
        Ok(clean.len())
    }

    #[task(for_each = nothing_like_it)]
    pub async fn enrich(item: u32, _extract: &[u32]) -> Result<u32> {
        Ok(item)
    }
}

fn main() {
    etl::workflow();
}
