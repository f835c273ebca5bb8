//! How do I keep tenants apart?
//!
//! Each tenant has a file of its own in one folder. With a URL such as `postgres://admin@host/app`, and a `secret`, each
//! has a schema and a role of its own in one database, and nothing else changes.

use windlass::{Tenants, prelude::*};

#[workflow]
mod invoice {
    use super::*;

    #[task]
    pub async fn send(input: &str, company: Res<Company>) -> Result<String> {
        Ok(format!("{} sends an invoice to {input}", company.0))
    }
}

/// Every engine has resources of its own, so a tenant's code never sees another's.
struct Company(String);

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let tenants = Tenants::open(format!("sqlite://{}/", folder.path().display())).await?;

    let mut engines = Vec::new();
    for name in ["acme", "beta"] {
        // It may be there from the last start.
        let tenant = tenants.create(name).await?;
        let engine =
            tenant.engine().resource(Company(name.to_owned())).workflow(invoice::workflow()).launch().await?;
        engines.push(engine);
    }
    println!("tenants: {}", tenants.list().await?.join(", "));

    // The same key in both: two runs.
    for engine in &engines {
        let run = engine.start(invoice::workflow(), "ada".to_owned()).key("invoice-1").await?;
        println!("{}", run.await?);
    }
    let [acme, beta] = engines.as_slice() else { return Err("there are two".into()) };
    let run = acme.start(invoice::workflow(), "bob".to_owned()).await?;
    let crossed = beta.run(&invoice::workflow(), run.id()).status().await.map_err(|error| error.code());
    println!("a run of acme, asked for at beta: {}", crossed.err().unwrap_or("found"));

    for name in ["Acme", "../acme"] {
        println!("{}", tenants.get(name).await.map_err(|error| error.code()).err().unwrap_or("found"));
    }
    let refused = tenants.remove("beta").await.map_err(|error| error.code());
    println!("removing beta while it is served: {}", refused.err().unwrap_or("done"));
    for engine in engines.drain(..) {
        engine.stop().await?;
    }
    println!("removing it now: {}", tenants.remove("beta").await?);
    println!("tenants: {}", tenants.list().await?.join(", "));
    Ok(())
}
