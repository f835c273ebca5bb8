//! How do tasks share data beside their results?

use serde_json::json;
use windlass::prelude::*;

#[workflow(output = summary)]
mod scoring {
    use super::*;

    #[task]
    pub async fn fetch(context: &mut Context) -> Result<()> {
        context.insert("scores", json!({ "base": 10 }))?;
        context.set("source", "fetch")?;
        Ok(())
    }

    // These two run side by side. Each records only what it changes.
    #[task(after = [fetch])]
    pub async fn speed(context: &mut Context) -> Result<()> {
        context.update("scores", json!({ "speed": 7 }))?;
        context.set("source", "speed")?;
        Ok(())
    }

    #[task(after = [fetch])]
    pub async fn style(context: &mut Context) -> Result<()> {
        context.update("scores", json!({ "style": 5 }))?;
        Ok(())
    }

    /// By default the later dependency wins, key by key. `style` did not touch `source`, so it is still `speed`.
    #[task(after = [speed, style])]
    pub async fn plain(context: &Context) -> Result<String> {
        Ok(format!(
            "{} from {}",
            context.get::<serde_json::Value>("scores")?,
            context.get::<String>("source")?
        ))
    }

    /// With `merge = deep`, objects are joined.
    #[task(after = [speed, style], merge = deep)]
    pub async fn deep(context: &Context) -> Result<String> {
        Ok(context.get::<serde_json::Value>("scores")?.to_string())
    }

    #[task]
    pub async fn summary(plain: &str, deep: &str, context: &Context) -> Result<String> {
        Ok(format!("plain: {plain}\ndeep:  {deep}\nasked by {}", context.get::<String>("who")?))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("sqlite::memory:").workflow(scoring::workflow()).launch().await?;
    let run = engine.start(scoring::workflow(), ()).context(json!({ "who": "ada" })).await?;
    println!("{}", run.await?);
    engine.stop().await?;
    Ok(())
}
