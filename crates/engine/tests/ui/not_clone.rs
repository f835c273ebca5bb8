#![allow(unused)]

use serde::{Deserialize, Serialize};
use windlass::prelude::*;

#[derive(Serialize, Deserialize)]
pub struct User;

#[workflow]
mod etl {
    use super::*;

    #[task]
    async fn extract() -> Result<User> {
        Ok(User)
    }

    #[task]
    async fn load(extract: User) -> Result<()> {
        drop(extract);
        Ok(())
    }
}

fn main() {}
