#![allow(unused)]

use windlass::prelude::*;

#[workflow]
fn not_a_module() {}

#[task]
struct NotAFunction;

#[workflow]
mod etl {
    use super::*;

    #[task]
    struct NotAFunctionEither;

    #[cfg(unix)]
    #[task]
    async fn sometimes() -> Result<u32> {
        Ok(1)
    }
}

#[task(name = "other")]
async fn alone() -> Result<u32> {
    Ok(1)
}

fn main() {}
