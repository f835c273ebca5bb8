//! What is opened, what is refused, and what the refusal says.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use windlass_core::RunId;
use windlass_sqlite::{OpenError, Sqlite, SqliteOptions, Synchronous};
use windlass_store::Store;

struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("app.db")
    }

    async fn open(&self) -> Result<Sqlite, OpenError> {
        Sqlite::open(self.file().to_str().unwrap()).await
    }

    /// Makes a database, closes it, and changes it from outside.
    async fn tamper(&self, sql: &str) {
        self.open().await.unwrap().close().await;
        Connection::open(self.file()).unwrap().execute_batch(sql).unwrap();
    }

    async fn refusal(&self) -> OpenError {
        self.open().await.expect_err("it should have been refused")
    }
}

fn assert_names(error: &OpenError, file: &Path, way_out: &str) {
    let text = error.to_string();
    assert!(text.contains(file.file_name().unwrap().to_str().unwrap()), "{text}");
    assert!(text.contains(way_out), "{text}");
}

#[tokio::test]
async fn a_database_is_made_where_there_is_none_and_found_again() {
    let scene = Scene::new();
    scene.open().await.unwrap().close().await;
    let store = scene.open().await.unwrap();
    assert!(store.load(RunId::new()).await.unwrap().is_none());
    assert!(store.describe().starts_with("sqlite://"), "{}", store.describe());
    assert!(store.describe().ends_with("app.db"), "{}", store.describe());
}

#[tokio::test]
async fn an_empty_file_is_made_a_database() {
    let scene = Scene::new();
    std::fs::write(scene.file(), "").unwrap();
    scene.open().await.unwrap();
}

#[tokio::test]
async fn a_link_to_a_database_is_the_database() {
    let scene = Scene::new();
    let store = scene.open().await.unwrap();
    let link = scene.directory.path().join("link.db");
    std::os::unix::fs::symlink(scene.file(), &link).unwrap();
    let other = Sqlite::open(link.to_str().unwrap()).await.unwrap();
    assert_eq!(other.describe(), store.describe());
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let scene = Scene::new();
    let file = scene.directory.path().join("no/such/app.db");
    let error = Sqlite::open(file.to_str().unwrap()).await.unwrap_err();
    assert!(matches!(error, OpenError::NoDirectory { .. }), "{error:?}");
    assert_names(&error, &file, "make it first");
}

#[tokio::test]
async fn a_directory_is_not_a_database() {
    let scene = Scene::new();
    let error = Sqlite::open(scene.directory.path().to_str().unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("it is a directory"), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let scene = Scene::new();
    let text = "dear diary, today I wrote a durable workflow engine\n".repeat(100);
    std::fs::write(scene.file(), &text).unwrap();
    let error = scene.refusal().await;
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}");
    assert_names(&error, &scene.file(), "restore it from a backup");
    assert_eq!(std::fs::read_to_string(scene.file()).unwrap(), text);
}

#[tokio::test]
async fn a_damaged_database_is_refused() {
    let scene = Scene::new();
    scene.open().await.unwrap().close().await;
    let mut bytes = std::fs::read(scene.file()).unwrap();
    bytes[100..4096].fill(0xAB);
    std::fs::write(scene.file(), bytes).unwrap();
    let error = scene.refusal().await;
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}");
    assert_names(&error, &scene.file(), "restore it from a backup");
}

#[tokio::test]
async fn the_database_of_another_program_is_refused_and_left_as_it_is() {
    for other in ["CREATE TABLE users (id)", "PRAGMA application_id = 77; CREATE TABLE t (x)"] {
        let scene = Scene::new();
        Connection::open(scene.file()).unwrap().execute_batch(other).unwrap();
        let before = std::fs::read(scene.file()).unwrap();
        let error = scene.refusal().await;
        assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
        assert_names(&error, &scene.file(), "choose another file");
        assert_eq!(std::fs::read(scene.file()).unwrap(), before);
    }
}

#[tokio::test]
async fn a_database_from_the_future_is_refused_with_both_versions() {
    let scene = Scene::new();
    scene.tamper("PRAGMA user_version = 14").await;
    let error = scene.refusal().await;
    assert!(matches!(error, OpenError::Newer { found: 14, .. }), "{error:?}");
    assert_names(
        &error,
        &scene.file(),
        "the database is at schema 14, this program knows 6: upgrade the program",
    );
}

#[tokio::test]
async fn tables_that_another_migration_made_are_refused() {
    let scene = Scene::new();
    scene.tamper("UPDATE migration SET checksum = 'other' WHERE version = 1").await;
    let error = scene.refusal().await;
    assert!(matches!(error, OpenError::Changed { version: 1, .. }), "{error:?}");
    assert_names(&error, &scene.file(), "migration 1 (`tables`)");
}

#[tokio::test]
async fn a_database_that_may_only_be_read_is_refused() {
    let scene = Scene::new();
    let url = format!("sqlite://{}?mode=ro", scene.file().display());
    let error = Sqlite::open(&url).await.unwrap_err();
    assert!(error.to_string().contains("an engine writes all the time"), "{error}");
    assert!(!scene.file().exists());
}

#[tokio::test]
async fn a_database_that_is_said_not_to_change_is_refused() {
    let scene = Scene::new();
    let url = format!("sqlite://{}?immutable=1", scene.file().display());
    let error = Sqlite::open(&url).await.unwrap_err();
    assert!(error.to_string().contains("immutable"), "{error}");
    assert!(!scene.file().exists());
}

