//! Tenants that work side by side.

use windlass::prelude::*;

use crate::{
    on_every_store,
    place::{Place, double},
};

on_every_store!(
    a_run_of_one_tenant_is_unknown_to_the_other,
    equal_keys_of_two_tenants_are_two_runs,
    one_is_removed_while_the_other_works,
);

async fn a_run_of_one_tenant_is_unknown_to_the_other(place: &Place) -> Result<()> {
    let (acme, beta) = (place.tenants.create("acme").await?, place.tenants.create("beta").await?);
    let acme = acme.engine().workflow(double::workflow()).launch().await?;
    let client = beta.client().await?;
    let run = acme.start(double::workflow(), 7).await?;
    let id = run.id();
    assert_eq!(run.await?, 14);

    let stranger = || client.run(&double::workflow(), id);
    let answers = [
        stranger().status().await.err(),
        stranger().cancel("not yours").await.err(),
        stranger().pause().await.err(),
        stranger().retry().await.err(),
        stranger().result::<u32>("twice").await.err(),
        stranger().fork_from("twice").await.err(),
        stranger().await.err(),
    ];
    for error in answers {
        assert_eq!(error.map(|error| error.code()), Some("unknown_run"));
    }
    assert_eq!(client.runs().list().await?.len(), 0);
    assert_eq!(client.nodes().await?.len(), 0, "the other's processes are not shown either");
    assert_eq!(acme.runs().list().await?.len(), 1);
    acme.stop().await?;
    Ok(())
}

async fn equal_keys_of_two_tenants_are_two_runs(place: &Place) -> Result<()> {
    let (acme, beta) = (place.tenants.create("acme").await?, place.tenants.create("beta").await?);
    let launch =
        |tenant: &windlass::Tenant| tenant.engine().name("web-1").workflow(double::workflow()).launch();
    // Not even the name of an engine is shared: the second does not fence the first.
    let (acme, beta) = (launch(&acme).await?, launch(&beta).await?);
    let one = acme.start(double::workflow(), 1).key("order-1").await?;
    let other = beta.start(double::workflow(), 2).key("order-1").await?;
    assert_ne!(one.id(), other.id());
    assert_eq!((one.await?, other.await?), (2, 4));
    let again = acme.start(double::workflow(), 1).key("order-1").await?;
    assert_eq!(again.await?, 2);
    acme.stop().await?;
    beta.stop().await?;
    Ok(())
}

async fn one_is_removed_while_the_other_works(place: &Place) -> Result<()> {
    let (acme, beta) = (place.tenants.create("acme").await?, place.tenants.create("beta").await?);
    let launch = |tenant: &windlass::Tenant| tenant.engine().workflow(double::workflow()).launch();
    let (acme, beta) = (launch(&acme).await?, launch(&beta).await?);
    let work = |engine: &Engine| engine.start_many(double::workflow(), 0..300);
    let (mine, theirs) = tokio::try_join!(work(&acme), work(&beta))?;
    for id in &mine {
        acme.run(&double::workflow(), *id).await?;
    }
    acme.stop().await?;
    drop(acme);

    let more = work(&beta).await?;
    let (removed, ran) = tokio::join!(place.tenants.remove("acme"), async {
        for id in theirs.iter().chain(&more) {
            beta.run(&double::workflow(), *id).await?;
        }
        Ok::<_, Failure>(())
    });
    assert!(removed?);
    ran?;
    assert_eq!(place.tenants.list().await?, ["beta"]);
    assert_eq!(beta.runs().limit(1000).list().await?.len(), 600);
    beta.stop().await?;
    Ok(())
}
