//! Which file systems a database may be on.

use std::path::{Path, PathBuf};

/// File systems on which SQLite's locks and shared memory cannot be trusted between machines.
const REMOTE: [&str; 15] = [
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "davfs",
    "fuse.glusterfs",
    "fuse.s3fs",
    "fuse.sshfs",
    "glusterfs",
    "lustre",
    "nfs",
    "nfs4",
    "smb3",
    "smbfs",
];

/// The kind of the network file system that holds `path`, if it is one and can be told.
pub(crate) fn remote_kind(path: &Path) -> Option<String> {
    remote_kind_by(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, path)
}

fn remote_kind_by(mounts: &str, path: &Path) -> Option<String> {
    kind_of(mounts, path).filter(|kind| REMOTE.contains(&kind.as_str()))
}

/// The kind of the file system that `path` is on, by a table of mounts as Linux prints it.
fn kind_of(mounts: &str, path: &Path) -> Option<String> {
    let mut best: Option<(PathBuf, String)> = None;
    for line in mounts.lines() {
        let Some((head, tail)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(kind)) = (head.split(' ').nth(4), tail.split(' ').next()) else { continue };
        let point = PathBuf::from(unescape(point));
        // Of two mounts on one point, the later one is seen.
        let closer =
            best.as_ref().is_none_or(|(known, _)| point.components().count() >= known.components().count());
        if path.starts_with(&point) && closer {
            best = Some((point, kind.to_owned()));
        }
    }
    best.map(|(_, kind)| kind)
}

/// Replaces `\040` by a space, and so on.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&part[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /mnt/team rw,relatime shared:2 - nfs4 server:/team rw,vers=4.2
31 30 254:1 / /mnt/team/local rw,relatime - xfs /dev/vdb rw
32 22 0:26 / /mnt/my\\040share rw - cifs //nas/share rw
33 22 0:27 / /mnt/twice rw - ext4 /dev/vdc rw
34 33 0:28 / /mnt/twice rw - fuse.sshfs me@host: rw
";

    #[test]
    fn the_innermost_mount_decides() {
        for (path, kind) in [
            ("/var/app.db", "ext4"),
            ("/mnt/team/app.db", "nfs4"),
            ("/mnt/team/local/app.db", "xfs"),
            ("/mnt/teamwork/app.db", "ext4"),
            ("/mnt/my share/app.db", "cifs"),
            ("/mnt/twice/app.db", "fuse.sshfs"),
        ] {
            assert_eq!(kind_of(MOUNTS, Path::new(path)).as_deref(), Some(kind), "{path}");
        }
    }

    #[test]
    fn file_systems_of_other_machines_are_refused_and_disks_are_not() {
        for (path, refused) in [
            ("/var/app.db", None),
            ("/mnt/team/local/app.db", None),
            ("/mnt/team/app.db", Some("nfs4")),
            ("/mnt/my share/app.db", Some("cifs")),
            ("/mnt/twice/app.db", Some("fuse.sshfs")),
        ] {
            assert_eq!(remote_kind_by(MOUNTS, Path::new(path)).as_deref(), refused, "{path}");
        }
    }

    #[test]
    fn a_table_that_makes_no_sense_names_no_kind() {
        assert_eq!(kind_of("nonsense\n - \n1 2 - x", Path::new("/a")), None);
    }
}
