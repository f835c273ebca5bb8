#![allow(unused)]

use windlass::prelude::*;

struct Transaction;

mod postgres {
    pub(crate) use super::Transaction;
}

mod sqlite {
    pub(crate) use super::Transaction;
}

#[workflow(output = f)]
mod pay {
    use super::*;

    #[task]
    async fn a(tx: Transaction) -> Result<u32> {
        Ok(1)
    }

    #[task]
    async fn b(a: u32, tx: &mut postgres::Transaction) -> Result<u32> {
        Ok(1)
    }

    #[task]
    async fn c(b: u32, tx: &sqlite::Transaction) -> Result<u32> {
        Ok(1)
    }

    #[task]
    fn d(c: u32, tx: &postgres::Transaction) -> Result<u32> {
        Ok(1)
    }

    #[task(isolation = serializable)]
    async fn e(d: u32) -> Result<u32> {
        Ok(1)
    }

    #[task(isolation = snapshot)]
    async fn f(e: u32, tx: &postgres::Transaction) -> Result<u32> {
        Ok(1)
    }

    #[task(isolation = serializable)]
    fn g(f: u32, tx: &sqlite::Transaction) -> Result<u32> {
        Ok(1)
    }

    #[task]
    fn tx(g: u32) -> Result<u32> {
        Ok(1)
    }
}

fn main() {}
