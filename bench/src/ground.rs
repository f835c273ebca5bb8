//! Where the databases lie: a fresh directory on a real disk.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::Result;

/// Gives out fresh directories on a real disk. In memory a commit costs nothing, and every figure would lie.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    base: PathBuf,
}

impl Ground {
    /// Takes the directory that was asked for, or else the first on a disk among that for temporary files, that
    /// of the builds, and the current one.
    pub(crate) fn find(asked: Option<&Path>) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if let Some(base) = asked {
            let base = fs::canonicalize(base).map_err(|error| format!("{}: {error}", base.display()))?;
            return match kind_of(&base, &mounts) {
                Some(kind) if in_memory(kind) => {
                    Err(format!("{} is in memory ({kind}), where a commit costs nothing", base.display())
                        .into())
                }
                _ => Ok(Self { base }),
            };
        }
        let candidates = [
            Some(env::temp_dir()),
            env::var_os("CARGO_TARGET_DIR").map(PathBuf::from),
            env::current_dir().ok(),
        ];
        candidates
            .into_iter()
            .flatten()
            .filter_map(|base| fs::canonicalize(base).ok())
            .find(|base| !kind_of(base, &mounts).is_some_and(in_memory))
            .map(|base| Self { base })
            .ok_or_else(|| "no directory on a real disk was found; give one with --directory".into())
    }

    /// The directory that fresh ones are made in.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// A fresh directory, which goes when the value is dropped.
    pub(crate) fn directory(&self) -> Result<TempDir> {
        tempfile::Builder::new()
            .prefix("windlass-bench-")
            .tempdir_in(&self.base)
            .map_err(|error| format!("no directory could be made in {}: {error}", self.base.display()).into())
    }
}

fn in_memory(kind: &str) -> bool {
    matches!(kind, "tmpfs" | "ramfs" | "devtmpfs")
}

/// The kind of the file system that holds a path: that of the longest mount point above it. The later line wins,
/// because it was mounted on top.
fn kind_of<'m>(path: &Path, mounts: &'m str) -> Option<&'m str> {
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(kind)) = (before.split(' ').nth(4), after.split(' ').next()) else { continue };
        let length = point.len();
        if path.starts_with(point) && best.is_none_or(|(longest, _)| length >= longest) {
            best = Some((length, kind));
        }
    }
    best.map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                          30 22 0:26 / /tmp rw,nosuid shared:9 - tmpfs tmpfs rw\n\
                          31 30 254:1 / /tmp/disk rw - xfs /dev/vdb rw\n";

    #[test]
    fn the_longest_mount_point_says_what_a_directory_lies_on() {
        assert_eq!(kind_of(Path::new("/home/x"), MOUNTS), Some("ext4"));
        assert_eq!(kind_of(Path::new("/tmp/x"), MOUNTS), Some("tmpfs"));
        assert_eq!(kind_of(Path::new("/tmp/disk/x"), MOUNTS), Some("xfs"));
        assert_eq!(kind_of(Path::new("/tmpx"), MOUNTS), Some("ext4"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_directory_in_memory_is_refused() {
        let why = Ground::find(Some(Path::new("/dev/shm"))).map(|_| ()).map_err(|error| error.to_string());
        // Without /dev/shm there is nothing to refuse, but that must be said as well.
        assert!(why.is_err_and(|why| why.contains("/dev/shm")));
    }
}
