//! A folder of tenants, each in a file of its own.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use windlass_store::{Removal, Reply, StoreError, Tenancy, TenantError, TenantName};

use crate::{
    OpenError, Sqlite, Synchronous,
    location::{self, Location, Where},
    locks::{self, Locks},
    turnstile::Turnstile,
};

/// How long to wait for those who are about to close a file, and how often to look.
const CLOSING: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);

/// Tenants in the files of one folder: `windlass_acme.db` and so on.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Without links.
    directory: Arc<PathBuf>,
    synchronous: Option<Synchronous>,
}

impl Folder {
    /// Opens a folder, which must be there. `url` is as for [`Sqlite::open`], with the folder in place of the file; its
    /// options hold for every tenant.
    ///
    /// # Errors
    ///
    /// Says which folder cannot be used, why, and what to do.
    pub async fn open(url: &str) -> Result<Self, TenantError> {
        let Location { place, synchronous, makes } = Location::parse(url).map_err(told)?;
        let refuse = |why: &str| TenantError::Invalid(format!("`{url}` cannot hold tenants: {why}"));
        let Where::File(path) = place else {
            return Err(refuse("name a folder on a disk, as in `sqlite://tenants/`"));
        };
        if !makes {
            return Err(refuse("leave `mode` out, for `create` makes files"));
        }
        let opened = blocking(move || {
            let directory = path.canonicalize().map_err(|error| match error.kind() {
                ErrorKind::NotFound => broken(&path, "it does not exist: make it first"),
                _ => broken(&path, error),
            })?;
            if !directory.is_dir() {
                return Err(broken(
                    &path,
                    "it is a file: name the folder that holds the files of the tenants",
                ));
            }
            Ok(directory)
        });
        Ok(Self { directory: Arc::new(opened.await?), synchronous })
    }

    /// The file of a tenant.
    fn file(&self, name: &TenantName) -> PathBuf {
        self.directory.join(format!("{}.db", name.place()))
    }

    /// The URL of a tenant's file; `mode` says whether it is made when it is not there.
    fn url(&self, name: &TenantName, mode: &str) -> Result<String, TenantError> {
        let file = self.file(name);
        let path = file.to_str().ok_or_else(|| broken(&file, "its path is not UTF-8"))?;
        let synchronous = match self.synchronous {
            None => "",
            Some(Synchronous::Full) => "&synchronous=full",
            Some(Synchronous::Normal) => "&synchronous=normal",
        };
        Ok(format!("sqlite://{}?mode={mode}{synchronous}", location::encode(path)))
    }

    /// Opens a tenant's file, which brings its tables to the newest version.
    async fn touch(url: &str) -> Result<(), TenantError> {
        Sqlite::open(url).await.map_err(told)?.close().await;
        Ok(())
    }

    /// Removes the file of a tenant that nobody has open.
    fn remove_file(file: &Path, name: &TenantName) -> Result<bool, TenantError> {
        let failed = |error| broken(file, error);
        let was_there = is_there(file)?;
        let directory = Locks::directory(file);
        if !directory.is_dir() && !was_there {
            return Ok(false);
        }
        // The locks stay behind, empty: whoever opens the file meanwhile waits for the same turn, and is seen.
        fs::create_dir_all(&directory).map_err(failed)?;
        let turnstile = Turnstile::open(&directory).map_err(failed)?;
        let patience = Instant::now() + CLOSING;
        let _turn = loop {
            // Asked before the turn too, for a process that is frozen may never let it go.
            let mut users = locks::users(&directory).map_err(failed)?;
            if users.is_empty() {
                let turn = turnstile.pass().map_err(failed)?;
                users = locks::users(&directory).map_err(failed)?;
                if users.is_empty() {
                    break turn;
                }
            }
            if Instant::now() > patience {
                return Err(in_use(name, &users));
            }
            thread::sleep(LOOK);
        };
        let was_there = is_there(file)?;
        // First the database, at one stroke, for without its log it is one that has forgotten its last commits. A log that
        // is left alone is no part of the next database of this name: SQLite deletes the log of an empty one.
        locks::remove(file).map_err(failed)?;
        sync(file).map_err(failed)?;
        for end in ["-wal", "-shm"] {
            let mut beside = file.as_os_str().to_owned();
            beside.push(end);
            locks::remove(Path::new(&beside)).map_err(failed)?;
        }
        Ok(was_there)
    }
}

