#![allow(unused)]

use windlass::prelude::*;

struct Transaction;

#[workflow]
mod pay {
    use super::*;

    #[task]
    async fn charge(tx: &Transaction) -> Result<u32> {
        Ok(1)
    }
}

#[workflow]
mod book {
    use super::*;

    #[task]
    fn enter(tx: &Transaction) -> Result<u32> {
        Ok(1)
    }
}

fn main() {}
