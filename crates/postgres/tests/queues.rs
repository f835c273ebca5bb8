//! Declared queues, where several meet.

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use common::{cluster, connect, fresh, new_run, node};
use windlass_core::{ClaimId, NodeId, RunId, RunState};
use windlass_postgres::{Postgres, PostgresOptions};
use windlass_store::{
    Act, Claim, Claimed, DefinitionId, NewEnd, NewRun, NewSpread, QueueChange, QueueLimits, Rate, SpreadKey,
    Store, Unit, Written,
};

const VERSION: DefinitionId = DefinitionId(1);

/// A handle, as another process would have it, with a node.
struct Process {
    store: Postgres,
    node: NodeId,
}

impl Process {
    async fn new(schema: &str) -> Self {
        let store = PostgresOptions::new().schema(schema).open(cluster().url()).await.unwrap();
        let node = node();
        store.join(node.clone()).await.unwrap();
        Self { store, node: node.id }
    }

    async fn limit(&self, queue: &str, limits: QueueLimits) {
        self.store.change_queue(queue.into(), QueueChange::Limits(limits)).await.unwrap();
    }

    async fn enqueue(&self, queue: &str, key: Option<&str>, count: usize) {
        let unit = || {
            let queue_key = key.map(Into::into);
            let new = NewRun { queue: queue.into(), queue_key, owner: None, ..new_run(ClaimId(0), VERSION) };
            Unit { run: RunId::new(), act: Act::Start(Box::new(new)) }
        };
        self.store.commit(None, Arc::new((0..count).map(|_| unit()).collect())).await.unwrap();
    }

    async fn claim(&self, queues: &[&str], room: usize) -> (ClaimId, Claimed) {
        let claim = ClaimId::new();
        let request = Claim {
            node: self.node,
            claim,
            room,
            queues: queues.iter().map(|queue| ((*queue).into(), 1000)).collect(),
            workflows: vec![("etl".into(), VERSION)],
            kept: Vec::new(),
            bytes: usize::MAX,
            free_own: false,
        };
        (claim, self.store.claim(request).await.unwrap())
    }

