#![allow(unused)]

use windlass::prelude::*;

#[workflow]
mod etl {
    use super::*;

    #[task]
    async fn extract(input: &str) -> Result<u32> {
        Ok(1)
    }

    #[task]
    async fn load(extract: u32, input: u64) -> Result<u32> {
        Ok(extract)
    }
}

mod other {
    pub struct Source;
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub struct Source;

#[workflow]
mod same_word {
    use super::*;

    #[task]
    async fn extract(input: Source) -> Result<u32> {
        Ok(1)
    }

    #[task]
    async fn load(extract: u32, input: other::Source) -> Result<u32> {
        Ok(extract)
    }
}

fn main() {}
