//! What is the smallest program?

use windlass::prelude::*;

#[workflow]
mod hello {
    use super::*;

    #[task]
    pub async fn greet(input: &str) -> Result<String> {
        Ok(format!("Hello, {input}!"))
    }

    /// A parameter with the name of a task is that task's result: this is the dependency.
    #[task]
    pub async fn shout(greet: &str) -> Result<String> {
        Ok(greet.to_uppercase())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(hello::workflow()).launch().await?;
    let run = engine.start(hello::workflow(), "world".to_owned()).await?;
    println!("{}", run.await?);
    engine.stop().await?;
    Ok(())
}
