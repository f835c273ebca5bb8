//! `cargo xtask sweep`: the tests that kill a long program at every boundary of a record.

use crate::{
    chore::{self, Chore, Outcome},
    workspace::Workspace,
};

/// What the names of these tests have in common.
const NAME: &str = "hundred_calls";

/// Does the chore. Both stores are swept side by side; the test harness does that.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let way_out = "the story of the failed test says where the program was killed; `cargo test` with its name repeats it";
    let sweep = Chore::new("a function of a hundred calls, on both stores", way_out, |workspace| {
        windlass_cluster::install()?;
        let tests = ["test", "--package", "windlass", "--all-features", "--locked", "--test", "safety"];
        workspace.run(workspace.cargo(&tests).args(["--", "--ignored", "--nocapture", NAME]))?;
        Ok(Outcome::Done)
    });
    chore::do_all(workspace, &[sweep])
}
