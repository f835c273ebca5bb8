#![allow(unused)]

use windlass::prelude::*;

#[workflow]
mod two_ends {
    use super::*;

    #[task]
    async fn left() -> Result<u32> {
        Ok(1)
    }

    #[task]
    async fn right() -> Result<u32> {
        Ok(2)
    }
}

#[workflow]
mod no_end {
    use super::*;

    #[task(when = context("go") == true)]
    async fn perhaps() -> Result<u32> {
        Ok(1)
    }
}

#[workflow(output = lod)]
mod misspelt {
    use super::*;

    #[task]
    async fn load() -> Result<u32> {
        Ok(1)
    }
}

#[workflow]
mod nothing {}

fn main() {}
