//! Making and finding tenants.

use windlass::{Tenants, prelude::*};

use crate::{
    on_every_store,
    place::{Kind, Place, double},
};

on_every_store!(
    a_tenant_is_made_once_however_many_ask_for_it,
    no_name_leads_out_of_its_place,
    a_tenant_that_is_not_there_is_an_error_with_a_hint,
    all_are_migrated_while_engines_serve_them,
    nothing_shows_the_way_in_by_accident,
);

async fn a_tenant_is_made_once_however_many_ask_for_it(place: &Place) -> Result<()> {
    let make = |_| {
        let tenants = place.tenants.clone();
        tokio::spawn(async move { tenants.create("acme").await })
    };
    let asked: Vec<_> = (0..8).map(make).collect();
    let mut urls = Vec::new();
    for made in asked {
        urls.push(made.await??.url().to_owned());
    }
    urls.dedup();
    assert_eq!(urls.len(), 1, "they got different tenants");
    assert_eq!(place.tenants.list().await?, ["acme"]);

    // Made again, it keeps what it has.
    let acme = place.tenants.get("acme").await?;
    let engine = acme.engine().workflow(double::workflow()).launch().await?;
    assert_eq!(engine.start(double::workflow(), 4).await?.await?, 8);
    let again = place.tenants.create("acme").await?;
    assert_eq!((again.url(), again.name()), (acme.url(), "acme"));
    assert_eq!(again.client().await?.runs().list().await?.len(), 1);
    engine.stop().await?;
    Ok(())
}

async fn no_name_leads_out_of_its_place(place: &Place) -> Result<()> {
    let tenants = &place.tenants;
    tenants.create("acme").await?;
    let long = "x".repeat(41);
    for name in [
        "",
        "../x",
        "..",
        "acme/../acme",
        "/acme",
        "a\\b",
        "acme.db",
        "Acme",
        "ACME",
        "größe",
        "аcme",
        "a b",
        "a\0",
        "a\"; DROP SCHEMA windlass_acme CASCADE; --",
        "a'--",
        "%61cme",
        "acme?mode=rwc",
        "-rf",
        "_acme",
        &long,
    ] {
        for refused in [
            tenants.create(name).await.err(),
            tenants.get(name).await.err(),
            tenants.rotate(name).await.err(),
            tenants.remove(name).await.err(),
            tenants.remove_by_force(name).await.err(),
        ] {
            let error = refused.unwrap_or_else(|| panic!("{name:?} was taken for a tenant"));
            assert_eq!(error.code(), "invalid", "{error}");
            assert!(
                error.to_string().contains("lower-case letters (a to z), digits, `-` and `_`"),
                "{error}"
            );
        }
    }
    assert_eq!(tenants.list().await?, ["acme"]);
    // Names that are near the edge.
    for name in ["a", "7", "a-b_c", "con", &long[..40], "acme_1", "acme-1"] {
        let tenant = tenants.create(name).await?;
        assert_eq!(tenant.client().await?.runs().list().await?.len(), 0);
    }
    assert_eq!(tenants.list().await?.len(), 8);
    Ok(())
}

async fn a_tenant_that_is_not_there_is_an_error_with_a_hint(place: &Place) -> Result<()> {
    assert_eq!(place.tenants.list().await?, [""; 0]);
    place.tenants.create("acme").await?;
    let error = place.tenants.get("acne").await.unwrap_err();
    assert_eq!(error.code(), "unknown_tenant");
    assert!(error.to_string().contains("`create` makes it; did you mean `acme`?"), "{error}");
    assert!(!place.tenants.remove("acne").await?);
    assert_eq!(place.tenants.list().await?, ["acme"]);
    Ok(())
}

async fn all_are_migrated_while_engines_serve_them(place: &Place) -> Result<()> {
    place.tenants.migrate_all().await?;
    let (acme, _) = (place.tenants.create("acme").await?, place.tenants.create("beta").await?);
    let engine = acme.engine().workflow(double::workflow()).launch().await?;
    let runs = engine.start_many(double::workflow(), 0..100).await?;
    place.tenants.migrate_all().await?;
    for id in runs {
        engine.run(&double::workflow(), id).await?;
    }
    engine.stop().await?;
    Ok(())
}

async fn nothing_shows_the_way_in_by_accident(place: &Place) -> Result<()> {
    let acme = place.tenants.create("acme").await?;
    let shown = format!("{:?} {:?} {:?}", acme, place.tenants, acme.client().await?);
    if let Some((way_in, _)) = acme.url().split_once('@') {
        let password = way_in.rsplit_once(':').ok_or("a password is after a colon")?.1;
        assert!(password.len() == 64 && !shown.contains(password), "{shown}");
    }
    assert!(!shown.contains("secret"), "{shown}");
    Ok(())
}

#[tokio::test]
async fn a_place_that_cannot_hold_tenants_is_refused_with_the_way_out() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("app.db");
    std::fs::write(&file, "")?;
    let at = |path: &std::path::Path| format!("sqlite://{}", path.display());
    for (url, word) in [
        ("sqlite::memory:".to_owned(), "name a folder"),
        (at(&file), "it is a file"),
        (at(&folder.path().join("nowhere")), "make it first"),
        (format!("{}?mode=rw", at(folder.path())), "leave `mode` out"),
        ("mysql://db/app".to_owned(), "does not name a store"),
    ] {
        let error = Tenants::open(url).await.unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    let error = Tenants::open(at(folder.path())).secret("x".repeat(32)).await.unwrap_err();
    assert!(error.to_string().contains("leave `secret` out"), "{error}");
    Ok(())
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_secret_that_is_missing_or_can_be_guessed_is_refused() -> Result<()> {
    let place = Place::database().await?;
    let Kind::Database(database) = &place.kind else { unreachable!("it was asked for") };
    let error = Tenants::open(&database.url).await.unwrap_err();
    assert!(error.code() == "invalid" && error.to_string().contains("`.secret(…)`"), "{error}");
    let error = Tenants::open(&database.url).secret("short").await.unwrap_err();
    assert!(error.code() == "invalid" && error.to_string().contains("32 or more"), "{error}");
    Ok(())
}

#[tokio::test]
async fn the_options_of_a_folder_hold_for_its_tenants() -> Result<()> {
    let place = Place::folder().await?;
    let Kind::Folder(folder) = &place.kind else { unreachable!("it was asked for") };
    let url = format!("sqlite://{}?synchronous=normal", folder.path().display());
    let acme = Tenants::open(url).await?.create("acme").await?;
    assert!(acme.url().ends_with("/windlass_acme.db?mode=rw&synchronous=normal"), "{}", acme.url());
    Ok(())
}
