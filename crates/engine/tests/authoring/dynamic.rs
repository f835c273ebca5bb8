use std::time::Duration;

use windlass::{Resources, Skip, prelude::*};

use super::*;

fn doubling() -> Workflow {
    Workflow::builder("doubling")
        .description("Doubles numbers.")
        .timeout(Duration::from_secs(60))
        .task(Task::new("list", |cx| async move { cx.input::<Vec<u32>>() }))
        .task(
            Task::new("double", |cx| async move {
                let factor = cx.res::<u32>()?;
                cx.context().set("last", cx.item::<u32>()?)?;
                Ok(cx.item::<u32>()? * *factor)
            })
            .for_each("list")
            .limit(4)
            .wants::<u32>()
            .retry(Retry::attempts(2)),
        )
        .task(
            Task::blocking("sum", |cx| Ok(cx.result::<Vec<u32>>("double")?.iter().sum::<u32>()))
                .after(["double"]),
        )
        .task(
            Task::new(
                "report",
                |cx| async move { Ok(format!("{:?}", cx.outcome::<u32>("sum")?.completed())) },
            )
            .after(["sum"])
            .rule(Rule::done("sum")),
        )
        .output("sum")
        .build()
        .expect("the graph is sound")
}

#[test]
fn a_graph_that_is_made_at_run_time_has_structure_and_policies() {
    let workflow = doubling();
    let definition = workflow.definition();
    assert_eq!(definition.output, definition.find("sum"));
    let double = definition.task(definition.find("double").unwrap());
    assert_eq!((double.retry.attempts, double.for_each.unwrap().limit), (2, Some(4)));
    assert_eq!(definition.task(definition.find("report").unwrap()).rule, Some(Rule::done("sum")));
}

#[test]
fn a_closure_reads_input_results_elements_resources_and_context() {
    let mut resources = Resources::default();
    resources.insert(10_u32);
    let done = run(
        doubling(),
        "double",
        call(slot(()), [slot(vec![1, 2])]).with_item(slot(vec![1, 2]), 1).with_resources(resources),
    )
    .unwrap();
    assert_eq!(done.output.decode::<u32>().unwrap(), 20);
    assert_eq!(done.changes.set["last"], 2);
    assert_eq!(result::<u32>(doubling(), "sum", call(slot(()), [slot(vec![20, 30])])).unwrap(), 50);
    assert_eq!(result::<Vec<u32>>(doubling(), "list", call(slot(vec![4]), [])).unwrap(), [4]);
}

#[test]
fn a_closure_sees_what_became_of_a_dependency() {
    let skipped = Call::detached("report", slot(())).with_dependencies([Dependency::Skipped(Skip::Rule)]);
    assert_eq!(result::<String>(doubling(), "report", skipped).unwrap(), "None");
    let failed =
        Call::detached("sum", slot(())).with_dependencies([Dependency::Failed(Failure::new("boom"))]);
    let failure = run(doubling(), "sum", failed).unwrap_err();
    assert_eq!(failure.message, "`double` has no result: it failed: boom");
}

#[test]
fn asking_for_a_task_that_is_no_dependency_names_the_nearest_one() {
    let workflow = Workflow::builder("w")
        .task(Task::new("extract", |_| async { Ok(1) }))
        .task(Task::new("load", |cx| async move { cx.result::<u32>("exract") }).after(["extract"]))
        .build()
        .unwrap();
    let failure = run(workflow, "load", call(slot(()), [slot(1)])).unwrap_err();
    assert_eq!(failure.message, "`test` does not depend on `exract`: did you mean `extract`?");
}

#[test]
fn a_declared_resource_that_is_missing_is_found_before_anything_runs() {
    let missing = Resources::default().missing(&doubling().into());
    assert_eq!(missing.iter().map(|missing| &*missing.task).collect::<Vec<_>>(), ["double"]);
}

#[test]
fn every_problem_of_a_graph_is_told_at_once() {
    let task = |name| Task::new(name, |_| async { Ok(()) });
    let problems = Workflow::builder("bad")
        .task(task("a").after(["b", "c"]))
        .task(task("b").after(["a"]))
        .task(task("input"))
        .build()
        .unwrap_err()
        .to_string();
    for part in ["`c`", "a → b → a", "`input`"] {
        assert!(problems.contains(part), "{part} is missing from:\n{problems}");
    }
}

#[test]
fn a_graph_of_ten_thousand_tasks_is_made_in_well_under_a_second() {
    let began = std::time::Instant::now();
    let mut builder = Workflow::builder("long").task(Task::new("t0", |_| async { Ok(0) }));
    for n in 1..10_000 {
        builder =
            builder.task(Task::new(format!("t{n}"), |_| async { Ok(0) }).after([format!("t{}", n - 1)]));
    }
    assert_eq!(builder.build().unwrap().definition().tasks.len(), 10_000);
    assert!(began.elapsed() < Duration::from_secs(5), "took {:?}", began.elapsed());
}

#[test]
fn a_dynamic_workflow_may_be_given_types() {
    let typed: Workflow<Vec<u32>, u32> = doubling().typed();
    assert_eq!(typed.name(), "doubling");
}
