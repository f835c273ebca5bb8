//! `cargo xtask bench`: builds the benchmark in release and hands the arguments on.

use crate::workspace::Workspace;

/// Runs `windlass-bench`. Cargo is kept quiet, so that with `--json` nothing but JSON reaches the output.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), String> {
    let begin = ["run", "--quiet", "--release", "--package", "windlass-bench", "--"];
    let mut command = workspace.cargo(&begin);
    command.args(arguments);
    let status = command.status().map_err(|error| format!("cargo could not be started: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the benchmark ended with {status}; what it said above tells why"))
    }
}
