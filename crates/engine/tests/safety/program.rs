//! The program that tests run in processes of their own.

use std::{
    fs::File,
    io::{BufRead, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use windlass::{Engine, RunId, Task, Workflow};
use windlass_store::{Act, CommitMoment, Query, Store, Unit};

use crate::{
    child::{GO_ON, MARK, kill_at, kill_me, leave_trap, wait_in_trap},
    crash_sweep::RUNS,
    entries,
    faulty::{Asked, Fault, Faulty},
    graph, journal,
    ledger::{JOINED, Ledger},
    role::{Boundary, Part, Role},
    room::Room,
};

/// Where a process that was told to freeze does it.
#[derive(Default)]
struct Traps {
    /// Just before a commit that ends a run is handed to the store, outside of any write.
    end: AtomicBool,
    /// Just before a heartbeat is handed to the store, outside of any write.
    beat: AtomicBool,
    /// In the middle of a write transaction.
    write: AtomicBool,
}

impl Traps {
    /// Whether the trap was set. It springs once.
    fn springs(trap: &AtomicBool) -> bool {
        trap.swap(false, Ordering::SeqCst)
    }
}

#[test]
#[ignore = "this is the program that the other tests run in processes of their own"]
fn program() {
    let role = Role::mine();
    let room = Room::at(&role.room);
    journal::keep(&room.file(&format!("{}.log", role.name)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ledger = Arc::new(Ledger::open(&room.effects(), &role.name));
    runtime.expect("a runtime starts").block_on(async {
        match role.part {
            Part::Sweep { kill } => sweep(&role, &room, ledger, kill).await,
            #[cfg(target_os = "linux")]
            Part::Toil => crate::power_cut::toil(&role, &room, ledger).await,
            #[cfg(all(feature = "schedule", target_os = "linux"))]
            Part::Soak => crate::soak::serve(&role, &room, ledger, orders()).await,
            Part::Travel { by_machine, links, kill } => {
                crate::flow_sweep::travel(&role, &room, ledger, by_machine, links, kill).await
            }
            Part::Sail { kill } => crate::voyages::sail(&role, &room, ledger, kill).await,
            Part::Attend => crate::flow_time::attend(&role, &room, ledger, orders()).await,
            Part::Serve => serve(&role, &room, ledger).await,
            Part::Spread => spread(&role, &room, ledger).await,
            Part::Queue => crate::queues::serve(&role, &room, orders()).await,
            Part::Poison => poison(&role, &room, ledger).await,
            Part::Enter => entries::serve(&role, &room, orders()).await,
            #[cfg(all(feature = "postgres", target_os = "linux"))]
            Part::Endure => crate::outage::serve(&role, &room, orders()).await,
            Part::EnterAll { kill } => entries::enter_all(&role, &room, kill).await,
        }
    });
    // The harness has nothing to add.
    std::process::exit(0);
}

pub fn say(word: &str) {
    println!("{MARK}{word}");
}

/// The orders from the test. When the test is gone, so is this process.
fn orders() -> UnboundedReceiver<String> {
    let (sender, orders) = unbounded_channel();
    std::thread::spawn(move || {
        for order in std::io::stdin().lock().lines().map_while(Result::ok) {
            match order.as_str() {
                GO_ON => leave_trap(),
                _ => drop(sender.send(order)),
            }
        }
        std::process::exit(3);
    });
    orders
}

async fn sweep(role: &Role, room: &Room, ledger: Arc<Ledger>, kill: Option<Boundary>) {
    let store = room.store_with(kill_at(kill)).await;
    note_records(&*store, role, room).await;
    let workflow = graph::twenty(&ledger);
    let mut builder = Engine::over(store)
        .workflow(workflow.clone())
        .heartbeat(role.heartbeat)
        .stale_after(role.stale_after);
    if room.is_on_postgres() {
        // Beside a file, everybody sees that a process is gone; on a server, its successor in name says so.
        builder = builder.name("sweep");
    }
    let engine = builder.launch().await.expect("the engine launches");
    let mut runs = Vec::new();
    for number in 0..RUNS as u64 {
        let start = engine.start(workflow.clone(), number).key(format!("run-{number}"));
        let run = start.await.expect("the run starts");
        room.append("acknowledged", &run.id().to_string());
        runs.push(run);
    }
    for run in runs {
        run.await.expect("the run completes");
    }
    engine.stop().await.expect("the engine stops");
}

/// Writes down what is recorded before this process does anything. A process that is killed meanwhile leaves
/// nothing.
pub async fn note_records(store: &dyn Store, role: &Role, room: &Room) {
    let found = store.find(Query { limit: 1000, ..Query::default() }).await.expect("runs can be found");
    let mut lines = String::new();
    for run in found.runs {
        let image = store.load(run.id).await.expect("a run can be loaded").expect("the run is there");
        for step in image.steps.iter().filter(|step| step.kind != windlass::StepKind::Started) {
            lines.push_str(&format!("{} {} {}\n", run.id, step.name, step.attempt));
        }
    }
    let (draft, name) = (room.file("draft"), room.file(&format!("recorded-{}", role.name)));
    std::fs::write(&draft, lines).expect("the draft is written");
    std::fs::rename(draft, name).expect("the draft gets its name");
}

async fn serve(role: &Role, room: &Room, ledger: Arc<Ledger>) {
    let mut orders = orders();
    let traps = Arc::new(Traps::default());
    let slowest = Arc::new(AtomicU64::new(0));
    let store = faulty(room, &traps, &slowest).await;
    let (pair, second_try) = (graph::pair(&ledger), graph::second_try(&ledger, Duration::from_secs(4)));
    let engine = Engine::over(Arc::new(store))
        .workflow(pair.clone())
        .workflow(second_try.clone())
        .workflow(graph::persistent(&ledger, room))
        .workflow(graph::gather())
        .heartbeat(role.heartbeat)
        .stale_after(role.stale_after)
        .max_runs(role.max_runs)
        .park_after(role.park_after)
        .launch()
        .await
        .expect("the engine launches");
    say("ready");
    while let Some(order) = orders.recv().await {
        match order.as_str() {
            "start" => {
                let run = engine.start(pair.clone(), 1).await.expect("the run starts");
                say(&format!("started {}", run.id()));
            }
            "retry later" => {
                for _ in 0..50 {
                    engine.start(second_try.clone(), 0).await.expect("the run starts");
                }
            }
            "be busy" => be_busy(&engine, &pair),
            "freeze before an end" => traps.end.store(true, Ordering::SeqCst),
            "freeze before a heartbeat" => traps.beat.store(true, Ordering::SeqCst),
            "freeze in a write" => traps.write.store(true, Ordering::SeqCst),
            "tell the slowest heartbeat" => say(&format!("slowest {}", slowest.load(Ordering::SeqCst))),
            "stop" => break,
            other => panic!("`{other}` is no order"),
        }
    }
    engine.stop().await.expect("the engine stops");
}

/// Keeps the engine writing until the process ends: whenever one transaction is done, the next one waits.
fn be_busy(engine: &Engine, pair: &Workflow<u64, u64>) {
    for _ in 0..4 {
        let (engine, pair) = (engine.clone(), pair.clone());
        tokio::spawn(async move {
            let later = Duration::from_secs(3600);
            // Until the engine is stopped.
            while engine.start_many(pair.clone(), vec![0; 200]).delay(later).await.is_ok() {}
        });
    }
}

async fn faulty(room: &Room, traps: &Arc<Traps>, slowest: &Arc<AtomicU64>) -> Faulty {
    let in_write = Arc::clone(traps);
    let hook = move |moment| {
        if matches!(moment, CommitMoment::Before(_)) && Traps::springs(&in_write.write) {
            wait_in_trap();
        }
    };
    let faulty = Faulty::new(room.store_with(hook).await);
    // The end that was trapped: other commits may be on their way, and theirs is another fate.
    let (on_call, late) = (Arc::clone(traps), Arc::new(Mutex::new(None)));
    let trapped = Arc::clone(&late);
    faulty.on_call(move |asked| match asked {
        Asked::Join => {
            JOINED.fetch_add(1, Ordering::SeqCst);
            say("joining");
            Fault::None
        }
        Asked::Heartbeat if Traps::springs(&on_call.beat) => Fault::Alone(wait_in_trap),
        Asked::Commit(batch) => match batch.iter().find_map(end_of) {
            Some(end) if Traps::springs(&on_call.end) => {
                *trapped.lock() = Some(end);
                Fault::Alone(wait_in_trap)
            }
            _ => Fault::None,
        },
        _ => Fault::None,
    });
    let ends = File::options().create(true).append(true).open(room.file("ends")).expect("a file opens");
    faulty.on_commit(move |node, units, fate| {
        let mut late = late.lock();
        if late.is_some() && units.iter().any(|unit| end_of(unit) == *late) {
            *late = None;
            let fate = fate.as_ref().map_or_else(ToString::to_string, |_| "written".to_owned());
            say(&format!("late {fate}"));
        }
        drop(late);
        let Ok(answers) = fate else { return };
        let ended =
            units.iter().zip(answers).filter_map(|(unit, answer)| end_of(unit).filter(|_| answer.is_ok()));
        let lines: String = ended.map(|(run, claim)| format!("{run} {node:?} {claim}\n")).collect();
        (&ends).write_all(lines.as_bytes()).expect("ends are written down");
    });
    let slowest = Arc::clone(slowest);
    faulty.on_heartbeat(move |took| {
        slowest.fetch_max(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
        say("beat");
    });
    faulty
}

fn end_of(unit: &Unit) -> Option<(RunId, u64)> {
    match unit.act {
        Act::End { claim, .. } => Some((unit.run, claim.0)),
        _ => None,
    }
}

async fn spread(role: &Role, room: &Room, ledger: Arc<Ledger>) {
    let mut orders = orders();
    let store = Faulty::new(room.store().await);
    store.on_call(|asked| {
        if matches!(asked, Asked::Join) {
            JOINED.fetch_add(1, Ordering::SeqCst);
        }
        Fault::None
    });
    let wide = graph::wide(&ledger);
    let engine = Engine::over(Arc::new(store))
        .workflow(wide.clone())
        .queue("default", crate::spread::SLOTS)
        .heartbeat(role.heartbeat)
        .stale_after(role.stale_after)
        .park_after(role.park_after)
        .launch()
        .await
        .expect("the engine launches");
    say("ready");
    while let Some(order) = orders.recv().await {
        match order.split_once(' ') {
            Some(("spread", tasks)) => {
                let tasks: u64 = tasks.parse().expect("a number of tasks");
                let run = engine.start(wide.clone(), tasks).await.expect("the run starts");
                say(&format!("started {}", run.id()));
            }
            _ if order == "stop" => break,
            _ => panic!("`{order}` is no order"),
        }
    }
    engine.stop().await.expect("the engine stops");
}

/// One run kills the process whenever its neighbour has got a step further.
async fn poison(role: &Role, room: &Room, ledger: Arc<Ledger>) {
    let store = Faulty::new(room.store().await);
    let progress = Arc::new(AtomicU64::new(0));
    let neighbour = Arc::new(Mutex::new(None));
    let (seen, who) = (Arc::clone(&progress), Arc::clone(&neighbour));
    store.on_commit(move |_, units, fate| {
        let records = |unit: &&Unit| matches!(unit.act, Act::Record { .. }) && Some(unit.run) == *who.lock();
        if fate.is_ok() && units.iter().any(|unit| records(&unit)) {
            seen.fetch_add(1, Ordering::SeqCst);
        }
    });
    let (steady, deadly) = (steady(&ledger), deadly(&ledger, &progress));
    let engine = Engine::over(Arc::new(store))
        .workflow(steady.clone())
        .workflow(deadly.clone())
        .heartbeat(role.heartbeat)
        .stale_after(role.stale_after)
        .max_recoveries(2)
        .launch()
        .await
        .expect("the engine launches");
    let steady = engine.start(steady, 0).key("steady").await.expect("the run starts");
    *neighbour.lock() = Some(steady.id());
    let deadly = engine.start(deadly, 0).key("deadly").await.expect("the run starts");
    say(&format!("runs {} {}", steady.id(), deadly.id()));
    let abandoned = deadly.await.expect_err("a run that kills its process does not complete");
    say(&format!("abandoned {abandoned}"));
    steady.await.expect("the neighbour completes");
    engine.stop().await.expect("the engine stops");
}

fn steady(ledger: &Arc<Ledger>) -> Workflow<u64, u64> {
    let names: Vec<String> = (0..30).map(|number| format!("step{number}")).collect();
    let tasks = names.iter().enumerate().map(|(number, name)| {
        let ledger = Arc::clone(ledger);
        let task = Task::new(name.clone(), move |cx| {
            let ledger = Arc::clone(&ledger);
            async move {
                ledger.note(&cx);
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(0_u64)
            }
        });
        task.after(number.checked_sub(1).map(|before| names[before].clone()))
    });
    Workflow::builder("steady").tasks(tasks).output("step29").build().expect("the graph is sound").typed()
}

fn deadly(ledger: &Arc<Ledger>, progress: &Arc<AtomicU64>) -> Workflow<u64, u64> {
    let (ledger, progress) = (Arc::clone(ledger), Arc::clone(progress));
    let body = move |cx: windlass::TaskCx| {
        let (ledger, progress) = (Arc::clone(&ledger), Arc::clone(&progress));
        async move {
            ledger.note(&cx);
            // After a recovery each start of the neighbour is recorded too: with three records a step has ended.
            let progressed = async {
                while progress.load(Ordering::SeqCst) < 3 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            // Or not: the neighbour may have to wait until this step is gone.
            tokio::time::timeout(Duration::from_millis(500), progressed).await.ok();
            die()
        }
    };
    Workflow::builder("deadly").task(Task::new("bad", body)).build().expect("the graph is sound").typed()
}

/// What a task that kills its process returns.
fn die() -> windlass::Result<u64> {
    kill_me()
}
