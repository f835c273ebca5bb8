//! What is installed beside cargo.

use std::{env, process::Stdio};

use crate::{chore::Outcome, workspace::Workspace};

/// The tools that chores can use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tools {
    /// Runs tests in parallel processes.
    pub(crate) nextest: bool,
    /// Formats.
    pub(crate) rustfmt: bool,
    /// Lints.
    pub(crate) clippy: bool,
    /// Judges dependencies.
    pub(crate) deny: bool,
}

impl Tools {
    /// Asks each tool for its version.
    pub(crate) fn look(workspace: &Workspace) -> Self {
        let has = |tool: &str| {
            let mut command = workspace.cargo(&[tool, "--version"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        Self { nextest: has("nextest"), rustfmt: has("fmt"), clippy: has("clippy"), deny: has("deny") }
    }
}

/// What becomes of a chore whose toolchain component is missing: on a person's machine it is left out, in CI
/// (where the variable `CI` is set) it fails, because nobody would read the line.
pub(crate) fn without(component: &str) -> Result<Outcome, String> {
    let missing = format!("{component} is not installed; `rustup component add {component}` adds it");
    if env::var_os("CI").is_some() { Err(missing) } else { Ok(Outcome::LeftOut(missing)) }
}
