//! Every workload works, on small numbers: whether it is within its budget is not asked here.

use std::{
    env,
    process::{Command, Output, Stdio},
    sync::LazyLock,
};

use serde_json::Value;
use tokio_postgres::NoTls;
use windlass_cluster::Cluster;

const STORES: [&str; 2] = ["sqlite", "postgres"];

/// One for all tests of a process: a cluster takes longer to start than most of them.
static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster::find().expect("PostgreSQL is there"));

/// Runs the program; answers its process id too.
fn bench(line: &str) -> (u32, Output) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-bench"));
    command.args(line.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the program starts");
    (child.id(), child.wait_with_output().expect("it ends"))
}

fn said(line: &str, output: Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{line}: {errors}");
    let printed = String::from_utf8(output.stdout).expect("it is text");
    assert_eq!(printed.lines().count(), 1, "one line for one workload: {printed}");
    serde_json::from_str(&printed).expect("it is JSON")
}

fn measured(store: &str, line: &str) -> Value {
    let line = format!("--json --seconds 0.1 --store {store} --url {} {line}", CLUSTER.url());
    let (_, output) = bench(&line);
    let line = said(&line, output);
    assert_eq!(line["store"], store);
    line
}

/// Measures on all stores at once: nothing is said of how long it takes, and much of that is waiting.
fn on_each_store(measure: impl Fn(&str) + Sync) {
    let measure = &measure;
    std::thread::scope(|scope| {
        for store in STORES {
            scope.spawn(move || measure(store));
        }
    });
}

fn positive(line: &Value, field: &str) {
    assert!(line[field].as_f64().is_some_and(|value| value > 0.0), "{field} in {line}");
}

#[test]
fn chain3_is_measured_beside_its_limit() {
    on_each_store(|store| {
        let line = measured(store, "--workload chain3 --concurrency 20");
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
    });
}

#[test]
fn steps_are_measured_beside_their_limit() {
    on_each_store(|store| {
        let line = measured(store, "--workload steps --concurrency 20");
        for field in ["tasks_per_s", "limit_tasks_per_s", "of_limit", "p50_ms", "commits_per_task"] {
            positive(&line, field);
        }
    });
}

#[test]
fn a_running_function_is_weighed() {
    on_each_store(|store| {
        let line = measured(store, "--workload steps-memory --concurrency 200");
        if cfg!(target_os = "linux") {
            assert!(line["bytes_per_run"].is_number(), "{line}");
        }
    });
}

#[test]
fn functions_that_are_due_at_one_instant_go_on_once_each() {
    on_each_store(|store| {
        let line = measured(store, "--workload timers --scale 0.01");
        assert_eq!(line["parked"], 100.0);
        positive(&line, "resumed_s");
    });
}

#[test]
fn schedules_that_are_due_together_fire_once_each() {
    on_each_store(|store| {
        let line = measured(store, "--workload schedules --scale 0.02");
        assert_eq!(line["schedules"], 20.0);
        positive(&line, "fired_s");
        positive(&line, "late_p99_ms");
        assert!(line["statements_per_s"].is_number(), "{line}");
    });
}

#[test]
fn items_are_gathered_and_each_is_in_one_run() {
    on_each_store(|store| {
        let line = measured(store, "--workload batches --scale 0.02");
        assert_eq!(line["items"], 200.0);
        positive(&line, "items_per_s");
        positive(&line, "bulk_items_per_s");
        positive(&line, "start_p99_ms");
    });
}

#[test]
fn a_parked_function_is_resumed_from_its_records() {
    on_each_store(|store| {
        let line = measured(store, "--workload replay --scale 0.02");
        assert_eq!(line["steps"], 200.0);
        positive(&line, "resumed_ms");
        positive(&line, "resumed_at_once_ms");
    });
}

#[test]
fn latency_is_measured_beside_four_commits() {
    on_each_store(|store| {
        let line = measured(store, "--workload chain3-latency");
        positive(&line, "p50_ms");
        positive(&line, "commit_p50_ms");
    });
}

#[test]
fn a_backlog_is_enqueued_and_worked_off() {
    on_each_store(|store| {
        let line = measured(store, "--workload burndown --scale 0.01");
        positive(&line, "tasks_per_s");
        positive(&line, "enqueue_of_limit");
    });
}

#[test]
fn ten_thousand_instances_are_joined() {
    on_each_store(|store| {
        positive(&measured(store, "--workload fanout"), "tasks_per_s");
    });
}

#[test]
fn claims_are_measured_while_old_runs_are_discarded() {
    on_each_store(|store| {
        let line = measured(store, "--workload retention --scale 0.0005");
        for field in ["p50_ms", "discarded", "claim_max_ms", "claim_max_without_ms"] {
            positive(&line, field);
        }
    });
}

#[test]
fn claims_of_a_queue_with_limits_are_measured_deep_and_shallow() {
    on_each_store(|store| {
        let line = measured(store, "--workload queues --scale 0.002");
        for field in ["shallow_ms", "deep_ms", "waited_ms"] {
            positive(&line, field);
        }
    });
}

#[test]
fn depth_is_measured_beside_empty_tables() {
    on_each_store(|store| {
        let line = measured(store, "--workload depth --scale 0.001 --concurrency 20");
        positive(&line, "of_limit");
        assert_eq!(line["ended_rows"], 5_000.0);
    });
}

#[test]
fn the_runs_of_a_killed_process_go_on_in_another() {
    on_each_store(|store| {
        let line = measured(store, "--workload recover --concurrency 100");
        positive(&line, "recovered_s");
    });
}

