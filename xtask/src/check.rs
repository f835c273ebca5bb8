//! `cargo xtask check`: everything that can be said without running the tests.

use crate::{
    Pace, arrows,
    chore::{self, Chore, Outcome},
    driver_range, examples, features, licences, options, pages, sizes,
    tools::{self, Tools},
    workspace::Workspace,
};

/// Does the chore by itself.
pub(crate) fn run(workspace: &Workspace, pace: Pace) -> Result<(), String> {
    let tools = Tools::look(workspace);
    let mut chores = chores(tools, pace);
    if pace == Pace::Full {
        chores.push(driver_range::chore(tools));
    }
    chore::do_all(workspace, &chores)
}

/// The checks, quick ones first. The driver's range is not among them, because it builds on what the tests
/// have built.
pub(crate) fn chores(tools: Tools, pace: Pace) -> Vec<Chore<'static>> {
    let mut chores = vec![
        Chore::cargo(
            "crates as locked",
            "without a network this needs an earlier download; if the lock file is old, `cargo update --workspace` renews it",
            &["fetch", "--locked"],
        ),
        format(tools),
        Chore::new(
            "what may depend on what",
            "xtask/src/arrows.rs says which crate may know which, and why",
            |workspace| arrows::check(workspace).map(|()| Outcome::Done),
        ),
        Chore::new("licences", "take another crate, or argue for the licence in deny.toml", |workspace| {
            licences::check(workspace).map(|()| Outcome::Done)
        }),
        Chore::new(
            "pages",
            "correct the page, include it beside the others in crates/engine/src, or name the option",
            |workspace| {
                pages::check(workspace).and_then(|()| options::check(workspace)).map(|()| Outcome::Done)
            },
        ),
        Chore::new(
            "examples",
            "write a test in examples/tests that runs the example and reads its output",
            |workspace| examples::check(workspace).map(|()| Outcome::Done),
        ),
        Chore::new("sizes of files", "", |workspace| sizes::hint(workspace).map(|()| Outcome::Done)),
        lint(tools),
    ];
    if pace == Pace::Full {
        chores.push(Chore::new(
            "feature combinations",
            "repeat the last command above; an item that only some features use wants a #[cfg]",
            |workspace| features::check(workspace).map(|()| Outcome::Done),
        ));
        chores.push(documentation());
    }
    chores.push(deny(tools));
    chores
}

fn format(tools: Tools) -> Chore<'static> {
    Chore::new("formatting", "`cargo fmt --all` there puts it right", move |workspace| {
        if !tools.rustfmt {
            return tools::without("rustfmt");
        }
        workspace.run(&mut workspace.cargo(&["fmt", "--all", "--check"]))?;
        // A workspace of its own, which is not built here: this is all that is said about it.
        let peers = ["fmt", "--all", "--check", "--manifest-path", "bench/peers/Cargo.toml"];
        workspace.run(&mut workspace.cargo(&peers))?;
        Ok(Outcome::Done)
    })
}

fn lint(tools: Tools) -> Chore<'static> {
    Chore::new("lints", "correct what is named above, or allow it there with a reason", move |workspace| {
        if !tools.clippy {
            return tools::without("clippy");
        }
        let arguments =
            ["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"];
        workspace.run(&mut workspace.cargo(&arguments))?;
        Ok(Outcome::Done)
    })
}

fn documentation() -> Chore<'static> {
    Chore::new("documentation", "correct the documentation that is named above", |workspace| {
        let arguments = ["doc", "--workspace", "--no-deps", "--all-features", "--locked"];
        workspace.run(workspace.cargo(&arguments).env("RUSTDOCFLAGS", "-D warnings"))?;
        Ok(Outcome::Done)
    })
}

/// Advisories are not asked for: they come over the network and change from day to day, and a commit that
/// passed must pass again.
fn deny(tools: Tools) -> Chore<'static> {
    Chore::new("cargo-deny", "deny.toml says what is allowed and why", move |workspace| {
        if !tools.deny {
            let why = "an extra, and cargo-deny is not installed (`cargo install cargo-deny`)";
            return Ok(Outcome::LeftOut(why.into()));
        }
        workspace.run(&mut workspace.cargo(&["deny", "check", "bans", "licenses", "sources"]))?;
        Ok(Outcome::Done)
    })
}
