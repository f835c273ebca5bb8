//! Runs every example as a program, and reads what it prints.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The program of an example, as cargo has built it beside this test.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.parent().and_then(Path::parent).expect("a test is in target/PROFILE/deps");
    let program = profile.join("examples").join(name);
    assert!(program.is_file(), "{} is not built: `cargo build --examples` builds it", program.display());
    program
}

/// What an example printed, after it ended well.
fn printed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the example starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?} ended with {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

fn run(name: &str) -> String {
    printed(&mut Command::new(program(name)))
}

#[test]
fn hello_greets() {
    assert_eq!(run("hello"), "HELLO, WORLD!\n");
}

#[test]
fn checkout_ships_what_is_approved_and_refunds_the_rest() {
    let text = run("checkout");
    assert!(
        text.contains("charge-1: shipped with label for 1 and invoice for 1999, approved by Ada\n"),
        "{text}"
    );
    assert!(text.contains("charged 500 cents for order 2\nrefunded charge-2\n"), "{text}");
    assert!(text.contains("Bob said no"), "{text}");
}

#[test]
fn schedule_starts_runs_by_the_clock_and_by_hand() {
    let lines = "Created\nUnchanged\nevery weekday at 02:30 in Europe/Paris\ncopied photos: Trigger\n\
                 paused: the disk is full\noften has run 3 times, and has 0 times left\n";
    assert_eq!(run("schedule"), lines);
}

#[test]
fn batch_gathers_until_there_are_enough() {
    let lines = "Created\nUnchanged\n3 things happened: a sale, a return, a complaint\n1 waits\n\
                 1 things happened: a visit\n";
    assert_eq!(run("batch"), lines);
}

#[test]
fn queues_keep_within_what_a_partner_allows() {
    let lines = "Created\nUnchanged\n10 calls, never more than two at once: true\n\
                 never more than five in a fifth of a second: true\npaused: true\nresumed\n";
    assert_eq!(run("queues"), lines);
}

#[test]
fn trial_says_goodbye_to_who_cancels() {
    assert_eq!(run("trial"), "goodbye, ada\n");
}

#[test]
fn agent_asks_before_it_acts() {
    let line = "Shall we sail?; the weather in Genoa: sunny; done: book the boat -> Done, after 3 turns.\n";
    assert_eq!(run("agent"), line);
}

#[test]
fn retries_shows_who_is_tried_again() {
    let lines = "flaky worked at attempt 3\npolite worked at attempt 2\npicky failed: the printer is on fire\n\
                 hopeless failed: there is no such account\n\
                 picky took 2 attempts: the second failure was not worth a third\n";
    assert_eq!(run("retries"), lines);
}

#[test]
fn order_machine_goes_from_state_to_state() {
    let lines = "20: Shipped after 3 questions, \"a parcel worth 20\"\n500: Rejected after 0 questions, \"\"\n\
                 stateDiagram-v2\n    [*] --> New\n    New --> Paid\n    New --> Rejected\n    Paid --> Packed\n    \
                 Packed --> Shipped\n    Shipped --> [*]\n    Rejected --> [*]\n";
    assert_eq!(run("order_machine"), lines);
}

#[test]
fn rules_run_and_skip_tasks() {
    let text = run("rules");
    assert!(text.contains("20: shipped for 20\n  gift was skipped"), "{text}");
    assert!(text.contains("500: shipped for 500, a gift worth 10\n  apologise was skipped"), "{text}");
    assert!(text.contains("-1: sorry: the card was refused\n"), "{text}");
    assert!(text.contains("ship was skipped: `charge` failed"), "{text}");
}

#[test]
fn context_is_merged_as_declared() {
    let lines = "plain: {\"style\":5} from speed\ndeep:  {\"speed\":7,\"style\":5}\nasked by ada\n";
    assert_eq!(run("context"), lines);
}

#[test]
fn fan_out_keeps_its_limit_and_its_order() {
    let lines = "sum 630, at most 3 at once\npicture 5 (element Some(4)) is damaged\n\
                 picture 10 (element Some(9)) is damaged\n";
    assert_eq!(run("fan_out"), lines);
}

#[test]
fn resources_and_settings_that_are_missing_are_named() {
    let text = printed(Command::new(program("resources")).env_remove("WINDLASS_VAR_GREETING"));
    assert!(text.contains("Mailer") && text.contains("WINDLASS_VAR_GREETING is not set"), "{text}");
    let text = printed(Command::new(program("resources")).env("WINDLASS_VAR_GREETING", "Welcome"));
    assert!(text.ends_with("Welcome, Ada! (1 from team@example.com)\n"), "{text}");
}

#[test]
fn transactions_leave_both_writes_and_record_or_nothing() {
    let lines = "alice 70, bob 130 after 1 transfer\nnot enough money: alice 70, bob 130 after 1 transfer\n\
                 the second attempt counts alone: alice 20, bob 180 after 2 transfers\n";
    assert_eq!(run("transactions"), lines);
}

#[test]
fn blocking_code_holds_up_nobody() {
    assert_eq!(run("blocking"), "the sum is 500500, and the other task went on\n");
}

#[test]
fn a_long_wait_asks_again_and_long_work_keeps_its_place() {
    let text = run("long_wait");
    assert_eq!(text.matches("  question ").count(), 3, "{text}");
    assert!(text.ends_with("attempt 2 began at row 6 and reached row 10\n"), "{text}");
}

#[test]
fn steering_does_what_it_says() {
    let text = run("steering");
    assert_eq!(text.matches("shopping for soup").count(), 1, "a retry keeps what is done: {text}");
    assert_eq!(text.matches("shopping for rice").count(), 1, "a fork keeps what is before it: {text}");
    assert_eq!(text.matches("cooking fresh rice").count(), 2, "{text}");
    assert!(text.contains("run_cancelled: "), "{text}");
    assert!(text.contains("it is Paused, and nothing was served\nresume"), "{text}");
    assert!(text.contains("another run: true\n"), "{text}");
}

#[test]
fn recover_repeats_only_what_was_not_recorded() {
    let text = run("recover");
    let counts = ["first", "second", "third"].map(|step| text.matches(&format!("{step} is running")).count());
    assert_eq!(counts, [1, 2, 1], "{text}");
    assert!(text.contains("the worker ended: it was killed\n"), "{text}");
    assert!(text.contains("the result is 3\n  taken over from a dead process: 1 time(s)\n"), "{text}");
}

#[test]
fn several_processes_share_the_work() {
    let text = run("several_processes");
    assert!(
        text.starts_with("2 processes run an engine on the file\n40 runs, done by 2 processes\n"),
        "{text}"
    );
    assert_eq!(text.matches("a worker stopped: exit status: 0").count(), 2, "{text}");
}

#[test]
fn process_pool_hands_tasks_to_processes_of_their_own() {
    let lines =
        "12 pictures, none of them rendered here: true\nrendered again, because their process died: [7]\n";
    assert_eq!(run("process_pool"), lines);
}

#[test]
fn from_data_builds_a_graph_and_names_every_problem() {
    let text = run("from_data");
    assert!(text.starts_with("flowchart TD\n"), "{text}");
    assert!(text.contains("5 gives 6\n50 gives 202\n"), "{text}");
    assert!(text.contains("did you mean `total`?") && text.contains("total → total"), "{text}");
}

#[test]
fn bulk_starts_finds_retries_and_cancels() {
    let lines = "1000 runs started; started again they are the same: true\n\
                 100 failed, the newest with key Some(\"invoice-1000\")\nretried: 100\n\
                 invoice-1000 gives 1000\nwaiting: 300\ncancelled: 300\n";
    assert_eq!(run("bulk"), lines);
}

#[cfg(feature = "postgres")]
#[test]
fn psql_starts_what_it_commits_and_nothing_else() {
    let lines = "charged 420 for order 17\norder 17 is paid with receipt 1\n\
                 order 18 was rolled back, and has no run\norders: 17; runs: 17\n";
    assert_eq!(run("psql"), lines);
}

#[test]
fn tenants_are_kept_apart() {
    let lines = "tenants: acme, beta\nacme sends an invoice to ada\nbeta sends an invoice to ada\n\
                 a run of acme, asked for at beta: unknown_run\ninvalid\ninvalid\n\
                 removing beta while it is served: tenant_in_use\nremoving it now: true\ntenants: acme\n";
    assert_eq!(run("tenants"), lines);
}

#[test]
fn testing_runs_outside_the_laboratory_too() {
    assert_eq!(run("testing"), "thanked ada; `cargo test --example testing` runs the tests\n");
}
