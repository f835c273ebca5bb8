//! The store.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use windlass_core::{ClaimId, NodeId, RunId, RunState, StepKind, Time};
use windlass_sqlite::Sqlite;
use windlass_store::{
    Act, Claim, DefinitionId, DefinitionRow, NewEnd, NewNode, NewRun, Owner, StepRow, Store, Unit,
};

use crate::{
    Failure,
    watch::{Cost, Count, Watch, median, micros},
};

struct Bench {
    store: Sqlite,
    node: NodeId,
    workflow: Arc<str>,
    queue: Arc<str>,
    definition: DefinitionId,
    tasks: [Arc<str>; 3],
    directory: tempfile::TempDir,
}

impl Bench {
    async fn new(watch: &Watch) -> Result<Self, Failure> {
        let directory = tempfile::tempdir()?;
        let url = directory.path().join("app.db");
        let store = watch.options().open(url.to_str().ok_or("a path is text")?).await?;
        let (node, workflow) = (NodeId::new(), Arc::from("etl"));
        let (version, body) = (Arc::from("1"), Bytes::from_static(b"{}"));
        let definition =
            store.define(DefinitionRow { workflow: Arc::clone(&workflow), version, body }).await?;
        let new = NewNode {
            id: node,
            name: None,
            version: "1".into(),
            queues: vec!["default".into()],
            stale_after: Duration::from_secs(30),
        };
        store.join(new).await?;
        let tasks = [Arc::from("extract"), Arc::from("transform"), Arc::from("load")];
        Ok(Self { store, node, workflow, queue: Arc::from("default"), definition, tasks, directory })
    }

    fn start(&self, run: RunId, owner: Option<ClaimId>) -> Unit {
        let new = NewRun {
            workflow: Arc::clone(&self.workflow),
            queue: Arc::clone(&self.queue),
            queue_key: None,
            priority: 5,
            delay: None,
            timeout: None,
            input: Bytes::from_static(b"{\"n\":1}"),
            context: None,
            key: None,
            tags: Vec::new(),
            forked_from: None,
            trace: None,
            parent: None,
            steps: Vec::new(),
            owner: owner.map(|claim| Owner { claim, definition: self.definition }),
        };
        Unit { run, act: Act::Start(Box::new(new)) }
    }

    /// The unit of a run of three tasks at one of its four ages.
    fn unit(&self, age: usize, (run, claim): (RunId, ClaimId), salt: usize) -> Unit {
        match age {
            0 => self.start(run, Some(claim)),
            3 => end(run, claim, step(&self.tasks[2], salt)),
            _ => {
                let steps = vec![step(&self.tasks[age - 1], salt)];
                Unit { run, act: Act::Record { claim, steps, consumed: Vec::new(), forget: false } }
            }
        }
    }

    async fn commit(&self, node: Option<NodeId>, batch: Vec<Unit>) -> Result<(), Failure> {
        // As the engine does, it keeps a share, so that the units are freed here.
        let batch = Arc::new(batch);
        for answer in self.store.commit(node, Arc::clone(&batch)).await? {
            answer?;
        }
        Ok(())
    }

    async fn commit_all(&self, batches: Vec<Vec<Unit>>, count: &mut Count<'_>) -> Result<(), Failure> {
        for batch in batches {
            let units = batch.len();
            self.commit(Some(self.node), batch).await?;
            count.note(units);
        }
        Ok(())
    }
}

fn step(name: &Arc<str>, salt: usize) -> StepRow {
    let salt = salt as i64;
    StepRow {
        generation: 1,
        name: Arc::clone(name),
        attempt: 1,
        epoch: 0,
        kind: StepKind::Completed,
        started_at: Time(1_700_000_000_000_000 + 7 * salt),
        ended_at: Time(1_700_000_000_000_040 + 7 * salt + salt % 50),
        output: Some(Bytes::from_static(b"12345")),
        detail: None,
    }
}

fn end(run: RunId, claim: ClaimId, step: StepRow) -> Unit {
    let end =
        NewEnd { state: RunState::Completed, output: Some(Bytes::from_static(b"12345")), failure: None };
    Unit { run, act: Act::End { claim, steps: vec![step], end } }
}

/// Runs of three tasks, a quarter of each batch at each of their four ages, mixed.
pub(crate) async fn chain3(runs: usize, batch: usize) -> Result<Cost, Failure> {
    let watch = Watch::default();
    let bench = Bench::new(&watch).await?;
    let each = batch / 4;
    let all: Vec<_> = (0..runs).map(|_| (RunId::new(), ClaimId::new())).collect();
    let cohorts: Vec<_> = all.chunks(each).collect();
    let mut count = watch.count();
    for turns in (0..cohorts.len() + 3).collect::<Vec<_>>().chunks(64) {
        let batches = turns.iter().map(|&turn| {
            let here = (0..4).filter_map(|age| Some((age, *cohorts.get(turn.checked_sub(age)?)?)));
            let here: Vec<_> = here.collect();
            (0..each)
                .flat_map(|at| {
                    here.iter().filter_map(move |(age, cohort)| Some((*age, *cohort.get(at)?, at)))
                })
                .map(|(age, run, at)| bench.unit(age, run, turn * each + at))
                .collect()
        });
        bench.commit_all(batches.collect(), &mut count).await?;
    }
    let cost = count.cost();
    bench.store.close().await;
    Ok(cost)
}

