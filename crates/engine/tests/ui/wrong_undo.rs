#![allow(unused_variables)]

use windlass::prelude::*;

#[workflow]
mod etl {
    use super::*;

    #[task]
    pub async fn load(input: u32) -> Result<u32> {
        Ok(input)
    }

    #[undo(laod)]
    pub async fn misspelt() -> Result<()> {
        Ok(())
    }

    #[undo]
    pub async fn nameless() -> Result<()> {
        Ok(())
    }

    #[undo(load, retries(attempts = 3))]
    pub async fn first(load: u32) -> Result<()> {
        Ok(())
    }

    #[undo(load)]
    pub fn second(load: Outcome<u32>, extract: u32, item: u32, context: &mut Context) -> Result<()> {
        Ok(())
    }

    #[task]
    #[undo(load)]
    pub async fn both(load: u32) -> Result<()> {
        Ok(())
    }
}

#[workflow]
mod typed {
    use super::*;

    #[task]
    pub async fn load(input: u32) -> Result<u32> {
        Ok(input)
    }

    #[undo(load)]
    pub async fn unload(load: String) -> Result<()> {
        Ok(())
    }
}

#[undo(load)]
async fn alone(load: u32) -> Result<()> {
    Ok(())
}

fn main() {}
