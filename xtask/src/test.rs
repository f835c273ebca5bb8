//! `cargo xtask test`: the checks, then everything that runs.

use windlass_cluster::Cluster;

use crate::{
    Pace, check,
    chore::{self, Chore, Outcome},
    driver_range, page,
    tools::Tools,
    workspace::Workspace,
};

/// Does the chore. The tests come after the checks, because those are quicker to fail.
pub(crate) fn run(workspace: &Workspace, pace: Pace) -> Result<(), String> {
    let tools = Tools::look(workspace);
    let mut chores = check::chores(tools, pace);
    if pace == Pace::Full {
        chores.extend(page::chores());
    }
    chores.push(tests(tools));
    // The examples of the rustdoc, of the README and of docs/ (the pages check sees to it that they are there).
    chores.push(Chore::cargo(
        "doc tests",
        "each failure names the page or the item; its example must compile and run as it stands",
        &["test", "--workspace", "--all-features", "--locked", "--doc"],
    ));
    if pace == Pace::Full {
        chores.push(page::browser());
        chores.push(sqlx_example(tools));
        chores.push(driver_range::chore(tools));
    }
    chore::do_all(workspace, &chores)
}

/// The example that is a workspace of its own, because nothing else needs what it is built on.
fn sqlx_example(tools: Tools) -> Chore<'static> {
    const MANIFEST: &str = "examples/sqlx/Cargo.toml";
    Chore::new(
        "the sqlx example",
        "if its lock file is old, `cargo update --workspace --manifest-path examples/sqlx/Cargo.toml` renews it",
        move |workspace| {
            if tools.rustfmt {
                workspace.run(&mut workspace.cargo(&["fmt", "--manifest-path", MANIFEST, "--check"]))?;
            }
            workspace.run(&mut workspace.cargo(&["test", "--manifest-path", MANIFEST, "--locked"]))?;
            Ok(Outcome::Done)
        },
    )
}

/// Unit tests, integration tests, and the examples through theirs.
fn tests(tools: Tools) -> Chore<'static> {
    Chore::new("tests", "`cargo test NAME` repeats one test by itself", move |workspace| {
        windlass_cluster::install()?;
        // One cluster for all of them. What a power cut does to it is PostgreSQL's business.
        let cluster = Cluster::start(&["fsync = off", "max_connections = 300"])?;
        let arguments = command(tools, &["--workspace", "--all-features", "--locked"]);
        let mut tests = workspace.cargo(&arguments);
        tests
            .env(windlass_cluster::VARIABLE, cluster.url())
            .env("NEXTEST_TEST_THREADS", abreast().to_string());
        workspace.run(&mut tests)?;
        Ok(Outcome::Done)
    })
}

/// How many tests run at once: many of them mostly wait, for processes, for timers, or for a server.
fn abreast() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores + cores.div_ceil(2)
}

/// The command that runs all but the doc tests: nextest where it is installed, plain cargo where it is not.
pub(crate) fn command<'a>(tools: Tools, what: &[&'a str]) -> Vec<&'a str> {
    if tools.nextest {
        [&["nextest", "run"], what].concat()
    } else {
        // Examples are named, because tests run their programs and only an unfiltered build makes them.
        [&["test"], what, &["--lib", "--bins", "--tests", "--examples"]].concat()
    }
}
