//! Where things are, and how cargo is called there.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The checked-out project.
pub(crate) struct Workspace {
    /// The directory of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// The workspace that this program was started in.
    ///
    /// Cargo says at run time where the package lies; what was known at compile time may be another clone
    /// that shares the target directory.
    pub(crate) fn here() -> Self {
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().map_or_else(|| manifest.clone(), Path::to_path_buf);
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let target = if target.is_absolute() { target } else { root.join(target) };
        Self { root, target }
    }

    /// A cargo command at the root of the workspace.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(arguments).current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// Runs a command in the open: its line is printed, and its output goes to the terminal.
    pub(crate) fn run(&self, command: &mut Command) -> Result<(), String> {
        println!("$ {}", line_of(command));
        let status = command.status().map_err(|error| could_not_start(command, &error))?;
        if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", line_of(command))) }
    }

    /// Runs a command of cargo's in the open, and refuses its warnings.
    pub(crate) fn run_without_warnings(&self, command: &mut Command) -> Result<(), String> {
        println!("$ {}", line_of(command));
        let output =
            command.stdin(Stdio::null()).output().map_err(|error| could_not_start(command, &error))?;
        let said = String::from_utf8_lossy(&output.stderr);
        eprint!("{said}");
        match output.status {
            status if !status.success() => Err(format!("`{}` failed ({status})", line_of(command))),
            _ if warns(&said) => Err(format!("`{}` gave warnings", line_of(command))),
            _ => Ok(()),
        }
    }

    /// Runs a command and takes what it prints.
    pub(crate) fn read(&self, command: &mut Command) -> Result<String, String> {
        let output = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .map_err(|error| could_not_start(command, &error))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("`{}` failed ({}): {}", line_of(command), output.status, said.trim()))
        }
    }

    /// The text of a file, named from the root.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Result<String, String> {
        let path = self.root.join(path);
        fs::read_to_string(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
    }

    /// Every file below a directory whose name ends so, in order of their paths. What cargo or git keep for
    /// themselves is not looked at. A directory that is not there has no files.
    pub(crate) fn files(&self, below: impl AsRef<Path>, suffix: &str) -> Result<Vec<PathBuf>, String> {
        let mut found = Vec::new();
        let mut open = vec![self.root.join(below)];
        while let Some(directory) = open.pop() {
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(format!("{} cannot be read: {error}", directory.display())),
            };
            for entry in entries {
                let path = entry.map_err(|error| format!("{}: {error}", directory.display()))?.path();
                if path.is_dir() {
                    if !self.is_foreign(&path) {
                        open.push(path);
                    }
                } else if path.to_string_lossy().ends_with(suffix) {
                    found.push(path);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// The path as a person at the root would type it.
    pub(crate) fn shown<'p>(&self, path: &'p Path) -> std::path::Display<'p> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }

    fn is_foreign(&self, directory: &Path) -> bool {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with('.') || name == "target" || name == "node_modules" || directory == self.target
    }
}

fn line_of(command: &Command) -> String {
    let program =
        Path::new(command.get_program()).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Whether cargo or the compiler warns of something.
fn warns(said: &str) -> bool {
    said.lines().any(|line| line.starts_with("warning"))
}

fn could_not_start(command: &Command, error: &io::Error) -> String {
    format!("`{}` could not be started: {error}", line_of(command))
}
