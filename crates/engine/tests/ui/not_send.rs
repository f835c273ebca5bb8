#![allow(unused)]

use std::rc::Rc;

use windlass::prelude::*;

#[workflow]
mod etl {
    use super::*;

    #[task]
    async fn extract() -> Result<u32> {
        let held = Rc::new(1);
        std::future::ready(()).await;
        Ok(*held)
    }
}

fn main() {}
