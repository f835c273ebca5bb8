use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::{Draft, Output, TaskDraft};

fn definition(tasks: &[(&str, &[&str])]) -> Definition {
    let draft = Draft::new("graph").output(Output::Nothing);
    let tasks = tasks.iter().map(|(name, after)| TaskDraft::new(*name).after(after.iter().copied()));
    tasks.fold(draft, Draft::task).check().unwrap()
}

fn names(definition: &Definition, tasks: impl IntoIterator<Item = TaskIx>) -> String {
    tasks.into_iter().map(|at| &*definition.task(at).name).collect::<Vec<_>>().join(" ")
}

fn diamond() -> Definition {
    definition(&[("d", &["c", "b"]), ("a", &[]), ("b", &["a"]), ("c", &["a"]), ("lone", &[])])
}

#[test]
fn a_graph_knows_its_neighbours_its_ends_and_its_levels() {
    let definition = diamond();
    let graph = Graph::of(&definition);
    let at = |name| definition.find(name).unwrap();
    assert_eq!(names(&definition, graph.dependencies(at("d")).iter().copied()), "c b");
    assert_eq!(names(&definition, graph.dependents(at("a")).iter().copied()), "b c");
    assert_eq!(names(&definition, graph.roots()), "a lone");
    assert_eq!(names(&definition, graph.leaves()), "d lone");
    let levels: Vec<_> = graph.levels().map(|level| names(&definition, level.iter().copied())).collect();
    assert_eq!(levels, ["a lone", "b c", "d"]);
    assert_eq!((graph.level(at("a")), graph.level(at("d"))), (0, 2));
    assert_eq!(names(&definition, graph.downstream(&[at("a")])), "a c b d");
}

#[test]
fn ancestors_come_in_merge_order_with_the_later_declared_dependency_later() {
    let definition = definition(&[
        ("a", &[]),
        ("slow", &["a"]),
        ("slower", &["slow"]),
        ("b", &[]),
        ("end", &["slower", "b"]),
        ("other", &["b", "slower"]),
    ]);
    let graph = Graph::of(&definition);
    let ancestors = |name| names(&definition, graph.ancestors(definition.find(name).unwrap()));
    assert_eq!(ancestors("end"), "a slow slower b");
    assert_eq!(ancestors("other"), "b a slow slower");
    assert_eq!(ancestors("a"), "");
    assert_eq!(names(&definition, graph.topological().iter().copied()), "a slow slower b end other");
}

#[test]
fn a_subgraph_keeps_what_its_tasks_need_and_nothing_else() {
    let mut definition = diamond();
    definition.output = definition.find("b");
    let part = definition.subgraph(&[definition.find("b").unwrap()]);
    assert_eq!(names(&part, part.indices()), "a b");
    assert_eq!(part.tasks[1].dependencies, [TaskIx(0)]);
    assert_eq!(part.output, Some(TaskIx(1)));
    assert_ne!(part.version, definition.version);
    let without = definition.subgraph(&[definition.find("c").unwrap()]);
    assert_eq!(without.output, None);
}

#[test]
fn a_chain_of_ten_thousand_tasks_is_built_in_milliseconds_and_overflows_nothing() {
    let lists: Vec<Vec<TaskIx>> =
        (0..10_000_usize).map(|at| at.checked_sub(1).map(TaskIx::from).into_iter().collect()).collect();
    let began = Instant::now();
    let graph = Graph::from_edges(lists.iter().map(Vec::as_slice)).unwrap();
    let last = TaskIx(9_999);
    assert_eq!(graph.ancestors(last).len(), 9_999);
    assert_eq!(graph.level(last), 9_999);
    assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
}

#[test]
fn a_cycle_is_answered_with_the_way_round_it() {
    let lists: [&[TaskIx]; 4] = [&[], &[TaskIx(0), TaskIx(2)], &[TaskIx(3)], &[TaskIx(1)]];
    assert_eq!(Graph::from_edges(lists.into_iter()), Err(vec![TaskIx(1), TaskIx(2), TaskIx(3)]));
    let selfish: [&[TaskIx]; 1] = [&[TaskIx(0)]];
    assert_eq!(Graph::from_edges(selfish.into_iter()), Err(vec![TaskIx(0)]));
}

/// For each task, some of the tasks before it.
fn acyclic() -> impl Strategy<Value = Vec<Vec<TaskIx>>> {
    proptest::collection::vec(proptest::collection::vec(any::<proptest::sample::Index>(), 0..4), 1..30)
        .prop_map(|picks| {
            let pick = |(at, picks): (usize, Vec<proptest::sample::Index>)| {
                let mut list: Vec<TaskIx> = Vec::new();
                for pick in picks.iter().filter(|_| at > 0) {
                    let to = TaskIx::from(pick.index(at.max(1)));
                    if !list.contains(&to) {
                        list.push(to);
                    }
                }
                list
            };
            picks.into_iter().enumerate().map(pick).collect()
        })
}

proptest! {
    #[test]
    fn every_order_puts_tasks_after_what_they_wait_for(lists in acyclic()) {
        let graph = Graph::from_edges(lists.iter().map(Vec::as_slice)).unwrap();
        let by_level: Vec<TaskIx> = graph.levels().flatten().copied().collect();
        for order in [graph.topological(), &by_level] {
            let place = |task: TaskIx| order.iter().position(|other| *other == task).unwrap();
            prop_assert_eq!(order.len(), lists.len());
            for (at, list) in lists.iter().enumerate() {
                prop_assert!(list.iter().all(|dependency| place(*dependency) < place(at.into())));
            }
        }
    }

    #[test]
    fn ancestors_are_exactly_what_can_be_reached(lists in acyclic()) {
        let graph = Graph::from_edges(lists.iter().map(Vec::as_slice)).unwrap();
        let mut reached: Vec<std::collections::BTreeSet<TaskIx>> = Vec::new();
        for list in &lists {
            let mut all: std::collections::BTreeSet<TaskIx> = list.iter().copied().collect();
            list.iter().for_each(|dependency| all.extend(&reached[dependency.get()]));
            reached.push(all);
        }
        for (at, reached) in reached.iter().enumerate() {
            let mut ancestors = graph.ancestors(at.into());
            ancestors.sort_unstable();
            prop_assert_eq!(&ancestors, &reached.iter().copied().collect::<Vec<_>>());
            for ancestor in reached {
                prop_assert!(graph.downstream(&[*ancestor]).contains(&at.into()));
            }
        }
    }

    #[test]
    fn a_cycle_that_is_found_is_one(lists in proptest::collection::vec(
        proptest::collection::vec(0..12_u32, 0..3), 12,
    )) {
        let lists: Vec<Vec<TaskIx>> =
            lists.into_iter().map(|list| list.into_iter().map(TaskIx).collect()).collect();
        if let Err(cycle) = Graph::from_edges(lists.iter().map(Vec::as_slice)) {
            prop_assert!(!cycle.is_empty());
            for (from, to) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                prop_assert!(lists[from.get()].contains(to));
            }
        }
    }
}