#[cfg(unix)]
mod reading_alone {
    use std::{
        fs::{OpenOptions, Permissions, set_permissions},
        os::unix::{fs::PermissionsExt, process::CommandExt},
        process::Command,
    };

    use super::*;

    /// Set to a database in a process that only tries to open that.
    const ASKED: &str = "WINDLASS_TEST_READS_ALONE";
    /// A user who owns nothing.
    const NOBODY: u32 = 65_534;

    fn set_mode(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    async fn assert_refused(file: &Path) {
        let error = Sqlite::open(file.to_str().unwrap()).await.expect_err("it should have been refused");
        assert!(matches!(error, OpenError::ReadOnly { .. }), "{error:?}");
        assert_names(&error, file, "allow writing to the file and its directory");
    }

    /// What a mount that may only be read, or the database of somebody else, is to a process. `locks` and `directory` are
    /// what it may do with those.
    async fn refused(test: &str, locks: u32, directory: u32) {
        if let Some(file) = std::env::var_os(ASKED) {
            return assert_refused(Path::new(&file)).await;
        }
        let scene = Scene::new();
        scene.open().await.unwrap().close().await;
        let (file, within) = (scene.file(), scene.directory.path());
        let beside = within.join("app.db-locks");
        for lock in std::fs::read_dir(&beside).unwrap() {
            set_mode(&lock.unwrap().path(), 0o666);
        }
        let program = within.join("test");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        set_mode(&program, 0o755);
        set_mode(&file, 0o444);
        set_mode(&beside, locks);
        set_mode(within, directory);
        if OpenOptions::new().write(true).open(&file).is_ok() {
            // Root may write everywhere, and tries it as somebody else.
            let name = format!("reading_alone::{test}");
            let mut other = Command::new(&program);
            other.args(["--exact", &name]).env(ASKED, &file).current_dir("/").uid(NOBODY).gid(NOBODY);
            let output = other.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
        } else {
            assert_refused(&file).await;
        }
        set_mode(within, 0o755);
        set_mode(&beside, 0o755);
    }

    #[tokio::test]
    async fn a_file_that_may_only_be_read_is_refused() {
        refused("a_file_that_may_only_be_read_is_refused", 0o777, 0o777).await;
    }

    #[tokio::test]
    async fn a_file_in_a_directory_that_may_only_be_read_is_refused() {
        refused("a_file_in_a_directory_that_may_only_be_read_is_refused", 0o555, 0o555).await;
    }
}

/// Even root cannot write where the file system says no; `/proc` is one such place on every Linux.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_place_that_cannot_be_written_even_by_root_is_refused() {
    let error = Sqlite::open("/proc/windlass.db").await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("/proc/windlass.db") && text.contains("windlass.db-locks"), "{text}");
}

#[tokio::test]
async fn a_database_that_another_program_keeps_locked_is_reported() {
    let scene = Scene::new();
    scene.open().await.unwrap().close().await;
    let other = Connection::open(scene.file()).unwrap();
    other.pragma_update(None, "locking_mode", "EXCLUSIVE").unwrap();
    other.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE keep (x); COMMIT").unwrap();
    let error = scene.refusal().await;
    assert_names(&error, &scene.file(), "locked by another program");
}

#[tokio::test]
async fn what_synchronous_says_is_what_the_connection_does() {
    for (options, url, code) in [
        (SqliteOptions::new(), "", 2),
        (SqliteOptions::new(), "?synchronous=normal", 1),
        (SqliteOptions::new().synchronous(Synchronous::Full), "?synchronous=normal", 2),
        (SqliteOptions::new().synchronous(Synchronous::Normal), "", 1),
    ] {
        let scene = Scene::new();
        let url = format!("sqlite://{}{url}", scene.file().display());
        let store = options.open(&url).await.unwrap();
        assert_eq!(store.synchronous().await.unwrap(), code, "{url}");
    }
}

#[tokio::test]
async fn many_who_open_a_new_file_at_once_all_succeed() {
    let scene = Scene::new();
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let file = scene.file();
            tokio::spawn(async move { Sqlite::open(file.to_str().unwrap()).await })
        })
        .collect();
    for open in opening {
        open.await.unwrap().unwrap();
    }
}

/// Whoever copies the file of a closed store has all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_is_closed_leaves_no_log_behind() {
    let closing: Vec<_> = (0..8)
        .map(|_| {
            tokio::spawn(async {
                for _ in 0..25 {
                    let scene = Scene::new();
                    scene.open().await.unwrap().close().await;
                    assert!(!scene.directory.path().join("app.db-wal").exists());
                }
            })
        })
        .collect();
    for closed in closing {
        closed.await.unwrap();
    }
}

#[tokio::test]
async fn a_closed_store_says_so_and_closes_twice() {
    let scene = Scene::new();
    let store = scene.open().await.unwrap();
    store.close().await;
    store.close().await;
    let error = store.load(RunId::new()).await.unwrap_err();
    assert!(matches!(error, windlass_store::StoreError::Closed), "{error:?}");
    let error = store.commit(None, Vec::new().into()).await.unwrap_err();
    assert!(matches!(error, windlass_store::StoreError::Closed), "{error:?}");
}
