//! Transactions that take the record of a step along: whoever takes the run over comes before or after, never between.

mod common;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use common::{cluster, connect, new_run};
use windlass_core::{ClaimId, NodeId, RunId, RunState, StepKind, Time};
use windlass_postgres::{CommitMoment, Isolation, Postgres, PostgresOptions};
use windlass_store::{
    Act, Along, Claim, Death, DefinitionId, DefinitionRow, Fate, NewEnd, NewNode, NewRun, StepRow, Store,
    StoreError, Unit, Written,
};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const ALL: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

/// A schema with a run that a node holds, and a table of the application's.
struct World {
    store: Postgres,
    schema: String,
    app: tokio_postgres::Client,
    definition: DefinitionId,
    holder: NodeId,
    other: NodeId,
    run: RunId,
    claim: ClaimId,
}

impl World {
    async fn new() -> Self {
        Self::with(PostgresOptions::new()).await
    }

    async fn with(options: PostgresOptions) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let schema = format!("along_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Told apart from everybody else's on this server.
        let url = format!("{}?application_name={schema}", cluster().url());
        let store = options.schema(&schema).open(&url).await.unwrap();
        let app = connect(cluster().url()).await;
        app.batch_execute(&format!("CREATE TABLE {schema}.entry (step text)")).await.unwrap();
        let row = DefinitionRow { workflow: "pay".into(), version: "1".into(), body: Bytes::new() };
        let definition = store.define(row).await.unwrap();
        let (holder, other, run) = (NodeId::new(), NodeId::new(), RunId::new());
        let claim = ClaimId::first(run);
        for id in [holder, other] {
            let stale_after = if id == holder { Duration::ZERO } else { Duration::from_secs(60) };
            let new = NewNode { id, name: None, version: String::new(), queues: Vec::new(), stale_after };
            store.join(new).await.unwrap();
        }
        let world = Self { store, schema, app, definition, holder, other, run, claim };
        let start = Act::Start(Box::new(NewRun { workflow: "pay".into(), ..new_run(claim, definition) }));
        let written = world.commit(start).await;
        assert!(matches!(written, Ok(Written::Started { owned: true, .. })), "{written:?}");
        world
    }

    async fn commit(&self, act: Act) -> Result<Written, windlass_store::Refusal> {
        let batch = Arc::new(vec![Unit { run: self.run, act }]);
        self.store.commit(Some(self.holder), batch).await.unwrap().remove(0)
    }

    async fn begin(&self, isolation: Isolation) -> windlass_postgres::Transaction {
        let transaction = self.store.begin(isolation).await.unwrap();
        let entry = format!("INSERT INTO {}.entry VALUES ('charge')", self.schema);
        transaction.execute(&entry, &[]).await.unwrap();
        transaction
    }

    fn along(&self) -> Along {
        let step = StepRow {
            generation: 1,
            name: "charge".into(),
            attempt: 1,
            epoch: 0,
            kind: StepKind::Completed,
            started_at: Time(1),
            ended_at: Time(2),
            output: Some(Bytes::from_static(b"1")),
            detail: None,
        };
        Along { node: self.holder, run: self.run, claim: self.claim, step }
    }

    async fn declare_dead(&self) {
        assert!(self.store.declare_dead(self.other, self.holder, Death::Stale).await.unwrap());
    }

    async fn take_over(&self) {
        assert_eq!(self.store.sweep(self.other, 10).await.unwrap().released, 1);
        let claim = Claim {
            node: self.other,
            claim: ClaimId::first(RunId::new()),
            room: 10,
            queues: vec![("default".into(), 10)],
            workflows: vec![("pay".into(), self.definition)],
            bytes: usize::MAX,
            kept: Vec::new(),
            free_own: false,
        };
        assert_eq!(self.store.claim(claim).await.unwrap().runs.len(), 1);
    }

    /// Until one of the store's connections waits for a lock that stands for a node's life.
    async fn until_it_waits(&self) {
        let waits = "SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'advisory'";
        let patience = Duration::from_secs(10);
        tokio::time::timeout(patience, async {
            while self.app.query(waits, &[&self.schema]).await.unwrap().is_empty() {}
        })
        .await
        .expect("it waits");
    }

