//! Runs the example, and reads what it prints.

use std::process::Command;

#[test]
fn what_is_committed_runs_once_and_what_is_rolled_back_never_runs() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_windlass-sqlx-example")).output().expect("the example starts");
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}\n{said}");
    let lines = "charged 420 for order 17\norder 17 is paid with receipt 1\n\
                 order 18 was rolled back, and has no run\norders: 1; runs: 1\n";
    assert_eq!(printed, lines);
}
