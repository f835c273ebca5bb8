#![allow(unused)]

use windlass::prelude::*;

struct Point {
    x: u32,
}

#[workflow]
mod etl {
    use super::*;

    #[task]
    async fn first(Point { x }: Point, context: Context, cx: &mut Cx) -> Result<u32> {
        Ok(x)
    }

    #[task]
    async fn second<T>(item: u32, first: &mut u32) -> Result<u32> {
        Ok(item)
    }
}

#[task]
async fn third(&self, input: impl Into<String>) -> Result<u32> {
    Ok(1)
}

fn main() {}
