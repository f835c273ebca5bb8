#![allow(unused)]

use windlass::prelude::*;

#[workflow]
mod etl {
    use super::*;

    #[task]
    async fn extract() -> Result<std::collections::BTreeSet<u32>> {
        Ok([1].into())
    }

    #[task(for_each = extract)]
    async fn each(item: &u32) -> Result<u32> {
        Ok(*item)
    }
}

fn main() {}
