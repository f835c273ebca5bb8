//! Both ends of the range of `rusqlite` versions that a user may bring along.
//!
//! The tests of the workspace run on the version in `Cargo.lock`. Each other end gets a copy of the workspace
//! below the target directory, with a lock file of its own. The copy uses the same target directory and
//! changes a file only when its text changed, so that little more than the driver itself is built twice.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    chore::{Chore, Outcome},
    test,
    tools::Tools,
    workspace::Workspace,
};

/// The chore that runs the tests of `windlass-sqlite` on the ends that are not locked.
pub(crate) fn chore(tools: Tools) -> Chore<'static> {
    Chore::new(
        "both ends of the rusqlite range",
        "use only what all versions in the range share, or narrow the range in Cargo.toml and say so in the changelog",
        move |workspace| check(workspace, tools).map(|()| Outcome::Done),
    )
}

fn check(workspace: &Workspace, tools: Tools) -> Result<(), String> {
    let range = Range::parse(&workspace.text("Cargo.toml")?)?;
    let locked = locked(&workspace.text("Cargo.lock")?)?;
    println!("the range is 0.{} to 0.{}; Cargo.lock has {locked}", range.lowest, range.highest);
    for minor in [range.lowest, range.highest] {
        if minor_of(&locked) != Some(minor) {
            test_on(workspace, tools, minor, minor == range.lowest)?;
        }
    }
    Ok(())
}

fn test_on(workspace: &Workspace, tools: Tools, minor: u32, lowest: bool) -> Result<(), String> {
    let copy = workspace.target.join("xtask").join(format!("rusqlite-0.{minor}"));
    mirror(workspace, &copy)?;
    let exact = format!("0.{minor}.0");
    let mut update = vec!["update", "--quiet", "--package", "rusqlite"];
    if lowest {
        update.extend(["--precise", exact.as_str()]);
    }
    workspace.run(workspace.cargo(&update).current_dir(&copy))?;
    let lock = copy.join("Cargo.lock");
    let got = locked(&fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?)?;
    if minor_of(&got) != Some(minor) {
        return Err(format!("rusqlite 0.{minor} was asked for, but cargo chose {got}"));
    }
    println!("on rusqlite {got}:");
    let arguments = test::command(tools, &["--package", "windlass-sqlite", "--all-features", "--locked"]);
    // The engine's own version played the whole number of random sequences against the model; here a few show that the
    // driver is used the same way.
    workspace.run(workspace.cargo(&arguments).current_dir(&copy).env("WINDLASS_DUELS", "100"))
}

/// The range `>=0.A, <0.B` as the minor versions A and B - 1.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    lowest: u32,
    highest: u32,
}

impl Range {
    fn parse(manifest: &str) -> Result<Self, String> {
        let unreadable = || "Cargo.toml does not give rusqlite as \">=0.A, <0.B\"".to_string();
        let line = manifest.lines().find(|line| line.starts_with("rusqlite ")).ok_or_else(unreadable)?;
        let (_, rest) = line.split_once("\">=0.").ok_or_else(unreadable)?;
        let (low, rest) = rest.split_once(", <0.").ok_or_else(unreadable)?;
        let (above, _) = rest.split_once('"').ok_or_else(unreadable)?;
        let lowest = low.parse().map_err(|_| unreadable())?;
        let above: u32 = above.parse().map_err(|_| unreadable())?;
        if above <= lowest {
            return Err(unreadable());
        }
        Ok(Self { lowest, highest: above - 1 })
    }
}

/// The version of rusqlite in a lock file.
fn locked(lock: &str) -> Result<String, String> {
    let mut lines = lock.lines().skip_while(|line| *line != "name = \"rusqlite\"").skip(1);
    let version = lines.next().and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.map(String::from).ok_or_else(|| "Cargo.lock has no rusqlite".to_string())
}

fn minor_of(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

/// What cargo reads: the rest of the directory may be large, and is not copied.
const COPIED: [&str; 9] =
    ["Cargo.toml", "Cargo.lock", "README.md", "bench", "cluster", "crates", "docs", "examples", "xtask"];

/// Makes `copy` hold those files of the workspace and no others.
fn mirror(workspace: &Workspace, copy: &Path) -> Result<(), String> {
    let trouble = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut wanted = Vec::new();
    for source in workspace.files("", "")? {
        let Ok(relative) = source.strip_prefix(&workspace.root) else { continue };
        if !COPIED.iter().any(|name| relative.starts_with(name)) {
            continue;
        }
        let place = copy.join(relative);
        let text = fs::read(&source).map_err(|error| trouble(&source, error))?;
        if !fs::read(&place).is_ok_and(|there| there == text) {
            let folder = place.parent().unwrap_or(copy);
            fs::create_dir_all(folder).map_err(|error| trouble(folder, error))?;
            fs::write(&place, text).map_err(|error| trouble(&place, error))?;
        }
        wanted.push(place);
    }
    let there = Workspace { root: copy.to_path_buf(), target: PathBuf::new() };
    for file in there.files("", "")? {
        if wanted.binary_search(&file).is_err() {
            fs::remove_file(&file).map_err(|error| trouble(&file, error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_read_from_the_manifest() {
        let manifest = "[workspace.dependencies]\nrusqlite = { version = \">=0.39, <0.42\", features = [\"bundled\"] }\n";
        assert_eq!(Range::parse(manifest), Ok(Range { lowest: 39, highest: 41 }));
        assert!(Range::parse("rusqlite = \"0.41\"").is_err());
    }

    #[test]
    fn the_locked_version_is_read_from_the_lock_file() {
        let lock = "[[package]]\nname = \"rusqlite\"\nversion = \"0.41.1\"\nsource = \"x\"\n";
        assert_eq!(locked(lock).as_deref(), Ok("0.41.1"));
        assert_eq!(minor_of("0.41.1"), Some(41));
        assert!(locked("").is_err());
    }
}
