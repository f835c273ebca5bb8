//! Tenants in the files of a folder: what is taken for one, and what is left of one.

use std::{fs, path::PathBuf, sync::Arc};

use windlass_sqlite::{Folder, OpenError, Sqlite};
use windlass_store::{DefinitionRow, Removal, Store, Tenancy, TenantError, TenantName};

struct Scene {
    directory: tempfile::TempDir,
    folder: Folder,
}

impl Scene {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::open(&format!("sqlite://{}", directory.path().display())).await.unwrap();
        Self { directory, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn create(&self, tenant: &str) -> String {
        self.folder.create(name(tenant)).await.unwrap()
    }

    async fn remove(&self, tenant: &str) -> Result<bool, TenantError> {
        self.folder.remove(name(tenant), Removal::Unserved).await
    }
}

fn name(tenant: &str) -> TenantName {
    tenant.parse().unwrap()
}

/// Something to be found again.
async fn mark(store: &Sqlite, workflow: &str) {
    let row = DefinitionRow { workflow: Arc::from(workflow), version: Arc::from("1"), body: "{}".into() };
    let id = store.define(row.clone()).await.unwrap();
    assert_eq!(store.definition(id).await.unwrap(), Some(row));
}

/// How many things were marked in a tenant.
async fn marks(url: &str) -> usize {
    let store = Sqlite::open(url).await.unwrap();
    let mut count = 0;
    while store.definition(windlass_store::DefinitionId(count + 1)).await.unwrap().is_some() {
        count += 1;
    }
    store.close().await;
    usize::try_from(count).unwrap()
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_to_another_tenant_is_no_tenant() {
    let scene = Scene::new().await;
    let url = scene.create("acme").await;
    mark(&Sqlite::open(&url).await.unwrap(), "chain").await;
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(scene.path("windlass_acme.db"), scene.path("windlass_beta.db")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("x.db"), scene.path("windlass_gamma.db")).unwrap();
    fs::create_dir(scene.path("windlass_delta.db")).unwrap();

    assert_eq!(scene.folder.list().await.unwrap(), [name("acme")]);
    for tenant in ["beta", "gamma", "delta"] {
        for answer in [scene.folder.create(name(tenant)).await, scene.folder.find(name(tenant)).await] {
            let error = answer.unwrap_err().to_string();
            assert!(error.contains(&format!("windlass_{tenant}.db")) && error.contains("a link"), "{error}");
        }
        assert!(scene.remove(tenant).await.is_err());
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "nothing was made outside");
    assert_eq!(marks(&url).await, 1);
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_may_be_reached_through_a_link_and_have_any_name() {
    let directory = tempfile::tempdir().unwrap();
    let real = directory.path().join("mode=rw? 100%");
    fs::create_dir(&real).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let folder = Folder::open(link.to_str().unwrap()).await.unwrap();
    let url = folder.create(name("acme")).await.unwrap();
    assert!(real.join("windlass_acme.db").is_file());
    assert_eq!(marks(&url).await, 0);
    assert_eq!(folder.find(name("acme")).await.unwrap(), url);
}

#[tokio::test]
async fn other_files_of_the_folder_are_not_taken_for_tenants() {
    let scene = Scene::new().await;
    for file in ["app.db", "windlass_Acme.db", "windlass_.db", "windlass_acme.db-wal", "windlass_acme.db.bak"]
    {
        fs::write(scene.path(file), "").unwrap();
    }
    assert_eq!(scene.folder.list().await.unwrap(), []);
    let error = scene.folder.find(name("acme")).await.unwrap_err();
    assert!(matches!(error, TenantError::Unknown(_)), "{error}");
}

#[tokio::test]
async fn a_creation_that_was_killed_half_way_is_gone_on_with() {
    let scene = Scene::new().await;
    fs::write(scene.path("windlass_acme.db"), "").unwrap();
    let url = scene.create("acme").await;
    let store = Sqlite::open(&url).await.unwrap();
    mark(&store, "chain").await;
    store.close().await;
    assert_eq!(scene.create("acme").await, url);
    assert_eq!(marks(&url).await, 1);
}

#[tokio::test]
async fn what_a_removal_that_was_killed_half_way_left_is_no_part_of_the_next_tenant() {
    let scene = Scene::new().await;
    let url = scene.create("acme").await;
    let store = Sqlite::open(&url).await.unwrap();
    mark(&store, "chain").await;
    let (log, kept) = (scene.path("windlass_acme.db-wal"), scene.path("kept"));
    fs::copy(&log, &kept).unwrap();
    assert!(fs::metadata(&kept).unwrap().len() > 0);
    store.close().await;
    drop(store);
    // The file itself goes first, so this is what a kill leaves.
    assert!(scene.remove("acme").await.unwrap());
    fs::rename(&kept, &log).unwrap();
    assert_eq!(scene.folder.list().await.unwrap(), []);

    let url = scene.create("acme").await;
    assert_eq!(marks(&url).await, 0, "what was removed came back");
    assert!(scene.remove("acme").await.unwrap());
    fs::write(&log, "left").unwrap();
    assert!(!scene.remove("acme").await.unwrap());
    assert!(!log.exists(), "asking again clears it away");
}

#[tokio::test]
async fn a_tenant_that_somebody_has_open_is_not_removed_and_one_of_a_dead_process_is() {
    let scene = Scene::new().await;
    let url = scene.create("acme").await;
    let store = Sqlite::open(&url).await.unwrap();
    let error = scene.remove("acme").await.unwrap_err();
    assert!(
        matches!(&error, TenantError::InUse { by, .. } if by.contains(&std::process::id().to_string())),
        "{error}"
    );
    mark(&store, "chain").await;
    store.close().await;
    drop(store);
    fs::write(scene.path("windlass_acme.db-locks").join("open-1-1"), "").unwrap();
    assert!(scene.remove("acme").await.unwrap());
    assert!(!scene.path("windlass_acme.db").exists());
}

#[tokio::test]
async fn the_url_of_a_tenant_never_makes_it_again() {
    let scene = Scene::new().await;
    let url = scene.create("acme").await;
    assert!(scene.remove("acme").await.unwrap());
    fs::remove_dir_all(scene.path("windlass_acme.db-locks")).unwrap();
    let error = Sqlite::open(&url).await.unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert_eq!(fs::read_dir(scene.directory.path()).unwrap().count(), 0, "not even its locks");
}

/// The turn to write, which a removal takes too.
struct Turn {
    locks: PathBuf,
    main: fs::File,
}

impl Turn {
    fn take(scene: &Scene) -> Self {
        let locks = scene.path("windlass_acme.db-locks");
        let main = fs::File::open(locks.join("main")).unwrap();
        main.lock().unwrap();
        Self { locks, main }
    }

    /// Waits until somebody is about to open the tenant.
    async fn until_opening(&self) {
        let is_open = |entry: fs::DirEntry| entry.file_name().to_str().unwrap().starts_with("open-");
        while !fs::read_dir(&self.locks).unwrap().any(|entry| is_open(entry.unwrap())) {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until somebody stands in line.
    async fn until_awaited(&self) {
        let next = fs::File::open(self.locks.join("next")).unwrap();
        while next.try_lock().is_ok() {
            next.unlock().unwrap();
            tokio::task::yield_now().await;
        }
    }

    fn pass_on(self) {
        self.main.unlock().unwrap();
    }
}

#[tokio::test]
async fn a_tenant_that_is_removed_while_it_is_opened_is_not_made_again() {
    let scene = Scene::new().await;
    let (url, file) = (scene.create("acme").await, scene.path("windlass_acme.db"));
    let turn = Turn::take(&scene);
    let opening = tokio::spawn(async move { Sqlite::open(&url).await.map(drop) });
    turn.until_opening().await;
    fs::remove_file(&file).unwrap();
    turn.pass_on();
    let error = opening.await.unwrap().unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert!(!file.exists());
}

#[tokio::test]
async fn a_tenant_that_is_opened_while_it_is_removed_is_left_alone() {
    let scene = Arc::new(Scene::new().await);
    let url = scene.create("acme").await;
    let turn = Turn::take(&scene);
    let remover = Arc::clone(&scene);
    let removing = tokio::spawn(async move { remover.remove("acme").await });
    turn.until_awaited().await;
    let opening = tokio::spawn(async move { Sqlite::open(&url).await });
    turn.until_opening().await;
    turn.pass_on();
    let store = opening.await.unwrap().unwrap();
    assert!(matches!(removing.await.unwrap(), Err(TenantError::InUse { .. })));
    mark(&store, "chain").await;
    assert!(scene.path("windlass_acme.db").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_opens_a_tenant_while_it_is_made_and_removed_has_a_whole_one_or_none() {
    const ROUNDS: usize = 40;
    let scene = Arc::new(Scene::new().await);
    let file = scene.path("windlass_acme.db");
    let opener = |number: usize| {
        let (scene, file) = (Arc::clone(&scene), file.clone());
        tokio::spawn(async move {
            let mut opened = 0;
            for round in 0..ROUNDS {
                let url = scene.create("acme").await;
                let store = match Sqlite::open(&url).await {
                    Ok(store) => store,
                    Err(OpenError::Missing { .. }) => continue,
                    Err(error) => panic!("{error}"),
                };
                mark(&store, &format!("chain-{number}-{round}")).await;
                assert!(file.exists(), "it was removed from under an open handle");
                store.close().await;
                opened += 1;
            }
            opened
        })
    };
    let remover = || {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                match scene.remove("acme").await {
                    Ok(_) | Err(TenantError::InUse { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
    };
    let (first, second, third, fourth) = (opener(1), opener(2), remover(), remover());
    assert!(first.await.unwrap() + second.await.unwrap() > 0);
    third.await.unwrap();
    fourth.await.unwrap();
    scene.remove("acme").await.unwrap();
    assert_eq!(scene.folder.list().await.unwrap(), []);
}
