//! The project's chores. `cargo xtask help` lists them.
//!
//! It has no dependencies of others and needs nothing but the Rust toolchain and a C compiler. Tools that make the work
//! quicker or stricter (nextest, cargo-deny) are used where they are installed. PostgreSQL, Node and Chromium, which tests
//! need, are installed where that can be done.

mod arrows;
mod bench;
mod check;
mod chore;
mod driver_range;
mod examples;
mod features;
mod lengthy;
mod licences;
mod options;
mod page;
mod pages;
mod sizes;
mod test;
mod tools;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const HELP: &str = "\
The project's chores.

  cargo xtask test [--fast]   everything: the checks below, all tests, doc tests, README and docs, the page
                              --fast leaves out the feature combinations, the documentation build, the
                              page, the sqlx example and the other end of the rusqlite range
  cargo xtask check [--fast]  formatting, lints, documentation, feature combinations, what may depend on
                              what, licences, the rusqlite range; no tests but those of the range
  cargo xtask pages           the links and Rust blocks of README and docs, and that every option has its page
  cargo xtask sweep           a function of a hundred calls, killed at every boundary of a record, on both
                              stores; some minutes, and no part of test
  cargo xtask soak            five minutes of work of every kind on each store, with kills: it stays as quick,
                              and as small; no part of test, WINDLASS_SOAK_MINUTES makes it longer
  cargo xtask limits          20,000 runs of a queue with limits, and a minute of a schedule, with kills, on both
                              stores; no part of test
  cargo xtask bench [ARGS]    the workloads beside the raw limit of the store, in a release build
                              (cargo xtask bench --help says what can be asked; with --peers it builds
                              the other crates of bench/peers too)
  cargo xtask ui [--check]    the web page, built from ui/ into crates/server/dist; with --check it is
                              tested, and compared with what is committed
  cargo xtask help            this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    let workspace = Workspace::here();
    let done = match command {
        "test" => pace(rest).and_then(|pace| test::run(&workspace, pace)),
        "check" => pace(rest).and_then(|pace| check::run(&workspace, pace)),
        "pages" => pages::check(&workspace).and_then(|()| options::check(&workspace)),
        "sweep" => plain(rest).and_then(|()| lengthy::sweep(&workspace)),
        "soak" => plain(rest).and_then(|()| lengthy::soak(&workspace)),
        "limits" => plain(rest).and_then(|()| lengthy::limits(&workspace)),
        "bench" => bench::run(&workspace, rest),
        "ui" => page::wish(rest).and_then(|wish| page::run(&workspace, wish)),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("there is no chore called `{other}`: `cargo xtask help` lists them")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("\nxtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// How thorough a person wants the work to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Full,
    Fast,
}

fn pace(arguments: &[String]) -> Result<Pace, String> {
    match arguments {
        [] => Ok(Pace::Full),
        [only] if only == "--fast" => Ok(Pace::Fast),
        [other, ..] => Err(format!("`{other}` is not understood: the only option is --fast")),
    }
}

fn plain(arguments: &[String]) -> Result<(), String> {
    match arguments {
        [] => Ok(()),
        [other, ..] => Err(format!("`{other}` is not understood: this takes no options")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_option_is_refused_by_name() {
        assert_eq!(pace(&["--fast".into()]), Ok(Pace::Fast));
        assert!(pace(&["--fats".into()]).is_err_and(|why| why.contains("`--fats`")));
    }
}
