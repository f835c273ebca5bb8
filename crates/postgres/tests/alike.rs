//! What is written together is what was said of each, whatever all of them have in common, or all but one.

mod common;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use common::{cluster, fresh, new_run, node, step};
use windlass_core::{ClaimId, NodeId, RunId, RunState};
use windlass_postgres::{Postgres, PostgresOptions};
use windlass_store::{Act, DefinitionId, NewEnd, NewRun, Place, RunImage, StepRow, Store, Unit, Written};

const VERSION: DefinitionId = DefinitionId(3);
const CLAIM: ClaimId = ClaimId(1);

/// What runs have in common, one after the other: nothing, all of it, or all but one of them.
const PATTERNS: [&[u8]; 7] = [&[0], &[1], &[0, 0, 0], &[1, 1, 1], &[0, 0, 1], &[1, 0, 0], &[1, 2, 0]];

fn value(kind: u8) -> Option<Bytes> {
    (kind > 0).then(|| Bytes::from(vec![kind; 3]))
}

fn start(kind: u8) -> NewRun {
    NewRun {
        workflow: if kind == 2 { "other".into() } else { "etl".into() },
        priority: 5 + kind,
        timeout: (kind > 0).then(|| Duration::from_secs(u64::from(kind))),
        input: value(kind).unwrap_or_default(),
        context: value(kind),
        trace: (kind > 0).then(|| format!("trace {kind}")),
        ..new_run(CLAIM, VERSION)
    }
}

fn record(kind: u8) -> StepRow {
    let name = if kind == 2 { "b" } else { "a" };
    StepRow { attempt: 1 + u32::from(kind), output: value(kind), detail: value(kind), ..step(name) }
}

fn end(kind: u8) -> NewEnd {
    let state = if kind == 2 { RunState::Failed } else { RunState::Completed };
    NewEnd { state, output: value(kind), failure: (kind == 2).then(|| Bytes::from_static(b"{}")) }
}

async fn commit(store: &Postgres, node: NodeId, units: Vec<Unit>) {
    for answer in store.commit(Some(node), Arc::new(units)).await.unwrap() {
        assert!(
            matches!(answer, Ok(Written::Started { owned: true, .. } | Written::Done { .. })),
            "{answer:?}"
        );
    }
}

fn check(image: &RunImage, kind: u8) {
    let (run, new) = (&image.run, start(kind));
    let told = (&run.workflow, run.priority, run.timeout, &run.input, &run.context, &run.trace);
    assert_eq!(told, (&new.workflow, new.priority, new.timeout, &new.input, &new.context, &new.trace));
    assert_eq!(image.standing.definition, Some(VERSION));
    let last = StepRow { output: value(kind), ..step("last") };
    assert_eq!(image.steps, [record(kind), last]);
    let Place::Ended(ended) = &image.standing.place else { panic!("{:?}", image.standing.place) };
    let said = end(kind);
    assert_eq!((ended.state, &ended.output, &ended.failure), (said.state, &said.output, &said.failure));
}

/// Starts runs, records and ends them, each for all at once.
async fn go_through(options: PostgresOptions) {
    let store = options.schema(fresh()).open(cluster().url()).await.unwrap();
    let node = node();
    store.join(node.clone()).await.unwrap();
    for kinds in PATTERNS {
        let runs: Vec<(RunId, u8)> = kinds.iter().map(|kind| (RunId::new(), *kind)).collect();
        let units = |act: &dyn Fn(u8) -> Act| {
            runs.iter().map(|(run, kind)| Unit { run: *run, act: act(*kind) }).collect::<Vec<_>>()
        };
        commit(&store, node.id, units(&|kind| Act::Start(Box::new(start(kind))))).await;
        let steps = |kind| vec![record(kind)];
        let recorded =
            |kind| Act::Record { claim: CLAIM, steps: steps(kind), consumed: Vec::new(), forget: false };
        commit(&store, node.id, units(&recorded)).await;
        let last = |kind| vec![StepRow { output: value(kind), ..step("last") }];
        commit(&store, node.id, units(&|kind| Act::End { claim: CLAIM, steps: last(kind), end: end(kind) }))
            .await;
        for (run, kind) in runs {
            check(&store.load(run).await.unwrap().unwrap(), kind);
        }
    }
}

#[tokio::test]
async fn what_runs_have_in_common_is_written_for_each() {
    go_through(PostgresOptions::new()).await;
}

#[tokio::test]
async fn what_runs_have_in_common_is_written_for_each_in_parts_of_a_transaction() {
    go_through(PostgresOptions::new().in_parts()).await;
}