/// The same runs, each kind of unit in batches of its own.
pub(crate) async fn kinds(runs: usize, batch: usize) -> Result<[(&'static str, Cost); 4], Failure> {
    let watch = Watch::default();
    let bench = Bench::new(&watch).await?;
    let mut costs = [const { Vec::new() }; 4];
    for _ in 0..runs / 4_000 {
        let group: Vec<_> = (0..4_000).map(|_| (RunId::new(), ClaimId::new())).collect();
        for (age, costs) in costs.iter_mut().enumerate() {
            let batches = group
                .chunks(batch)
                .map(|some| some.iter().enumerate().map(|(salt, run)| bench.unit(age, *run, salt)).collect());
            let mut count = watch.count();
            bench.commit_all(batches.collect(), &mut count).await?;
            costs.push(count.cost());
        }
    }
    bench.store.close().await;
    let [start, first, second, end] = costs.map(Cost::middle);
    Ok([("start", start), ("record", first), ("second record", second), ("end", end)])
}

/// Many runs that last long: their first step is recorded when all have been started, and in no order.
pub(crate) async fn scattered(runs: usize, batch: usize) -> Result<Cost, Failure> {
    // A prime, so that its multiples meet every run once.
    const STRIDE: usize = 7_919;
    let watch = Watch::default();
    let bench = Bench::new(&watch).await?;
    let all: Vec<_> = (0..runs).map(|_| (RunId::new(), ClaimId::new())).collect();
    for some in all.chunks(1_000) {
        bench.commit(Some(bench.node), some.iter().map(|run| bench.unit(0, *run, 0)).collect()).await?;
    }
    let mut count = watch.count();
    for turn in 0..runs / batch {
        let places = (turn * batch..(turn + 1) * batch).map(|at| at * STRIDE % runs);
        let units = places.map(|at| bench.unit(1, all[at], at)).collect();
        bench.commit_all(vec![units], &mut count).await?;
    }
    let cost = count.cost();
    bench.store.close().await;
    Ok(cost)
}

/// Enqueues one-task runs, then claims and ends them.
pub(crate) async fn burn_down(runs: usize) -> Result<(Cost, Cost), Failure> {
    const TOGETHER: usize = 1_000;
    let watch = Watch::default();
    let bench = Bench::new(&watch).await?;
    let mut count = watch.count();
    for _ in 0..runs / TOGETHER {
        bench.commit(None, (0..TOGETHER).map(|_| bench.start(RunId::new(), None)).collect()).await?;
        count.note(TOGETHER);
    }
    let enqueue = count.cost();
    let mut count = watch.count();
    let mut ends: Vec<Unit> = Vec::new();
    loop {
        let claim = ClaimId::new();
        let request = Claim {
            node: bench.node,
            claim,
            room: TOGETHER,
            queues: vec![(Arc::clone(&bench.queue), TOGETHER)],
            workflows: vec![(Arc::clone(&bench.workflow), bench.definition)],
            bytes: 64 << 20,
            kept: Vec::new(),
            free_own: false,
        };
        let (claimed, written) = tokio::join!(
            bench.store.claim(request),
            bench.commit(Some(bench.node), std::mem::take(&mut ends))
        );
        written?;
        let claimed = claimed?;
        if claimed.runs.is_empty() {
            break;
        }
        count.note(claimed.runs.len());
        ends = claimed
            .runs
            .iter()
            .enumerate()
            .map(|(salt, image)| end(image.run.id, claim, step(&bench.tasks[2], salt)))
            .collect();
    }
    let burned = count.cost();
    bench.store.close().await;
    Ok((enqueue, burned))
}

/// One run alone, one unit in each transaction, each soon after the last answer: the time of an answer.
pub(crate) async fn single() -> Result<(), Failure> {
    // What a task may take that has nothing to do.
    const THINKS: Duration = Duration::from_micros(25);
    let watch = Watch::default();
    let bench = Bench::new(&watch).await?;
    let (mut answers, mut ways) = (Vec::new(), Vec::new());
    let mut count = watch.count();
    for salt in 0..500 {
        let run = (RunId::new(), ClaimId::new());
        for age in 0..4 {
            let thinks = Instant::now();
            while thinks.elapsed() < THINKS {
                std::hint::spin_loop();
            }
            let asked = Instant::now();
            bench.commit(Some(bench.node), vec![bench.unit(age, run, salt)]).await?;
            let answered = asked.elapsed();
            answers.push(micros(answered));
            ways.push(micros(answered.saturating_sub(count.note(1))));
        }
    }
    let cost = count.cost();
    let (answered, way) = (median(&mut answers), median(&mut ways));
    println!("  {:<22} {cost}; answered after {answered:.1}, of which {way:.1} on the way", "single");
    bench.store.close().await;
    drop(bench.directory);
    Ok(())
}
