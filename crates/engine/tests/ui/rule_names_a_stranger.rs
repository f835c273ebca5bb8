#![allow(unused)]

use windlass::prelude::*;

#[workflow(output = load)]
mod etl {
    use super::*;

    #[task]
    async fn extract() -> Result<u32> {
        Ok(1)
    }

    #[task]
    async fn load(extract: u32) -> Result<u32> {
        Ok(extract)
    }

    #[task(when = failed(extract))]
    async fn report(load: Option<u32>) -> Result<()> {
        Ok(())
    }

    #[task(when = faild(load))]
    async fn misspelt(load: Option<u32>) -> Result<()> {
        Ok(())
    }

    #[task(when = context("dry_run"))]
    async fn uncompared() -> Result<()> {
        Ok(())
    }
}

fn main() {}