    /// Until one of the store's connections is in a transaction and asks nothing, or none is any more.
    async fn until_idle_in_transaction(&self, is_one: bool) {
        let idle =
            "SELECT FROM pg_stat_activity WHERE application_name = $1 AND state = 'idle in transaction'";
        tokio::time::timeout(PATIENCE, async {
            while self.app.query(idle, &[&self.schema]).await.unwrap().is_empty() == is_one {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("a transaction is open although it should not be: {}", !is_one));
    }

    /// Entries of the application, and records of the run.
    async fn written(&self) -> (i64, usize) {
        let sql = format!("SELECT count(*) FROM {}.entry", self.schema);
        let entries = self.app.query_one(&sql, &[]).await.unwrap().get(0);
        (entries, self.store.load(self.run).await.unwrap().unwrap().steps.len())
    }
}

#[tokio::test]
async fn the_record_and_the_writes_are_there_together_and_once() {
    for isolation in ALL {
        let world = World::new().await;
        let transaction = world.begin(isolation).await;
        assert_eq!(transaction.settle(world.along()).await.unwrap(), Fate::Committed);
        assert_eq!(world.written().await, (1, 1));
        assert_eq!(world.store.fate(world.along()).await.unwrap(), Fate::Committed);
        // The same again is refused whole.
        let again = world.begin(isolation).await.settle(world.along()).await.unwrap();
        assert_eq!(again, Fate::NotYours);
        assert_eq!(world.written().await, (1, 1));
    }
}

#[tokio::test]
async fn a_node_that_is_declared_dead_meanwhile_commits_nothing_whatever_its_transaction_sees() {
    for isolation in ALL {
        let world = World::new().await;
        let transaction = world.begin(isolation).await;
        world.declare_dead().await;
        let fate = transaction.settle(world.along()).await;
        assert!(matches!(fate, Err(StoreError::Fenced)), "{isolation:?}: {fate:?}");
        assert_eq!(world.written().await, (0, 0));
        assert!(matches!(world.store.fate(world.along()).await, Err(StoreError::Fenced)));
    }
}

#[tokio::test]
async fn a_transaction_that_waited_for_the_death_of_its_node_is_fenced() {
    for isolation in ALL {
        let world = World::new().await;
        let transaction = world.begin(isolation).await;
        // Another process declares the node dead, and is held just before it commits that.
        let (reached, mut at_commit) = tokio::sync::mpsc::unbounded_channel();
        let (go_on, held) = std::sync::mpsc::channel::<()>();
        let held = Mutex::new(held);
        let hook = move |moment| {
            if let CommitMoment::Before(_) = moment {
                reached.send(()).unwrap();
                held.lock().unwrap().recv().unwrap();
            }
        };
        let options = PostgresOptions::new().schema(&world.schema).on_commit(hook);
        let judge = options.open(cluster().url()).await.unwrap();
        let declared = judge.declare_dead(world.other, world.holder, Death::Stale);
        at_commit.recv().await.unwrap();

        let settling = transaction.settle(world.along());
        world.until_it_waits().await;
        go_on.send(()).unwrap();
        assert!(declared.await.unwrap());
        let fate = settling.await;
        assert!(matches!(fate, Err(StoreError::Fenced)), "{isolation:?}: {fate:?}");
        assert_eq!(world.written().await, (0, 0));
    }
}

#[tokio::test]
async fn a_run_that_was_taken_over_meanwhile_is_not_written_to() {
    for isolation in ALL {
        let world = World::new().await;
        let transaction = world.begin(isolation).await;
        world.declare_dead().await;
        world.take_over().await;
        let fate = transaction.settle(world.along()).await;
        let is_refused = matches!(fate, Err(StoreError::Fenced) | Ok(Fate::Again(_)));
        assert!(is_refused, "{isolation:?}: {fate:?}");
        assert_eq!(world.written().await, (0, 0));
    }
}

#[tokio::test]
async fn a_run_that_its_own_node_gave_up_or_ended_is_not_written_to() {
    for isolation in ALL {
        for gives_up in [true, false] {
            let world = World::new().await;
            let transaction = world.begin(isolation).await;
            let end = NewEnd { state: RunState::Cancelled, output: None, failure: None };
            let act = match gives_up {
                true => Act::Release { claim: world.claim },
                false => Act::End { claim: world.claim, steps: Vec::new(), end },
            };
            world.commit(act).await.unwrap();
            let fate = transaction.settle(world.along()).await.unwrap();
            match (isolation, gives_up) {
                (Isolation::ReadCommitted, _) => assert_eq!(fate, Fate::NotYours),
                (_, true) => assert!(matches!(fate, Fate::Again(_)), "{fate:?}"),
                // The end is a row that the transaction cannot see: it comes before the end.
                (_, false) => assert_eq!(fate, Fate::Committed),
            }
            let expected = if fate == Fate::Committed { (1, 1) } else { (0, 0) };
            assert_eq!(world.written().await, expected, "{isolation:?}");
        }
    }
}

#[tokio::test]
async fn a_commit_that_never_came_is_known_not_to_have_come() {
    let world = World::new().await;
    drop(world.begin(Isolation::ReadCommitted).await);
    assert!(matches!(world.store.fate(world.along()).await.unwrap(), Fate::Again(_)));
    assert_eq!(world.written().await, (0, 0));
}

/// A store whose process freezes at the next commit once it is told to, and goes on when it is told.
struct Freezer {
    world: World,
    freezes: Arc<AtomicBool>,
    thaw: std::sync::mpsc::Sender<()>,
}

impl Freezer {
    async fn new() -> Self {
        let (freezes, (thaw, thawed)) = (Arc::new(AtomicBool::new(false)), std::sync::mpsc::channel::<()>());
        let (told, thawed) = (Arc::clone(&freezes), Mutex::new(thawed));
        let world = World::with(PostgresOptions::new().on_commit(move |moment| {
            if matches!(moment, CommitMoment::Before(_)) && told.swap(false, Ordering::SeqCst) {
                thawed.lock().unwrap().recv().unwrap();
            }
        }))
        .await;
        Self { world, freezes, thaw }
    }

    fn freeze(&self) {
        self.freezes.store(true, Ordering::SeqCst);
    }

    /// Nobody looks for what is frozen: the server itself ends it.
    async fn until_it_has_lost_its_transaction(&self) {
        self.world.until_idle_in_transaction(true).await;
        self.world.until_idle_in_transaction(false).await;
        self.thaw.send(()).unwrap();
    }
}

#[tokio::test]
async fn a_batch_of_a_process_that_is_frozen_is_ended_though_nobody_looks_for_it() {
    let freezer = Freezer::new().await;
    let world = &freezer.world;
    freezer.freeze();
    let save = Act::Save { claim: world.claim, step: "charge".into(), value: Bytes::from_static(b"1") };
    let batch = Arc::new(vec![Unit { run: world.run, act: save }]);
    let answer = world.store.commit(Some(world.holder), batch);
    freezer.until_it_has_lost_its_transaction().await;
    let answer = answer.await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert!(world.store.load(world.run).await.unwrap().unwrap().saved.is_empty());
}

#[tokio::test]
async fn a_transaction_of_a_task_in_a_process_that_is_frozen_is_ended_though_nobody_looks_for_it() {
    let freezer = Freezer::new().await;
    let world = &freezer.world;
    let transaction = world.begin(Isolation::ReadCommitted).await;
    freezer.freeze();
    let settling = transaction.settle(world.along());
    freezer.until_it_has_lost_its_transaction().await;
    let fate = settling.await;
    assert!(matches!(fate, Ok(Fate::Unknown(_))), "{fate:?}");
    assert!(matches!(world.store.fate(world.along()).await.unwrap(), Fate::Again(_)));
    assert_eq!(world.written().await, (0, 0));
}

#[tokio::test]
async fn nothing_waits_for_ever_for_a_lock_of_a_strangers() {
    let world = World::new().await;
    let hold = format!("BEGIN; SELECT FROM {}.run FOR UPDATE", world.schema);
    world.app.batch_execute(&hold).await.unwrap();
    let save = Act::Save { claim: world.claim, step: "charge".into(), value: Bytes::from_static(b"1") };
    let batch = Arc::new(vec![Unit { run: world.run, act: save }]);
    let transaction = world.begin(Isolation::ReadCommitted).await;
    let (batch, settled) =
        tokio::join!(world.store.commit(Some(world.holder), batch), transaction.settle(world.along()));
    let batch = batch.unwrap_err();
    assert!(matches!(&batch, StoreError::Unavailable(why) if why.contains("lock timeout")), "{batch}");
    assert!(matches!(&settled, Ok(Fate::Again(why)) if why.contains("lock timeout")), "{settled:?}");
    world.app.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(world.written().await, (0, 0));
}
