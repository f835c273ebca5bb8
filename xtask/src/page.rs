//! The web page: built from `ui/` into the files that `crates/server` embeds, and tried in a browser.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    chore::{self, Chore, Outcome},
    workspace::Workspace,
};

/// Where its source is.
const SOURCE: &str = "ui";
/// What the server embeds.
const BUILT: &str = "crates/server/dist";
/// The oldest Node that its tools run on.
const NODE: (u32, u32) = (20, 19);
/// The package that brings one, where npm is there and Node is too old, as in Debian 12.
const NODE_PACKAGE: &str = "node@22";
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// What is wanted of `cargo xtask ui`.
pub(crate) enum Wish {
    /// Builds the page anew.
    Build,
    /// Says whether the committed page is what a build gives.
    Check,
}

pub(crate) fn wish(arguments: &[String]) -> Result<Wish, String> {
    match arguments {
        [] => Ok(Wish::Build),
        [only] if only == "--check" => Ok(Wish::Check),
        [other, ..] => Err(format!("`{other}` is not understood: the only option is --check")),
    }
}

/// Does the chore by itself.
pub(crate) fn run(workspace: &Workspace, wish: Wish) -> Result<(), String> {
    match wish {
        Wish::Build => {
            let page = Page::ready(workspace)?;
            page.npm(&["run", "build"])?;
            println!("{BUILT} is what a build gives now: commit it");
            Ok(())
        }
        Wish::Check => {
            let mut chores = chores();
            chores.push(browser());
            chore::do_all(workspace, &chores)
        }
    }
}

/// What can be said of the page without a browser.
pub(crate) fn chores() -> Vec<Chore<'static>> {
    vec![
        Chore::new(
            "the page",
            "`npm run check -- --write` in ui/ formats; `npm test` repeats the tests",
            |workspace| {
                let page = Page::ready(workspace)?;
                page.npm(&["run", "check"])?;
                page.npm(&["test"]).map(|()| Outcome::Done)
            },
        ),
        Chore::new(
            "the page as it is committed",
            "`cargo xtask ui` builds it; commit what that changes",
            |workspace| Page::ready(workspace)?.compare().map(|()| Outcome::Done),
        ),
    ]
}

/// Drives the page in a browser, with a real server behind it.
pub(crate) fn browser() -> Chore<'static> {
    Chore::new(
        "the page in a browser",
        "`npm run browser -- -t NAME` in ui/ repeats one test; the pictures are in target/page-pictures",
        |workspace| Page::ready(workspace)?.browse().map(|()| Outcome::Done),
    )
}

struct Page<'w> {
    workspace: &'w Workspace,
    /// Where programs are looked for.
    path: OsString,
}

impl<'w> Page<'w> {
    /// The source, with what it is built with.
    fn ready(workspace: &'w Workspace) -> Result<Self, String> {
        let page = Self { workspace, path: node(workspace)? };
        if !page.has_packages() {
            page.npm(&["ci", "--no-audit", "--no-fund"])?;
        }
        page.npm(&["run", "--silent", "types"])?;
        Ok(page)
    }

    /// Whether what is installed is what the lock file says: npm writes down what it has installed, and when.
    fn has_packages(&self) -> bool {
        let changed =
            |name: &str| fs::metadata(self.source().join(name)).and_then(|file| file.modified()).ok();
        let [installed, locked] = ["node_modules/.package-lock.json", "package-lock.json"].map(changed);
        installed.zip(locked).is_some_and(|(installed, locked)| installed > locked)
    }

    fn source(&self) -> PathBuf {
        self.workspace.root.join(SOURCE)
    }

    fn npm(&self, arguments: &[&str]) -> Result<(), String> {
        self.workspace
            .run(Command::new("npm").args(arguments).current_dir(self.source()).env("PATH", &self.path))
    }

    fn compare(&self) -> Result<(), String> {
        let fresh = self.workspace.target.join("page");
        let out = fresh.to_str().ok_or("the path of the target directory is not UTF-8")?;
        self.npm(&["run", "build", "--", "--logLevel", "warn", "--outDir", out])?;
        let differing = differences(&self.workspace.root.join(BUILT), &fresh)?;
        match &*differing {
            [] => Ok(()),
            [first, rest @ ..] => Err(format!(
                "{BUILT}/{first} is not what a build gives{}",
                if rest.is_empty() { String::new() } else { format!(", nor are {} other files", rest.len()) }
            )),
        }
    }

