//! The end of a tenant.

use windlass::prelude::*;

use crate::{
    on_every_store,
    place::{Place, double},
};

on_every_store!(
    a_tenant_that_is_served_is_not_removed,
    what_was_removed_stays_away_until_it_is_made_anew,
    force_takes_it_from_the_engines_where_that_can_be_done,
);

async fn a_tenant_that_is_served_is_not_removed(place: &Place) -> Result<()> {
    let acme = place.tenants.create("acme").await?;
    let engine = acme.engine().name("web-1").workflow(double::workflow()).launch().await?;
    let error = place.tenants.remove("acme").await.unwrap_err();
    assert_eq!(error.code(), "tenant_in_use");
    let process = format!("process {}", std::process::id());
    assert!(
        error.to_string().contains(&process) && error.to_string().contains("stop its engines"),
        "{error}"
    );
    assert_eq!(engine.start(double::workflow(), 3).await?.await?, 6, "nothing was harmed");

    engine.stop().await?;
    drop(engine);
    assert!(place.tenants.remove("acme").await?);
    assert!(!place.tenants.remove("acme").await?, "a lost answer is asked for again");
    Ok(())
}

async fn what_was_removed_stays_away_until_it_is_made_anew(place: &Place) -> Result<()> {
    let acme = place.tenants.create("acme").await?;
    let engine = acme.engine().workflow(double::workflow()).launch().await?;
    let run = engine.start(double::workflow(), 3).key("order-1").await?;
    let id = run.id();
    run.await?;
    engine.stop().await?;
    drop(engine);
    assert!(place.tenants.remove("acme").await?);

    // Whoever kept the way in does not bring it back by using it.
    let error = acme.engine().workflow(double::workflow()).launch().await.unwrap_err();
    assert_eq!(error.code(), "store", "{error}");
    assert!(acme.client().await.is_err());
    assert_eq!(place.tenants.list().await?, [""; 0]);
    assert_eq!(place.tenants.get("acme").await.unwrap_err().code(), "unknown_tenant");

    let acme = place.tenants.create("acme").await?;
    let engine = acme.engine().workflow(double::workflow()).launch().await?;
    assert_eq!(engine.run(&double::workflow(), id).await.unwrap_err().code(), "unknown_run");
    let other = engine.start(double::workflow(), 4).key("order-1").await?;
    assert_eq!(other.await?, 8, "the key is free");
    engine.stop().await?;
    Ok(())
}

async fn force_takes_it_from_the_engines_where_that_can_be_done(place: &Place) -> Result<()> {
    let (acme, beta) = (place.tenants.create("acme").await?, place.tenants.create("beta").await?);
    let launch = |tenant: &windlass::Tenant| tenant.engine().workflow(double::workflow()).launch();
    let (engine, other) = (launch(&acme).await?, launch(&beta).await?);
    engine.start(double::workflow(), 1).await?.await?;
    if acme.url().starts_with("sqlite:") {
        let error = place.tenants.remove_by_force("acme").await.unwrap_err();
        assert_eq!(error.code(), "tenant_in_use");
        assert!(error.to_string().contains("cannot be taken from a living process"), "{error}");
        assert_eq!(engine.start(double::workflow(), 1).await?.await?, 2);
    } else {
        assert!(place.tenants.remove_by_force("acme").await?);
        assert!(engine.nodes().await.is_err(), "it still has its way in");
        assert_eq!(place.tenants.list().await?, ["beta"]);
        assert!(!place.tenants.remove_by_force("acme").await?);
        // It has nothing to hand over any more, and says so.
        assert!(engine.stop_now().await.is_err());
    }
    assert_eq!(other.start(double::workflow(), 2).await?.await?, 4);
    other.stop().await?;
    Ok(())
}
