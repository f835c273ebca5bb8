#![allow(unused)]

use windlass::prelude::*;

#[workflow(output = load)]
mod etl {
    use super::*;

    #[task]
    async fn extract() -> Result<Vec<u32>> {
        Ok(vec![])
    }

    #[task]
    async fn load(extract: Vec<u32>) -> Result<usize> {
        Ok(extract.len())
    }

    #[task(when = any(failed(load), context("dry_run") == true))]
    async fn report(load: usize) -> Result<()> {
        Ok(())
    }

    #[task(when = always, for_each = extract)]
    async fn each(item: &u32) -> Result<()> {
        Ok(())
    }
}

fn main() {}
