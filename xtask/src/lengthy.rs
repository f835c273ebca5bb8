//! Tests that take minutes, and are no part of `cargo xtask test`.

use crate::{
    chore::{self, Chore, Outcome},
    workspace::Workspace,
};

/// `cargo xtask sweep`: a long program is killed at every boundary of a record. Both stores are swept side by side; the test
/// harness does that.
pub(crate) fn sweep(workspace: &Workspace) -> Result<(), String> {
    let way_out = "the story of the failed test says where the program was killed; `cargo test` with its name repeats it";
    let tests = ["--ignored", "--nocapture", "hundred_calls"];
    run(workspace, &[("a function of a hundred calls, on both stores", way_out, &tests[..])])
}

/// `cargo xtask soak`: minutes of work with kills. One store after the other, because each has all of the machine.
pub(crate) fn soak(workspace: &Workspace) -> Result<(), String> {
    let way_out =
        "the failed test says how each span of it went; other work on this machine makes it slower too";
    let tests = ["--ignored", "--nocapture", "soak::", "--test-threads=1"];
    run(workspace, &[("minutes of work with kills, on both stores", way_out, &tests[..])])
}

/// `cargo xtask limits`: the long forms of what is tried with processes that are killed: a queue with limits, and a schedule.
pub(crate) fn limits(workspace: &Workspace) -> Result<(), String> {
    let way_out = "the failed test says what was exceeded, or which time has how many runs";
    let queues = ["--ignored", "--nocapture", "at_length"];
    let schedules = ["--nocapture", "schedules::"];
    run(
        workspace,
        &[
            ("twenty thousand runs of a queue with limits, on both stores", way_out, &queues[..]),
            ("a minute of a schedule, on both stores", way_out, &schedules[..]),
        ],
    )
}

/// Runs tests of the safety of the engine in their long forms: what each chore is, its way out, and which tests.
fn run(workspace: &Workspace, which: &[(&'static str, &'static str, &[&str])]) -> Result<(), String> {
    let chore = |(name, way_out, which): &(&'static str, &'static str, &[&str])| {
        let which: Vec<String> = which.iter().map(|word| (*word).to_owned()).collect();
        Chore::new(name, way_out, move |workspace| {
            windlass_cluster::install()?;
            let tests =
                ["test", "--package", "windlass", "--all-features", "--locked", "--test", "safety", "--"];
            workspace.run(workspace.cargo(&tests).args(&which).env("WINDLASS_LONG", "1"))?;
            Ok(Outcome::Done)
        })
    };
    chore::do_all(workspace, &which.iter().map(chore).collect::<Vec<_>>())
}
