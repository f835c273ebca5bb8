#![allow(unused)]

use windlass::prelude::*;

#[workflow(output = text)]
mod etl {
    use super::*;

    #[task]
    async fn nothing() {}

    #[task]
    async fn text(input: &str) -> Result<&str> {
        Ok(input)
    }

    #[task]
    async fn opaque() -> Result<impl Sized> {
        Ok(1)
    }
}

#[workflow]
mod plain {
    use super::*;

    #[task]
    async fn number() -> u32 {
        1
    }
}

struct Oops;

#[workflow]
mod strange_error {
    use super::*;

    #[task]
    async fn number() -> Result<u32, Oops> {
        Err(Oops)
    }
}

type Number = u32;

#[workflow]
mod behind_a_name {
    use super::*;

    #[task]
    async fn number() -> Number {
        1
    }
}

fn main() {}