    async fn end(&self, claim: ClaimId, runs: &[RunId]) {
        let act = |run: &RunId| {
            let end = NewEnd { state: RunState::Completed, output: None, failure: None };
            Unit { run: *run, act: Act::End { claim, steps: Vec::new(), end } }
        };
        let answers = self.store.commit(Some(self.node), Arc::new(runs.iter().map(act).collect())).await;
        assert!(answers.unwrap().iter().all(Result::is_ok));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_meet_never_take_more_than_the_limit() {
    const RUNS: usize = 300;
    let schema = fresh();
    let first = Process::new(&schema).await;
    first.limit("tight", QueueLimits { concurrency: Some(3), ..QueueLimits::default() }).await;
    first.enqueue("tight", None, RUNS).await;
    let (under_way, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut workers = Vec::new();
    for _ in 0..4 {
        let process = Process::new(&schema).await;
        let (under_way, done) = (Arc::clone(&under_way), Arc::clone(&done));
        workers.push(tokio::spawn(async move {
            while done.load(Ordering::SeqCst) < RUNS {
                let (claim, claimed) = process.claim(&["tight"], 2).await;
                let runs: Vec<RunId> = claimed.runs.iter().map(|image| image.run.id).collect();
                let now = under_way.fetch_add(runs.len(), Ordering::SeqCst) + runs.len();
                assert!(now <= 3, "{now} are under way");
                tokio::task::yield_now().await;
                // They are under way until their ends are committed; here they go a moment before.
                under_way.fetch_sub(runs.len(), Ordering::SeqCst);
                process.end(claim, &runs).await;
                done.fetch_add(runs.len(), Ordering::SeqCst);
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    let row = first.store.queues(Some("tight".into())).await.unwrap().remove(0);
    assert_eq!((row.depth, row.running), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_declared_while_runs_begin_counts_every_one_of_them() {
    let schema = fresh();
    let (starter, declarer) = (Process::new(&schema).await, Process::new(&schema).await);
    let starts = tokio::spawn(async move {
        let mut owned = 0;
        loop {
            let new = NewRun { queue: "tight".into(), ..new_run(ClaimId::new(), VERSION) };
            let unit = Unit { run: RunId::new(), act: Act::Start(Box::new(new)) };
            let answers = starter.store.commit(Some(starter.node), Arc::new(vec![unit])).await.unwrap();
            match answers[0] {
                Ok(Written::Started { owned: true, .. }) => owned += 1,
                // Once one is not held from its start, none is: the queue was declared.
                Ok(Written::Started { owned: false, .. }) => return (owned, starter),
                ref other => panic!("{other:?}"),
            }
        }
    });
    tokio::time::timeout(Duration::from_secs(30), async {
        while declarer
            .store
            .find(windlass_store::Query { limit: 20, ..Default::default() })
            .await
            .unwrap()
            .runs
            .len()
            < 20
        {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    declarer.limit("tight", QueueLimits { concurrency: Some(1), ..QueueLimits::default() }).await;
    let (owned, starter) = starts.await.unwrap();
    let row = declarer.store.queues(None).await.unwrap().remove(0);
    assert_eq!((row.running, row.depth), (owned, 1));
    assert!(starter.claim(&["tight"], 10).await.1.runs.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_while_a_queue_is_declared_leaks_no_slot() {
    let schema = fresh();
    let (one, two) = (Process::new(&schema).await, Process::new(&schema).await);
    one.enqueue("tight", None, 1).await;
    let (claim, claimed) = one.claim(&["tight"], 1).await;
    // The end is written, and kept from being committed.
    let stranger = connect(cluster().url()).await;
    let lock = format!("BEGIN; LOCK TABLE {schema}.inbox IN ACCESS EXCLUSIVE MODE");
    stranger.batch_execute(&lock).await.unwrap();
    let runs = [claimed.runs[0].run.id];
    let ending = one.end(claim, &runs);
    let declaring = async {
        waits_for_a_lock(&stranger, &schema).await;
        let (said, heard) = tokio::sync::oneshot::channel();
        let declaring = async {
            two.limit("tight", QueueLimits { concurrency: Some(1), ..QueueLimits::default() }).await;
            said.send(()).unwrap_or(());
        };
        let letting_go = async {
            // It either comes to its end, or waits for whoever ends the run.
            tokio::select! {
                _ = heard => {}
                () = waits_for_a_node(&stranger, &schema) => {}
            }
            stranger.batch_execute("COMMIT").await.unwrap();
        };
        tokio::join!(declaring, letting_go);
    };
    tokio::join!(ending, declaring);
    assert_eq!(two.store.queues(None).await.unwrap()[0].running, 0);
    two.enqueue("tight", None, 1).await;
    assert_eq!(two.claim(&["tight"], 9).await.1.runs.len(), 1);
}

/// Until somebody waits for what a node does: its life is a lock that is no table's.
async fn waits_for_a_node(client: &tokio_postgres::Client, schema: &str) {
    let sql = format!(
        "SELECT EXISTS (SELECT FROM pg_locks AS waiter JOIN pg_locks AS holder USING (locktype, classid, objid) \
         WHERE waiter.locktype = 'advisory' AND NOT waiter.granted AND holder.granted AND holder.pid IN (\
             SELECT pid FROM pg_locks WHERE relation = '{schema}.inbox'::regclass AND NOT granted))"
    );
    while !client.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0) {
        tokio::task::yield_now().await;
    }
}

/// Until somebody waits for a lock on the inbox.
async fn waits_for_a_lock(client: &tokio_postgres::Client, schema: &str) {
    let sql = format!(
        "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = '{schema}.inbox'::regclass AND NOT granted)"
    );
    while !client.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_queue_that_is_locked_does_not_keep_the_others_waiting() {
    let schema = fresh();
    let process = Process::new(&schema).await;
    for queue in ["stuck", "free"] {
        process.limit(queue, QueueLimits { concurrency: Some(5), ..QueueLimits::default() }).await;
        process.enqueue(queue, None, 2).await;
    }
    let stranger = connect(cluster().url()).await;
    let lock = format!("BEGIN; SELECT FROM {schema}.queue WHERE name = 'stuck' FOR UPDATE");
    stranger.batch_execute(&lock).await.unwrap();
    let began = Instant::now();
    let (_, claimed) = process.claim(&["stuck", "free"], 10).await;
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(claimed.runs.len() == 2 && claimed.runs.iter().all(|image| &*image.run.queue == "free"));
    assert!(claimed.more, "it looks again");
    stranger.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(process.claim(&["stuck", "free"], 10).await.1.runs.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_rolled_back_leaves_neither_a_run_nor_a_slot() {
    let schema = fresh();
    let process = Process::new(&schema).await;
    process.limit("tight", QueueLimits { per_key: Some(1), ..QueueLimits::default() }).await;
    let stranger = connect(cluster().url()).await;
    let start = format!("SELECT {schema}.start('etl', queue => 'tight', queue_key => 'a')");
    stranger.batch_execute(&format!("BEGIN; {start}; ROLLBACK")).await.unwrap();
    assert!(process.claim(&["tight"], 10).await.1.runs.is_empty());
    stranger.batch_execute(&start).await.unwrap();
    stranger.batch_execute(&start).await.unwrap();
    let (claim, claimed) = process.claim(&["tight"], 10).await;
    assert_eq!(claimed.runs.len(), 1);
    assert_eq!(claimed.runs[0].run.queue_key.as_deref(), Some("a"));
    process.end(claim, &[claimed.runs[0].run.id]).await;
    assert_eq!(process.claim(&["tight"], 10).await.1.runs.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_takes_its_time_keeps_nobody_from_declaring_the_same_queue() {
    let schema = fresh();
    let process = Process::new(&schema).await;
    process.enqueue("default", Some("a"), 1).await;
    let (claim, claimed) = process.claim(&["default"], 1).await;
    let stranger = connect(cluster().url()).await;
    let start = format!("BEGIN; SELECT {schema}.start('etl', queue => 'gpu', queue_key => 'b')");
    stranger.batch_execute(&start).await.unwrap();
    let key = SpreadKey { step: "render".into(), attempt: 1 };
    let tasks = vec![NewSpread { key, queue: "gpu".into() }];
    let act = Act::Publish { claim, definition: VERSION, tasks };
    let publish = Arc::new(vec![Unit { run: claimed.runs[0].run.id, act }]);
    let answers = process.store.commit(Some(process.node), publish).await.expect("it waits for nobody");
    assert!(answers[0].is_ok(), "{answers:?}");
    process.enqueue("gpu", Some("c"), 1).await;
    assert_eq!(process.claim(&["gpu"], 9).await.1.runs.len(), 1);
    stranger.batch_execute("COMMIT").await.unwrap();
    assert_eq!(process.claim(&["gpu"], 9).await.1.runs.len(), 1);
    // One that nobody else declares is declared by it.
    let alone = format!("SELECT {schema}.start('etl', queue => 'alone', queue_key => 'b')");
    stranger.batch_execute(&alone).await.unwrap();
    assert_eq!(process.store.queues(Some("alone".into())).await.unwrap()[0].depth, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_cool_down_caps_how_fast_a_queue_with_limits_is_worked_off() {
    let schema = fresh();
    let process = Process::new(&schema).await;
    let rate = Some(Rate { count: 1_000_000, per: Duration::from_secs(1) });
    process.limit("tight", QueueLimits { concurrency: Some(1), rate, ..QueueLimits::default() }).await;
    process.enqueue("tight", None, 200).await;
    let began = Instant::now();
    for _ in 0..200 {
        let (claim, claimed) = process.claim(&["tight"], 10).await;
        process.end(claim, &[claimed.runs[0].run.id]).await;
    }
    let took = began.elapsed();
    // At twenty a second it would be ten seconds, also on a machine that is busy with other tests.
    assert!(took < Duration::from_secs(9), "200 runs one after the other, by one worker: {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_other_queues_does_not_wait_for_one_that_somebody_else_takes_from() {
    let schema = fresh();
    let process = Process::new(&schema).await;
    process.limit("tight", QueueLimits { concurrency: Some(3), ..QueueLimits::default() }).await;
    process.enqueue("tight", None, 1).await;
    let other = connect(cluster().url()).await;
    let hold = format!("BEGIN; SELECT FROM {schema}.queue WHERE name = 'tight' FOR UPDATE");
    other.batch_execute(&hold).await.unwrap();
    let mut least = Duration::MAX;
    for _ in 0..20 {
        process.enqueue("default", None, 1).await;
        let began = Instant::now();
        let (claim, claimed) = process.claim(&["tight", "default"], 10).await;
        least = least.min(began.elapsed());
        assert!(claimed.more, "there may be something in the other");
        let runs: Vec<RunId> = claimed.runs.iter().map(|image| image.run.id).collect();
        assert_eq!(runs.len(), 1);
        process.end(claim, &runs).await;
    }
    // Whoever waits for a queue that does not come free waits for this long each time.
    assert!(least < Duration::from_millis(40), "{least:?}");
    other.batch_execute("ROLLBACK").await.unwrap();
    let (_, claimed) = process.claim(&["tight", "default"], 10).await;
    assert_eq!(claimed.runs.len(), 1, "its turn comes as well");
}
