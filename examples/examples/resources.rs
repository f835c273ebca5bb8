//! How do tasks get at pools, clients and settings?

use windlass::prelude::*;

/// Anything that is `Send + Sync` can be a resource. Tasks find it by its type.
struct Mailer {
    sender: String,
}

#[workflow]
mod welcome {
    use super::*;

    #[task]
    pub async fn send(input: &str, mailer: Res<Mailer>) -> Result<String> {
        // Read from WINDLASS_VAR_GREETING.
        let greeting: String = windlass::var("GREETING")?;
        // An optional one, from WINDLASS_VAR_COPIES.
        let copies: u32 = windlass::var_or("COPIES", 1)?;
        Ok(format!("{greeting}, {input}! ({copies} from {})", mailer.sender))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let builder = || Engine::open("sqlite::memory:").workflow(welcome::workflow()).var::<String>("GREETING");

    // What is missing is found before anything runs, all of it at once.
    if let Err(error) = builder().launch().await {
        println!("{error}");
    }
    match builder().resource(Mailer { sender: "team@example.com".into() }).launch().await {
        Ok(engine) => {
            println!("{}", engine.start(welcome::workflow(), "Ada".to_owned()).await?.await?);
            engine.stop().await?;
        }
        Err(error) => println!("{error}\ntry: WINDLASS_VAR_GREETING=Hello cargo run --example resources"),
    }
    Ok(())
}