#[test]
fn every_wake_is_measured_in_one_process_and_between_two() {
    on_each_store(|store| {
        let line = measured(store, "--workload wake");
        for what in ["started", "finished", "cancelled", "sent", "sent_parked"] {
            for place in ["here", "elsewhere"] {
                positive(&line, &format!("{what}_{place}_p99_ms"));
            }
        }
        positive(&line, "first_elsewhere_ms");
    });
}

#[test]
fn an_idle_process_is_counted_and_weighed() {
    on_each_store(|store| {
        ["idle", "idle-flows"].into_iter().for_each(|workload| {
            let line = measured(store, &format!("--workload {workload} --scale 0.001 --concurrency 10"));
            assert_eq!(line["parked"], 100.0);
            // A server that somebody named may count transactions alone.
            let counted = line["statements_per_s"].as_f64().or(line["transactions_per_s"].as_f64());
            assert!(counted.is_some_and(|rate| rate >= 0.0), "{line}");
            if cfg!(target_os = "linux") {
                assert!(line["bytes_per_run"].is_number(), "{line}");
            }
        })
    });
}

#[test]
fn two_processes_are_measured_beside_one() {
    on_each_store(|store| {
        let line = measured(store, "--workload chain3-two --concurrency 20");
        positive(&line, "of_limit");
    });
}

#[test]
fn work_is_measured_while_somebody_looks_on() {
    on_each_store(|store| {
        let line = measured(store, "--workload chain3-watched --concurrency 20 --seconds 0.5");
        positive(&line, "of_limit");
        positive(&line, "looks");
    });
}

#[test]
fn work_beside_a_held_snapshot_is_charted_with_the_rows_that_died() {
    // A session tells the statistics of the server once a second, so this has to take longer.
    let line = measured("postgres", "--workload burndown-held --scale 0.8 --seconds 1");
    positive(&line, "of_limit");
    let slices = line["slices"].as_array().expect("they are listed");
    let dead = slices.iter().filter_map(|slice| slice["dead_rows"]["ready"].as_u64()).max();
    assert!(dead > Some(0), "what was claimed is dead and still there: {line}");
    let line = measured("postgres", "--workload chain3-held --concurrency 20 --seconds 1");
    assert!(line["slices"].as_array().is_some_and(|slices| slices.len() > 1), "{line}");
}

#[test]
fn what_is_about_postgres_alone_is_refused_elsewhere() {
    let (_, output) = bench("--workload chain3-held --store sqlite");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--store postgres"), "{said}");
}

#[test]
fn the_memory_of_a_node_with_a_backlog_is_measured() {
    on_each_store(|store| {
        let line = measured(store, "--workload memory --scale 0.01 --concurrency 10");
        assert_eq!(line["pending"], 1_000.0);
        if cfg!(target_os = "linux") {
            positive(&line, "memory_mb");
        }
    });
}

#[test]
fn a_large_graph_is_started_and_ends() {
    on_each_store(|store| {
        let line = measured(store, "--workload graph --scale 0.05");
        assert_eq!(line["tasks"], 500.0);
        positive(&line, "first_task_s");
    });
}

#[test]
fn a_mistake_is_an_error_with_a_way_out() {
    let (_, output) = bench("--workload chain4");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("chain4") && said.contains("chain3-latency"), "{said}");
}

#[test]
fn other_crates_that_were_not_built_are_an_error_with_a_way_out() {
    let (_, output) = bench("--workload chain3 --store sqlite --peers");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cargo xtask bench --peers"), "{said}");
}

#[test]
fn a_server_of_our_own_counts_the_statements_of_an_idle_process() {
    let line = "--json --seconds 2 --store postgres --workload idle --scale 0.001 --concurrency 10";
    let (_, output) = bench(line);
    // Six seconds have a heartbeat in them. Without the part of PostgreSQL that counts, there is nothing to see.
    let line = said(line, output);
    assert!(
        line["budget"].as_str().is_some_and(|it| it.contains("counts no")) || line["statements_per_s"] != 0.0
    );
}

#[test]
fn without_a_server_a_cluster_is_started_and_nothing_of_it_is_left() {
    let line = "--json --seconds 0.1 --store postgres --workload chain3-latency";
    let (process, output) = bench(line);
    positive(&said(line, output), "p50_ms");
    assert!(!env::temp_dir().join(format!("windlass-pg-{process}-0")).exists());
}

#[tokio::test]
async fn a_measurement_leaves_no_schema_behind() {
    let url = CLUSTER.url();
    let line =
        format!("--json --seconds 0.1 --store postgres --workload chain3 --concurrency 20 --url {url}");
    let (process, output) = bench(&line);
    said(&line, output);
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it answers");
    tokio::spawn(connection);
    let sql = "SELECT count(*) FROM pg_namespace WHERE starts_with(nspname, $1)";
    let left = client.query_one(sql, &[&format!("windlass_bench_{process}_")]).await.expect("it is a query");
    assert_eq!(left.get::<_, i64>(0), 0);
}

#[tokio::test]
async fn a_measurement_leaves_no_database_behind() {
    let url = CLUSTER.url();
    let line = format!(
        "--json --seconds 0.1 --store postgres --workload idle --scale 0.001 --concurrency 2 --url {url}"
    );
    let (process, output) = bench(&line);
    said(&line, output);
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it answers");
    tokio::spawn(connection);
    let sql = "SELECT count(*) FROM pg_database WHERE starts_with(datname, $1)";
    let left = client.query_one(sql, &[&format!("windlass_bench_{process}_")]).await.expect("it is a query");
    assert_eq!(left.get::<_, i64>(0), 0);
}
