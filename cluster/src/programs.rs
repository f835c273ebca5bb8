//! Where PostgreSQL's programs are.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::user::is_root;

/// The pooler's program, which is also the name of its package.
pub(crate) const POOLER: &str = "pgbouncer";

/// A program of PostgreSQL, or the pooler: on the path, or where the packages of distributions put it; of several
/// versions the newest.
///
/// # Errors
///
/// Says what to install when it is missing.
pub fn find(program: &str) -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|directory| directory.join(program));
    on_path.chain(packaged(program)).find(|file| file.is_file()).ok_or_else(|| {
        let (name, package) =
            if program == POOLER { ("PgBouncer", "pgbouncer") } else { ("PostgreSQL", "postgresql") };
        format!("`{program}` is missing: install {name} (on Debian and Ubuntu: `apt-get install {package}`)")
    })
}

/// The newest version first.
fn packaged(program: &str) -> Vec<PathBuf> {
    if program == POOLER {
        // Often not on the path of those who are not root.
        return vec![PathBuf::from("/usr/sbin").join(POOLER)];
    }
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for root in ["/usr/lib/postgresql", "/usr/local/opt", "/opt/homebrew/opt"] {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let file = entry.path().join("bin").join(program);
            if file.is_file() {
                found.push((version(&entry.path()), file));
            }
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, file)| file).collect()
}

/// The number in the name of a directory, such as `15` or `postgresql@16`.
fn version(directory: &Path) -> u32 {
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let digits: String =
        name.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// Sees to it that PostgreSQL and the pooler are there: installs them where that can be done.
///
/// # Errors
///
/// Says in one line what to do when one is missing and cannot be installed.
pub fn install() -> Result<(), String> {
    for (program, package) in [("initdb", "postgresql"), (POOLER, POOLER)] {
        let Err(missing) = find(program) else { continue };
        if !install_package(package) {
            return Err(missing);
        }
        find(program)?;
    }
    Ok(())
}

/// Installs a package of Debian or Ubuntu, and says whether that could be done.
#[must_use]
pub fn install_package(package: &str) -> bool {
    if !is_root() {
        return false;
    }
    eprintln!("installing {package} with apt-get …");
    let packages = ["install", "--yes", "--no-install-recommends", package];
    // The lists of a fresh machine may be empty.
    apt(&packages) || (apt(&["update"]) && apt(&packages))
}

fn apt(arguments: &[&str]) -> bool {
    let mut command = Command::new("apt-get");
    let status = command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_directories() {
        assert_eq!(version(Path::new("/usr/lib/postgresql/15")), 15);
        assert_eq!(version(Path::new("/opt/homebrew/opt/postgresql@16")), 16);
        assert_eq!(version(Path::new("/usr/local/opt/sqlite")), 0);
    }
}