    fn browse(&self) -> Result<(), String> {
        let browser = chromium()?;
        // As the tests build it: of the whole workspace, with all features, and optimized as they are.
        let harbour = [
            "build",
            "--profile",
            "test",
            "--locked",
            "--workspace",
            "--all-features",
            "--example",
            "harbour",
        ];
        self.workspace.run(&mut self.workspace.cargo(&harbour))?;
        let mut tests = Command::new("npm");
        tests.args(["run", "browser"]).current_dir(self.source()).env("PATH", &self.path);
        tests.env("WINDLASS_CHROMIUM", browser).env("WINDLASS_TARGET", &self.workspace.target);
        self.workspace.run(&mut tests)
    }
}

/// The names of files that only one of two directories has, or that differ.
fn differences(one: &Path, other: &Path) -> Result<Vec<String>, String> {
    let (one, other) = (contents(one, "")?, contents(other, "")?);
    let is_in = |file: &(String, Vec<u8>), files: &[(String, Vec<u8>)]| files.contains(file);
    let mut names: Vec<String> =
        one.iter().filter(|file| !is_in(file, &other)).map(|(name, _)| name.clone()).collect();
    names.extend(other.iter().filter(|file| !is_in(file, &one)).map(|(name, _)| name.clone()));
    names.sort();
    names.dedup();
    Ok(names)
}

fn contents(directory: &Path, above: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
    let failed = |error| format!("{} cannot be read: {error}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = format!("{above}{}", path.file_name().unwrap_or_default().to_string_lossy());
        match path.is_dir() {
            true => files.extend(contents(&path, &format!("{name}/"))?),
            false => files.push((name, fs::read(&path).map_err(failed)?)),
        }
    }
    Ok(files)
}

/// Sees to it that Node is there and new enough, and answers the path on which it is found first.
fn node(workspace: &Workspace) -> Result<OsString, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    if said_of_itself(Path::new("npm")).is_none() {
        for package in ["nodejs", "npm"] {
            if !windlass_cluster::install_package(package) {
                let (major, minor) = NODE;
                return Err(format!(
                    "the page needs Node {major}.{minor} or newer with npm: see https://nodejs.org"
                ));
            }
        }
    }
    if is_new_enough(Path::new("node")) {
        return Ok(path);
    }
    let own = workspace.target.join("node");
    let programs = own.join("node_modules/.bin");
    if !is_new_enough(&programs.join("node")) {
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&own).arg(NODE_PACKAGE);
        workspace.run(&mut install)?;
    }
    env::join_paths(std::iter::once(programs).chain(env::split_paths(&path)))
        .map_err(|error| format!("{} cannot stand in PATH: {error}", own.display()))
}

fn is_new_enough(node: &Path) -> bool {
    said_of_itself(node).is_some_and(|said| version(&said) >= Some(NODE))
}

/// The version of a program, as it says it, if it is there.
fn said_of_itself(program: &Path) -> Option<String> {
    let said = Command::new(program).arg("--version").stderr(Stdio::null()).output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).into_owned())
}

fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.trim().strip_prefix('v')?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// A browser: the one that is named, one that is on the path, or Debian's.
fn chromium() -> Result<PathBuf, String> {
    if let Some(named) = env::var_os("WINDLASS_CHROMIUM") {
        return Ok(named.into());
    }
    let find = || {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut all = env::split_paths(&path).flat_map(|directory| BROWSERS.map(|name| directory.join(name)));
        all.find(|file| file.is_file())
    };
    if find().is_none() && !windlass_cluster::install_package("chromium") {
        return Err("Chromium is missing: `apt-get install chromium` installs it on Debian and Ubuntu, and WINDLASS_CHROMIUM \
                    names one that is elsewhere"
            .into());
    }
    find()
        .ok_or_else(|| "Chromium was installed, and is not on the path: name it in WINDLASS_CHROMIUM".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_node_are_read_and_compared() {
        assert_eq!(version("v20.19.4\n"), Some((20, 19)));
        assert_eq!(version("20.19"), None);
        assert!(version("v18.20.0") < Some(NODE) && version("v22.1.0") > Some(NODE));
    }

    #[test]
    fn a_file_that_is_missing_or_differs_is_named() {
        let folder = env::temp_dir().join(format!("windlass-page-{}", std::process::id()));
        for (name, text) in
            [("a/same", "1"), ("b/same", "1"), ("a/x/other", "1"), ("b/x/other", "2"), ("b/new", "")]
        {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        assert_eq!(differences(&folder.join("a"), &folder.join("b")).unwrap(), ["new", "x/other"]);
        assert_eq!(differences(&folder.join("a"), &folder.join("a")).unwrap(), [""; 0]);
        fs::remove_dir_all(folder).unwrap();
    }
}
