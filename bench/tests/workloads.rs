//! Every workload works, on small numbers: whether it is within its budget is not asked here.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-bench"));
    command.args(line.split_whitespace()).output().expect("the program starts")
}

fn measured(line: &str) -> Value {
    let output = bench(&format!("--json --seconds 0.1 --store sqlite {line}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
    let printed = String::from_utf8(output.stdout).expect("it is text");
    assert_eq!(printed.lines().count(), 1, "one line for one workload: {printed}");
    serde_json::from_str(&printed).expect("it is JSON")
}

fn positive(line: &Value, field: &str) {
    assert!(line[field].as_f64().is_some_and(|value| value > 0.0), "{field} in {line}");
}

#[test]
fn chain3_is_measured_beside_its_limit() {
    let line = measured("--workload chain3 --concurrency 20");
    assert_eq!((&line["workload"], &line["concurrency"]), (&Value::from("chain3"), &Value::from(20)));
    for field in [
        "tasks_per_s",
        "limit_tasks_per_s",
        "of_limit",
        "p50_ms",
        "p99_ms",
        "commits_per_task",
        "bytes_per_task",
    ] {
        positive(&line, field);
    }
    assert!(line["within_budget"].is_boolean() && line["budget"].is_string(), "{line}");
}

#[test]
fn latency_is_measured_beside_four_commits() {
    let line = measured("--workload chain3-latency");
    positive(&line, "p50_ms");
    positive(&line, "commit_p50_ms");
}

#[test]
fn a_backlog_is_enqueued_and_worked_off() {
    let line = measured("--workload burndown --scale 0.01");
    positive(&line, "tasks_per_s");
    positive(&line, "enqueue_of_limit");
}

#[test]
fn ten_thousand_instances_are_joined() {
    positive(&measured("--workload fanout"), "tasks_per_s");
}

#[test]
fn depth_is_measured_beside_empty_tables() {
    let line = measured("--workload depth --scale 0.001 --concurrency 20");
    positive(&line, "of_limit");
    assert_eq!(line["ended_rows"], 5_000.0);
}

#[test]
fn the_runs_of_a_killed_process_go_on_in_another() {
    let line = measured("--workload recover --concurrency 100");
    positive(&line, "recovered_s");
}

#[test]
fn the_memory_of_a_node_with_a_backlog_is_measured() {
    let line = measured("--workload memory --scale 0.01 --concurrency 10");
    assert_eq!(line["pending"], 1_000.0);
    if cfg!(target_os = "linux") {
        positive(&line, "memory_mb");
    }
}

#[test]
fn a_large_graph_is_started_and_ends() {
    let line = measured("--workload graph --scale 0.05");
    assert_eq!(line["tasks"], 500.0);
    positive(&line, "first_task_s");
}

#[test]
fn a_mistake_is_an_error_with_a_way_out() {
    let output = bench("--workload chain4");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("chain4") && said.contains("chain3-latency"), "{said}");
}
