//! Tests that take minutes, and are no part of `cargo xtask test`.

use crate::{
    chore::{self, Chore, Outcome},
    workspace::Workspace,
};

/// `cargo xtask sweep`: a long program is killed at every boundary of a record. Both stores are swept side by side; the test
/// harness does that.
pub(crate) fn sweep(workspace: &Workspace) -> Result<(), String> {
    let way_out = "the story of the failed test says where the program was killed; `cargo test` with its name repeats it";
    run(workspace, "a function of a hundred calls, on both stores", way_out, &["hundred_calls"])
}

/// `cargo xtask soak`: minutes of work with kills. One store after the other, because each has all of the machine.
pub(crate) fn soak(workspace: &Workspace) -> Result<(), String> {
    let way_out =
        "the failed test says how each span of it went; other work on this machine makes it slower too";
    run(workspace, "minutes of work with kills, on both stores", way_out, &["soak::", "--test-threads=1"])
}

/// Runs tests of the safety of the engine that are ignored otherwise.
fn run(
    workspace: &Workspace,
    name: &'static str,
    way_out: &'static str,
    which: &[&str],
) -> Result<(), String> {
    let chore = Chore::new(name, way_out, |workspace| {
        windlass_cluster::install()?;
        let tests = ["test", "--package", "windlass", "--all-features", "--locked", "--test", "safety"];
        workspace.run(workspace.cargo(&tests).args(["--", "--ignored", "--nocapture"]).args(which))?;
        Ok(Outcome::Done)
    });
    chore::do_all(workspace, &[chore])
}
