//! Interrupts the `etl` example in every way it promises to survive.
#![cfg(unix)]

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

fn etl(dir: &Path, options: &[&str]) -> Command {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.parent().and_then(Path::parent).expect("a test is in target/PROFILE/deps");
    let program: PathBuf = profile.join("examples").join("etl");
    assert!(program.is_file(), "{} is not built: `cargo build --examples` builds it", program.display());
    let mut command = Command::new(program);
    command.arg("--dir").arg(dir).args(options);
    command
}

/// Runs it to its end.
fn printed(dir: &Path, options: &[&str]) -> String {
    let output = etl(dir, options).output().expect("the example starts");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    assert!(
        output.status.success(),
        "{}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// Runs it until a fifth is done, interrupts it, and gives what it printed and how it ended.
fn interrupted(dir: &Path, interrupt: impl FnOnce(&mut Child)) -> (String, ExitStatus) {
    let mut child = etl(dir, &[]).stdout(Stdio::piped()).spawn().expect("the example starts");
    let mut output = BufReader::new(child.stdout.take().expect("its output is piped"));
    let mut text = String::new();
    while !text.contains("enrich: 40 of 200") {
        assert_ne!(output.read_line(&mut text).expect("it prints text"), 0, "it ended early:\n{text}");
    }
    interrupt(&mut child);
    output.read_to_string(&mut text).expect("it prints text");
    (text, child.wait().expect("it ends"))
}

/// What stands between two texts.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no `{before}` in:\n{text}")).1;
    rest.split_once(after).unwrap_or_else(|| panic!("no `{after}` in:\n{text}")).0
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is not a number"))
}

type User = (u32, String, String, String, f64, String);

fn table(dir: &Path) -> Vec<User> {
    let db = rusqlite::Connection::open(dir.join("warehouse.db")).expect("the table is there");
    let mut query = db
        .prepare("SELECT id, name, email, country, euros, segment FROM users ORDER BY id")
        .expect("the table has these columns");
    let rows = query.query_map((), |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
    });
    rows.expect("the table can be read").map(|row| row.expect("a row fits")).collect()
}

/// The second start goes on with the same run, and does only what is left.
fn goes_on(dir: &Path, first: &str) {
    let id = between(first, "starting run ", ";");
    let second = printed(dir, &["--fast"]);
    let done = number(between(&second, &format!("resuming run {id}: "), " of 200 users already done\n"));
    let again = number(between(&second, "this process enriched ", "\n"));
    assert!(done >= 40, "what was shown was recorded: {second}");
    assert!(again >= 200 - done && again <= 160, "what was recorded is not done again: {second}");
    assert!(second.contains("= extract was done before"), "{second}");
    assert_eq!(table(dir), straight(), "interrupted or not, the table is the same");

    let third = printed(dir, &["--fast"]);
    assert!(third.contains(&format!("run {id} is done already")) && third.contains("--fresh"), "{third}");
}

/// The table after a start that nobody interrupts.
fn straight() -> Vec<User> {
    let dir = tempfile::tempdir().expect("there is room");
    printed(dir.path(), &["--fast"]);
    table(dir.path())
}

#[test]
fn it_loads_what_is_sound_and_keeps_the_rest_apart() {
    let dir = tempfile::tempdir().unwrap();
    let text = printed(dir.path(), &["--fast"]);
    assert!(
        text.contains("rates: attempt 1 failed: the rate service answered with status 503; trying again"),
        "{text}"
    );
    assert!(text.contains("done: 200 users are in the table; this process enriched 200\n"), "{text}");
    assert!(!text.contains('\x1b'), "no colours where there is no terminal: {text}");
    let users = table(dir.path());
    assert_eq!(users.len(), 200);
    assert_eq!((users[1].1.as_str(), users[1].2.as_str()), ("Barbara Keller", "barbara.keller2@example.com"));
    let rejected = std::fs::read_to_string(dir.path().join("rejected.csv")).unwrap();
    assert_eq!(rejected.lines().count(), 12, "{rejected}");
}

#[test]
fn after_ctrl_c_it_stops_in_order_and_the_next_start_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (text, status) = interrupted(dir.path(), |child| {
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(kill.expect("the system has `kill`").success());
    });
    assert_eq!(status.code(), Some(130), "{text}");
    assert!(text.ends_with("stopped; the same command goes on from here\n"), "{text}");
    goes_on(dir.path(), &text);
}

#[test]
fn after_kill_9_the_next_start_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (text, status) = interrupted(dir.path(), |child| child.kill().expect("it can be killed"));
    assert_eq!(status.code(), None, "a signal ended it: {text}");
    goes_on(dir.path(), &text);
}

#[test]
fn fresh_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let first = printed(dir.path(), &["--fast"]);
    let second = printed(dir.path(), &["--fast", "--fresh"]);
    assert_ne!(between(&first, "starting run ", ";"), between(&second, "starting run ", ";"));
    assert!(second.contains("this process enriched 200\n"), "{second}");
}

#[test]
fn an_unknown_option_is_refused_with_those_that_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let output = etl(dir.path(), &["--frehs"]).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("`--frehs` is not known: --fresh, --fast and --dir DIR are"), "{text}");
}