impl Tenancy for Folder {
    fn create(&self, name: TenantName) -> Reply<'_, String> {
        Box::pin(async move {
            let file = self.file(&name);
            blocking(move || is_there(&file)).await?;
            Self::touch(&self.url(&name, "rwc")?).await?;
            self.url(&name, "rw")
        })
    }

    fn find(&self, name: TenantName) -> Reply<'_, String> {
        Box::pin(async move {
            let file = self.file(&name);
            let is_there = blocking(move || is_there(&file)).await?;
            if is_there { self.url(&name, "rw") } else { Err(TenantError::Unknown(name)) }
        })
    }

    fn list(&self) -> Reply<'_, Vec<TenantName>> {
        let directory = Arc::clone(&self.directory);
        Box::pin(blocking(move || tenants(&directory).map_err(|error| broken(&directory, error))))
    }

    fn migrate(&self, name: TenantName) -> Reply<'_, ()> {
        Box::pin(async move {
            match self.find(name).await {
                Err(TenantError::Unknown(_)) => Ok(()),
                url => Self::touch(&url?).await,
            }
        })
    }

    fn rotate(&self, _: TenantName) -> Reply<'_, String> {
        let why =
            "the tenants of a folder have no passwords: who may open the files is for the file system to say";
        Box::pin(async move { Err(TenantError::Invalid(why.into())) })
    }

    /// A file cannot be taken from a process that has it open: it would go on writing where nobody looks, and could
    /// damage the next file of this name. So force is of no use here.
    fn remove(&self, name: TenantName, _: Removal) -> Reply<'_, bool> {
        let file = self.file(&name);
        Box::pin(blocking(move || Self::remove_file(&file, &name)))
    }
}

/// Has something done that waits for disks and locks, which is not for the caller's thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TenantError> + Send + 'static,
) -> Result<T, TenantError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(StoreError::Closed.into()))
}

/// Whether a tenant's file is there. A link is refused: it could lead to another tenant.
fn is_there(file: &Path) -> Result<bool, TenantError> {
    match fs::symlink_metadata(file) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(broken(file, "it is not a file of its own, but a link or a directory: remove it")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(broken(file, error)),
    }
}

fn tenants(directory: &Path) -> io::Result<Vec<TenantName>> {
    let mut tenants = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let place = entry.file_name();
        let name = place.to_str().and_then(|place| TenantName::of_place(place.strip_suffix(".db")?));
        if let Some(name) = name
            && entry.file_type()?.is_file()
        {
            tenants.push(name);
        }
    }
    tenants.sort();
    Ok(tenants)
}

/// Has the disk know that a file was removed.
fn sync(file: &Path) -> io::Result<()> {
    if cfg!(unix)
        && let Some(directory) = file.parent()
    {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

fn in_use(name: &TenantName, users: &[u32]) -> TenantError {
    let processes: Vec<_> = users.iter().map(u32::to_string).collect();
    TenantError::InUse {
        name: name.clone(),
        by: format!("process {}", processes.join(", ")),
        way_out: "stop its engines and drop its clients first; a file cannot be taken from a living process"
            .into(),
    }
}

fn told(error: OpenError) -> TenantError {
    match error {
        OpenError::Url { .. } => TenantError::Invalid(error.to_string()),
        _ => StoreError::Broken(error.to_string()).into(),
    }
}

fn broken(path: &Path, why: impl std::fmt::Display) -> TenantError {
    StoreError::Broken(format!("{}: {why}", path.display())).into()
}
