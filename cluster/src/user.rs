//! As whom the server runs: it refuses to be root.

use std::{fs, path::Path, process::Command};

/// An ordinary user of this machine.
#[derive(Debug)]
pub(crate) struct User {
    #[cfg_attr(not(unix), allow(dead_code, reason = "other systems have no such user"))]
    id: u32,
    #[cfg_attr(not(unix), allow(dead_code, reason = "other systems have no such group"))]
    group: u32,
}

impl User {
    /// Somebody else, if this process is root's.
    pub(crate) fn to_run_as() -> Result<Option<Self>, String> {
        if !is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
        let find = |name| users.lines().find_map(|line| Self::parse(line, name));
        let user = find("postgres").or_else(|| find("nobody"));
        user.map(Some).ok_or_else(|| {
            "PostgreSQL refuses to run as root, and there is no other user: `useradd --system postgres`"
                .into()
        })
    }

    /// From a line of the list of users.
    fn parse(line: &str, name: &str) -> Option<Self> {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let mut number = || fields.next()?.parse().ok();
        // The second field is for a password.
        number();
        let (id, group) = (number()?, number()?);
        (id != 0).then_some(Self { id, group })
    }

    /// Makes a directory this user's.
    pub(crate) fn give(&self, directory: &Path) -> Result<(), String> {
        #[cfg(unix)]
        std::os::unix::fs::chown(directory, Some(self.id), Some(self.group))
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        #[cfg(not(unix))]
        let _ = directory;
        Ok(())
    }

    /// Has a command run as this user.
    pub(crate) fn runs(&self, command: &mut Command) {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::gid(command, self.group);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::uid(command, self.id);
        #[cfg(not(unix))]
        let _ = command;
    }
}

/// Whether this process may do everything.
pub(crate) fn is_root() -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return false };
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_root_is_not_one() {
        let found = User::parse("postgres:x:101:104:PostgreSQL:/var/lib/postgresql:/bin/bash", "postgres");
        assert!(found.is_some_and(|user| (user.id, user.group) == (101, 104)));
        assert!(User::parse("postgres2:x:101:104::/:/bin/sh", "postgres").is_none());
        assert!(User::parse("root:x:0:0::/:/bin/sh", "root").is_none());
        assert!(User::parse("rubbish", "rubbish").is_none());
    }
}
