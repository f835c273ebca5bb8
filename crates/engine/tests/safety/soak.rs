//! Minutes of work of every kind, while processes are killed: it does not become slower, nor larger.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio::{sync::mpsc::UnboundedReceiver, task::JoinSet};
use windlass::{Engine, RunState, Time, Workflow};

use crate::{
    child::Child,
    durable::{GO, Plan, errand, journey, sum},
    eventually::{PATIENCE, eventually_async},
    graph,
    ledger::Ledger,
    program::say,
    role::{Part, Role},
    room::Room,
};

/// How many minutes it takes, unless this variable says otherwise.
const VARIABLE: &str = "WINDLASS_SOAK_MINUTES";
const MINUTES: u64 = 5;
/// In each span a process is killed, and what had been done for a while before it is thrown away.
const SPAN: Duration = Duration::from_secs(10);
const KEPT: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_secs(2);
/// How many in each process start one run after the other.
const WORKERS: u64 = 24;
const QUEUE: &str = "narrow";
const PLAN: Plan = Plan { links: 2, fails: false };

/// Starts runs and works on whatever there is, until it is told to rest, and then to stop.
pub async fn serve(role: &Role, room: &Room, ledger: Arc<Ledger>, mut orders: UnboundedReceiver<String>) {
    let (pair, second_try) = (graph::pair(&ledger), graph::second_try(&ledger, Duration::from_millis(20)));
    let engine = Engine::over(room.store().await)
        // Whoever comes after a process that was killed says so by his name.
        .name(role.name.clone())
        .resource(Arc::clone(&ledger))
        .workflow(pair.clone())
        .workflow(second_try.clone())
        .workflow(journey::workflow())
        .workflow(errand::workflow())
        .serve(["default", QUEUE])
        .heartbeat(role.heartbeat)
        .stale_after(role.stale_after)
        .launch()
        .await
        .expect("the engine launches");
    let (completed, rests) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        let worker = Worker { engine: engine.clone(), pair: pair.clone(), second_try: second_try.clone() };
        let (completed, rests) = (Arc::clone(&completed), Arc::clone(&rests));
        workers.spawn(async move {
            while !rests.load(Ordering::SeqCst) {
                worker.work(number).await;
                completed.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    say("ready");
    loop {
        let order = tokio::select! {
            order = orders.recv() => order.expect("the test gives orders"),
            Some(worker) = workers.join_next() => {
                worker.expect("no worker panics");
                continue;
            }
        };
        match order.as_str() {
            "count" => say(&format!("completed {}", completed.load(Ordering::SeqCst))),
            "rest" => {
                rests.store(true, Ordering::SeqCst);
                while let Some(worker) = workers.join_next().await {
                    worker.expect("no worker panics");
                }
                say("rests");
            }
            "stop" => break,
            other => panic!("`{other}` is no order"),
        }
    }
    engine.stop().await.expect("the engine stops");
}

struct Worker {
    engine: Engine,
    pair: Workflow<u64, u64>,
    second_try: Workflow<u64, u64>,
}

impl Worker {
    /// Starts a run, and waits for its end.
    async fn work(&self, number: u64) {
        match number % 4 {
            0 => {
                let run = self.engine.start(self.pair.clone(), 1).await.expect("the run starts");
                assert_eq!(run.await.expect("the run completes"), 1);
            }
            1 => {
                let run = self.engine.start(self.pair.clone(), 2).queue(QUEUE).await.expect("the run starts");
                assert_eq!(run.await.expect("the run completes"), 2);
            }
            2 => {
                let run = self.engine.start(self.second_try.clone(), 0).await.expect("the run starts");
                assert_eq!(run.await.expect("the run completes"), 1);
            }
            _ => {
                let run = self.engine.start(journey::workflow(), PLAN).await.expect("the run starts");
                run.send(GO, &7).await.expect("the event is sent");
                assert_eq!(run.await.expect("the run completes"), sum(&PLAN));
            }
        }
    }
}

/// What a span was like.
#[derive(Debug)]
struct Span {
    completed: u64,
    /// Bytes of the larger process.
    memory: u64,
    /// Bytes of the database.
    size: u64,
}

async fn size(room: &Room) -> u64 {
    if !room.is_on_postgres() {
        let length = |name: &str| std::fs::metadata(room.file(name)).map_or(0, |file| file.len());
        return length("app.db") + length("app.db-wal");
    }
    #[cfg(not(feature = "postgres"))]
    unreachable!("there is no server");
    #[cfg(feature = "postgres")]
    {
        let url = room.url();
        let (server, schema) = url.split_once("?schema=").expect("a room has a schema of its own");
        let (client, connection) =
            tokio_postgres::connect(server, tokio_postgres::NoTls).await.expect("the server answers");
        let connection = tokio::spawn(connection);
        let sizes = "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class \
                     WHERE relkind = 'r' AND relnamespace = $1::text::regnamespace";
        let size: i64 = client.query_one(sizes, &[&schema]).await.expect("tables have a size").get(0);
        drop(client);
        connection.await.expect("it ends").expect("the connection is closed");
        size.unsigned_abs()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the processes and the stores of a test share this machine's clock"
)]
fn a_while_ago() -> Time {
    let at = SystemTime::now() - KEPT;
    Time(at.duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970").as_micros() as i64)
}

fn process(name: &str, room: &Room) -> Child {
    Child::ready(Role::new(name, room, Part::Soak).lease(Duration::from_millis(300), LEASE))
}

async fn minutes_of_work_and_kills_leave_it_as_quick_and_as_small(room: Room) {
    let minutes = std::env::var(VARIABLE)
        .map_or(MINUTES, |minutes| minutes.parse().unwrap_or_else(|_| panic!("{VARIABLE} is a number")));
    let spans = (minutes * 60 / SPAN.as_secs()).max(8) as usize;
    let client = room.client().await;
    client.queue(QUEUE).concurrency(6).await.expect("the queue is declared");
    let tick = client.schedule("tick").every(Duration::from_secs(1));
    tick.workflow_by_name("pair", serde_json::json!(1)).await.expect("the schedule is declared");
    let mut steady = ["steady", "sound"].map(|name| process(name, &room));
    let mut victim = process("victim", &room);
    let count = |steady: &mut [Child; 2]| {
        let counts = steady.each_mut().map(|child| {
            child.tell("count");
            child.hear("completed").parse::<u64>().expect("a number")
        });
        counts.iter().sum::<u64>()
    };
    let (mut story, mut before): (Vec<Span>, u64) = (Vec::new(), 0);
    for number in 0..=spans {
        // It is load for so long, and the kill comes in the middle of it.
        tokio::time::sleep(SPAN / 2).await;
        victim.kill();
        victim = process("victim", &room);
        tokio::time::sleep(SPAN / 2).await;
        let counted = count(&mut steady);
        client
            .runs()
            .until(a_while_ago())
            .discard_all("it has been looked at")
            .await
            .expect("runs can be discarded");
        let memory = steady.iter().map(Child::memory).max().expect("there are processes");
        let span = Span { completed: counted - before, memory, size: size(&room).await };
        before = counted;
        println!("{number}: {span:?}");
        // The first is for warming up.
        if number > 0 {
            story.push(span);
        }
    }
    for child in steady.iter_mut().chain([&mut victim]) {
        child.tell("rest");
        child.hear("rests");
    }
    client.schedules().get("tick").await.expect("it is there").remove().await.expect("it is removed");
    eventually_async("what is left completes", PATIENCE, || async {
        client.runs().live().limit(1).list().await.expect("runs can be found").is_empty()
    })
    .await;
    let others = [RunState::Failed, RunState::Cancelled, RunState::Abandoned].into_iter();
    let others = others.fold(client.runs(), |runs, state| runs.state(state));
    let others = others.list().await.expect("runs can be found");
    assert!(others.is_empty(), "{others:?}");
    steady.into_iter().chain([victim]).for_each(Child::stop);

    let part = spans / 3;
    let (begin, end) = (&story[..part], &story[spans - part..]);
    let rate = |spans: &[Span]| spans.iter().map(|span| span.completed).sum::<u64>() as f64;
    let most =
        |spans: &[Span], what: fn(&Span) -> u64| spans.iter().map(what).max().expect("there are spans");
    let (quick, small) = (rate(end) / rate(begin), 16 << 20);
    println!("throughput at the end: {quick:.2} of that at the beginning");
    assert!(quick >= 0.9, "it became slower: {story:#?}");
    for what in [|span: &Span| span.memory, |span: &Span| span.size] {
        let (first, last) = (most(begin, what), most(end, what));
        assert!(last <= first + first / 4 + small, "it became larger, {first} to {last}: {story:#?}");
    }
}

mod in_a_file {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "takes minutes"]
    async fn soak() {
        minutes_of_work_and_kills_leave_it_as_quick_and_as_small(Room::new()).await;
    }
}

#[cfg(feature = "postgres")]
mod on_postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "takes minutes"]
    async fn soak() {
        let cluster = windlass_cluster::Cluster::start(&[]).expect("a cluster starts");
        minutes_of_work_and_kills_leave_it_as_quick_and_as_small(Room::on_postgres(cluster.url())).await;
    }
}
