//! Triggers that cannot be meant.

use windlass::prelude::*;

struct Inbox;

#[workflow]
mod etl {
    use super::*;

    #[task]
    pub async fn load(input: u32) -> Result<u32> {
        Ok(input)
    }
}

#[trigger(every = "5 seconds", start = etl)]
async fn misspelt() -> Result<Fire<u32>> {
    Ok(Fire::Skip)
}

#[trigger(starts = etl)]
async fn never_asked() -> Result<Fire<u32>> {
    Ok(Fire::Skip)
}

#[trigger(every = "5s", cron = "0 2 * * *", timezone = "UTC", starts = "etl")]
fn two_ways(inbox: &Inbox) -> Result<Fire<u32>> {
    Ok(Fire::Skip)
}

#[trigger(every = "5s", starts = etl)]
async fn another_input() -> Result<Fire<String>> {
    Ok(Fire::run(String::new()))
}

#[trigger(every = "5s", starts = etl)]
async fn no_answer() {}

#[trigger(every = "5s", starts = etl)]
struct NoFunction;

fn main() {}
