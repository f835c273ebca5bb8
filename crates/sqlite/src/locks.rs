//! The directory of locks beside a database: who has it open, and who is alive.

use std::{
    collections::{HashMap, hash_map::Entry},
    ffi::OsString,
    fs::File,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use windlass_core::NodeId;

use crate::turnstile::Turnstile;

/// Numbers the files that this process makes.
static FILES: AtomicU64 = AtomicU64::new(1);

/// The locks of one opened database.
///
/// The operating system lets a lock go when its process ends, whatever ended it. So a lock that can be taken
/// proves that its holder is gone.
#[derive(Debug)]
pub(crate) struct Locks {
    directory: PathBuf,
    pub(crate) turnstile: Turnstile,
    /// Shows the others that this handle is there.
    presence: (OsString, File),
    nodes: Mutex<HashMap<NodeId, File>>,
}

impl Locks {
    /// The directory for the locks of a database.
    pub(crate) fn directory(database: &Path) -> PathBuf {
        let mut name = database.as_os_str().to_owned();
        name.push("-locks");
        PathBuf::from(name)
    }

    /// Makes the directory, and shows the others that this handle is there.
    pub(crate) fn open(database: &Path) -> io::Result<Self> {
        let directory = Self::directory(database);
        std::fs::create_dir_all(&directory)?;
        let turnstile = Turnstile::open(&directory)?;
        let name = OsString::from(format!("open-{}-{}", std::process::id(), number()));
        let file = create_locked(&directory, &name)?;
        Ok(Self { directory, turnstile, presence: (name, file), nodes: Mutex::new(HashMap::new()) })
    }

    /// Whether another handle has the database open, in this process or another. Clears away what dead
    /// processes left.
    pub(crate) fn has_peers(&self) -> io::Result<bool> {
        Ok(present(&self.directory)?.iter().any(|name| *name != self.presence.0))
    }

    /// Takes the lock that proves the life of a node of this process.
    pub(crate) fn hold(&self, node: NodeId) -> io::Result<()> {
        if let Entry::Vacant(place) = self.nodes.lock().entry(node) {
            place.insert(create_locked(&self.directory, &node_file(node).into())?);
        }
        Ok(())
    }

    /// Lets a node's lock go, and removes its file.
    pub(crate) fn let_go(&self, node: NodeId) -> io::Result<()> {
        let held = self.nodes.lock().remove(&node);
        let removed = remove(&self.directory.join(node_file(node)));
        drop(held);
        removed
    }

    /// Whether it is proved that the process of a node is gone.
    pub(crate) fn is_gone(&self, node: NodeId) -> io::Result<bool> {
        is_free(&self.directory.join(node_file(node)))
    }

    /// Every node that left a file behind and whose process is gone.
    pub(crate) fn gone(&self) -> io::Result<Vec<NodeId>> {
        let mut gone = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let node =
                name.to_str().and_then(|name| name.strip_prefix("node-")).and_then(|id| id.parse().ok());
            if let Some(node) = node
                && self.is_gone(node)?
            {
                gone.push(node);
            }
        }
        Ok(gone)
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        // Whoever looks next would clear it away too.
        drop(remove(&self.directory.join(&self.presence.0)));
    }
}

/// The files of the handles that have a database open. Clears away what dead processes left.
fn present(directory: &Path) -> io::Result<Vec<OsString>> {
    let mut present = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(b"open-") {
            continue;
        }
        if is_free(&entry.path())? {
            remove(&entry.path())?;
        } else {
            present.push(name);
        }
    }
    Ok(present)
}

/// The processes that have a database open, each once. The caller need not have it open itself.
pub(crate) fn users(directory: &Path) -> io::Result<Vec<u32>> {
    let pid = |name: &OsString| name.to_str()?.split('-').nth(1)?.parse().ok();
    // Somebody who cannot be told is somebody all the same.
    let mut users: Vec<u32> = present(directory)?.iter().map(|name| pid(name).unwrap_or_default()).collect();
    users.sort_unstable();
    users.dedup();
    Ok(users)
}

fn node_file(node: NodeId) -> String {
    format!("node-{node}")
}

fn number() -> u64 {
    FILES.fetch_add(1, Ordering::Relaxed)
}

/// Makes a file that is locked from the moment it can be found.
fn create_locked(directory: &Path, name: &OsString) -> io::Result<File> {
    let draft = directory.join(format!("new-{}-{}", std::process::id(), number()));
    let file = File::options().create(true).truncate(false).write(true).open(&draft)?;
    file.try_lock()?;
    std::fs::rename(&draft, directory.join(name))?;
    Ok(file)
}

/// Whether a file is there and nobody has it locked.
fn is_free(path: &Path) -> io::Result<bool> {
    match File::options().write(true).open(path) {
        Ok(file) => Ok(file.try_lock().is_ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a file that may have been removed already.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_gone_when_its_lock_can_be_taken_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("app.db");
        let (mine, other) = (Locks::open(&database).unwrap(), Locks::open(&database).unwrap());
        let node = NodeId::new();
        mine.hold(node).unwrap();
        assert!(!other.is_gone(node).unwrap());
        assert!(!mine.is_gone(node).unwrap());
        assert_eq!(other.gone().unwrap(), []);
        drop(mine);
        assert!(other.is_gone(node).unwrap());
        assert_eq!(other.gone().unwrap(), [node]);
        other.let_go(node).unwrap();
        assert_eq!(other.gone().unwrap(), []);
    }

    #[test]
    fn a_node_without_a_file_is_not_proved_gone() {
        let dir = tempfile::tempdir().unwrap();
        let locks = Locks::open(&dir.path().join("app.db")).unwrap();
        assert!(!locks.is_gone(NodeId::new()).unwrap());
    }

    #[test]
    fn handles_see_each_other_until_one_goes() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("app.db");
        let mine = Locks::open(&database).unwrap();
        assert!(!mine.has_peers().unwrap());
        let other = Locks::open(&database).unwrap();
        assert!(mine.has_peers().unwrap());
        assert!(other.has_peers().unwrap());
        drop(other);
        assert!(!mine.has_peers().unwrap());
    }

    #[test]
    fn what_a_dead_process_left_is_no_peer_and_is_cleared_away() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("app.db");
        let mine = Locks::open(&database).unwrap();
        let left = Locks::directory(&database).join("open-1-1");
        std::fs::write(&left, "").unwrap();
        assert!(!mine.has_peers().unwrap());
        assert!(!left.exists());
    }
}
