//! The server is away for a while, and callers go on calling.

use std::{
    collections::HashSet,
    fs::File,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::mpsc::UnboundedReceiver;
use windlass::{Engine, RunId, Workflow};
use windlass_cluster::Cluster;

use crate::{
    child::Child,
    eventually::{PATIENCE, eventually_async},
    graph,
    ledger::Ledger,
    program::say,
    role::{Part, Role},
    room::Room,
    three_processes::all,
};

/// How long the server is away: long enough for the engine to lose its lease.
const OUTAGE: Duration = Duration::from_secs(10);
const LEASE: Duration = Duration::from_secs(3);
/// How long the engine lets its steps finish when it is stopped, and how long it may take besides.
const GRACE: Duration = Duration::from_secs(1);
const BOUND: Duration = Duration::from_secs(7);
/// How many start one run after the other, and wait for each.
const WORKERS: usize = 50;
/// How many more starts are asked for in a centisecond, by callers who wait no longer than this.
const PRESS: usize = 100;
const PATIENT: Duration = Duration::from_secs(1);
/// The acknowledged runs, with a word for each: whether it is to run now or later.
const ACKNOWLEDGED: &str = "acknowledged";

/// Starts runs for as long as the process lives, and does what it is told.
pub async fn serve(role: &Role, room: &Room, mut orders: UnboundedReceiver<String>) {
    let pair = graph::pair(&Arc::new(Ledger::open(&room.effects(), &role.name)));
    let engine = Engine::over(room.store().await)
        .workflow(pair.clone())
        .heartbeat(role.heartbeat)
        .stale_after(role.stale_after)
        .stop_grace(GRACE)
        .launch()
        .await
        .expect("the engine launches");
    let file = File::options().create(true).append(true).open(room.file(ACKNOWLEDGED)).expect("a file opens");
    let callers = Callers { engine: engine.clone(), pair, acknowledged: Arc::new(file) };
    let (completed, pressing) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    for _ in 0..WORKERS {
        tokio::spawn(callers.clone().work(Arc::clone(&completed)));
    }
    say("ready");
    while let Some(order) = orders.recv().await {
        match order.as_str() {
            "count" => say(&format!("completed {}", completed.load(Ordering::SeqCst))),
            "press" => {
                pressing.store(true, Ordering::SeqCst);
                tokio::spawn(callers.clone().press(Arc::clone(&pressing)));
            }
            "relent" => pressing.store(false, Ordering::SeqCst),
            "stop" => break,
            other => panic!("`{other}` is no order"),
        }
    }
    let asked = Instant::now();
    // What it could not do it says.
    let stopped = engine.stop().await;
    say(&format!("stopped {} {stopped:?}", asked.elapsed().as_millis()));
}

#[derive(Clone)]
struct Callers {
    engine: Engine,
    pair: Workflow<u64, u64>,
    acknowledged: Arc<File>,
}

impl Callers {
    fn note(&self, run: RunId, when: &str) {
        (&*self.acknowledged).write_all(format!("{run} {when}\n").as_bytes()).expect("a line is written");
    }

    /// Until the engine is stopped.
    async fn work(self, completed: Arc<AtomicU64>) {
        while let Ok(run) = self.engine.start(self.pair.clone(), 0).await {
            self.note(run.id(), "now");
            if run.await.is_ok() {
                completed.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// Asks for more and more, whoever has been answered.
    async fn press(self, goes_on: Arc<AtomicBool>) {
        let mut often = tokio::time::interval(Duration::from_millis(10));
        while goes_on.load(Ordering::SeqCst) {
            often.tick().await;
            for _ in 0..PRESS {
                let callers = self.clone();
                tokio::spawn(async move {
                    let later = Duration::from_secs(3600);
                    let start = callers.engine.start(callers.pair.clone(), 0).delay(later).within(PATIENT);
                    if let Ok(run) = start.await {
                        callers.note(run.id(), "later");
                    }
                });
            }
        }
    }
}

/// How many runs of workers complete in a second.
async fn rate(child: &mut Child) -> u64 {
    let mut count = || {
        child.tell("count");
        child.hear("completed").parse::<u64>().expect("a number")
    };
    let before = count();
    tokio::time::sleep(Duration::from_secs(1)).await;
    count() - before
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_whose_server_is_away_under_load_keeps_within_bounds_and_loses_nothing_acknowledged() {
    let cluster = Cluster::start(&["fsync = off"]).expect("a cluster starts");
    let room = Room::on_postgres(cluster.url());
    let role = Role::new("pressed", &room, Part::Endure).lease(Duration::from_millis(500), LEASE);
    let mut child = Child::ready(role);
    // The first second is for warming up.
    rate(&mut child).await;
    let (usual, calm) = (rate(&mut child).await, child.memory());
    assert!(usual > 10, "only {usual} runs complete in a second, so this shows little");

    cluster.stop("immediate").expect("the server stops");
    child.tell("press");
    tokio::time::sleep(OUTAGE / 2).await;
    let full = child.memory();
    tokio::time::sleep(OUTAGE / 2).await;
    let end = child.memory();
    assert!(!child.is_over(), "the process ended:\n{}", child.last_words());
    // By the middle there were more calls than may wait, and later ones leave nothing behind.
    let (filled, more) = (full.saturating_sub(calm), end.saturating_sub(full));
    assert!(
        filled < 200 << 20 && more < 20 << 20,
        "{calm} bytes before the outage, {full} in its middle, {end} at its end"
    );
    child.tell("relent");
    cluster.resume().expect("the server starts");
    let back = Instant::now();
    let mut now = 0;
    while now < usual / 2 {
        assert!(back.elapsed() < Duration::from_secs(6), "{now} runs/s, and before it were {usual}");
        now = rate(&mut child).await;
    }

    cluster.stop("fast").expect("the server stops");
    child.tell("stop");
    let stopped = child.hear("stopped");
    let (took, said) = stopped.split_once(' ').expect("how long it took, and what was said");
    let took = Duration::from_millis(took.parse().expect("a number"));
    assert!(took < GRACE + BOUND, "stopping took {took:?}");
    assert!(said.starts_with("Err") && said.contains("goes on when this process is gone"), "{said}");
    assert!(child.end().success(), "{}", child.last_words());
    cluster.resume().expect("the server starts");
    check_acknowledged(&room).await;
}

/// Whatever was acknowledged is there, and completes if it is to run now.
async fn check_acknowledged(room: &Room) {
    let heir = Child::ready(Role::new("heir", room, Part::Serve).lease(Duration::from_millis(500), LEASE));
    let (client, store) = (room.client().await, room.store().await);
    let (now, later): (Vec<_>, Vec<_>) = room
        .lines(ACKNOWLEDGED)
        .into_iter()
        .map(|line| {
            let (run, when) = line.split_once(' ').expect("a run and when");
            (run.parse::<RunId>().expect("a run id"), when == "now")
        })
        .partition(|(_, is_now)| *is_now);
    eventually_async("all runs that are to run now complete", PATIENCE, || async {
        let completed = client.runs().completed().limit(1_000_000).list().await.expect("runs can be found");
        let completed: HashSet<RunId> = completed.into_iter().map(|run| run.id).collect();
        now.iter().all(|(run, _)| completed.contains(run))
    })
    .await;
    let all: HashSet<RunId> = all(&*store).await.into_iter().map(|run| run.id).collect();
    assert!(later.iter().all(|(run, _)| all.contains(run)), "a run that was acknowledged is not there");
    heir.stop();
}
