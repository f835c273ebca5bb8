//! Where the processes of one test meet.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use windlass::{Client, Compressed};
use windlass_postgres::PostgresOptions;
use windlass_sqlite::SqliteOptions;
use windlass_store::{CommitMoment, Store};

/// The file that says where the database is, unless it is beside it.
const URL: &str = "url";

/// A directory with a database, a ledger and the processes' own words.
#[derive(Debug)]
pub struct Room {
    directory: PathBuf,
    _owned: Option<tempfile::TempDir>,
}

impl Room {
    pub fn new() -> Self {
        let owned = tempfile::tempdir().expect("a temporary directory");
        Self { directory: owned.path().to_owned(), _owned: Some(owned) }
    }

    /// A room whose database is on a PostgreSQL server, in a schema of its own.
    pub fn on_postgres(server: &str) -> Self {
        let room = Self::new();
        let schema = format!("room_{}", uuid::Uuid::now_v7().simple());
        std::fs::write(room.file(URL), format!("{server}?schema={schema}")).expect("the URL is written");
        room
    }

    /// From now on the database is reached so.
    pub fn set_url(&self, url: &str) {
        std::fs::write(self.file(URL), url).expect("the URL is written");
    }

    /// The room that another process made.
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), _owned: None }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub fn database(&self) -> PathBuf {
        self.file("app.db")
    }

    pub fn url(&self) -> String {
        std::fs::read_to_string(self.file(URL))
            .unwrap_or_else(|_| format!("sqlite://{}", self.database().display()))
    }

    pub fn effects(&self) -> PathBuf {
        self.file("effects")
    }

    /// A handle on the database, as one more process would have it.
    pub async fn store(&self) -> Arc<dyn Store> {
        self.store_with(|_| {}).await
    }

    /// The same; the hook is told of every commit.
    pub async fn store_with(&self, hook: impl Fn(CommitMoment) + Send + Sync + 'static) -> Arc<dyn Store> {
        let url = self.url();
        if self.is_on_postgres() {
            let options = PostgresOptions::new().on_commit(hook);
            return Arc::new(options.open(&url).await.expect("the database opens"));
        }
        Arc::new(SqliteOptions::new().on_commit(hook).open(&url).await.expect("the database opens"))
    }

    pub fn is_on_postgres(&self) -> bool {
        self.url().starts_with("postgres")
    }

    /// A client of its own.
    pub async fn client(&self) -> Client {
        Client::over(self.store().await, Arc::new(Compressed::default())).await.expect("a client starts")
    }

    /// Adds a line to a file and waits until the disk has it.
    pub fn append(&self, name: &str, line: &str) {
        let mut file =
            OpenOptions::new().create(true).append(true).open(self.file(name)).expect("a file opens");
        file.write_all(format!("{line}\n").as_bytes()).expect("a line is written");
        file.sync_all().expect("the disk takes the line");
    }

    /// The whole lines of a file; none when there is no such file.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.file(name)).unwrap_or_default();
        text.rsplit_once('\n').map_or("", |(whole, _)| whole).lines().map(str::to_owned).collect()
    }
}
