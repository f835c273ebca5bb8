//! `cargo xtask bench`: builds the benchmark in release and hands the arguments on.

use crate::workspace::Workspace;

/// The workspace of the other crates, and the option that asks for them.
const PEERS: &str = "bench/peers";
const ASKED: &str = "--peers";

/// Tells the benchmark where the programs of the other crates lie.
const PLACE: &str = "WINDLASS_BENCH_PEERS";

/// Runs `windlass-bench`. Cargo is kept quiet, so that with `--json` nothing but JSON reaches the output.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), String> {
    let begin = ["run", "--quiet", "--release", "--package", "windlass-bench", "--"];
    let mut command = workspace.cargo(&begin);
    command.args(arguments);
    if arguments.iter().any(|argument| argument == ASKED) {
        // Never beside ours: two workspaces in one directory would build each other's crates anew.
        let target = workspace.target.join("peers");
        let build = ["build", "--quiet", "--release", "--locked", "--workspace"];
        let mut peers = workspace.cargo(&build);
        peers.current_dir(workspace.root.join(PEERS)).env("CARGO_TARGET_DIR", &target);
        let status = peers.status().map_err(|error| format!("cargo could not be started: {error}"))?;
        if !status.success() {
            return Err(format!("the other crates in {PEERS} could not be built ({status})"));
        }
        command.env(PLACE, target.join("release"));
    }
    let status = command.status().map_err(|error| format!("cargo could not be started: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the benchmark ended with {status}; what it said above tells why"))
    }
}
