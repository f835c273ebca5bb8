//! Four processes share a queue with limits while they are killed and runs are cancelled, and an observer inside the tasks
//! looks whether more is under way than is allowed.
//!
//! What is under way holds locks on files, which the system takes away from a process that is killed: so the observer counts
//! the living alone, and nothing that it sees can be left over.
//!
//! A rate counts what is taken, and the observer sees what begins. Whatever is taken holds a place until it ends: so in no span
//! more may begin than the rate says, and as many as may have been taken before.

use std::{
    collections::BTreeMap,
    fs::File,
    path::Path,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use windlass::{Client, Engine, Task, TaskCx, Workflow};

use crate::{
    child::Child,
    eventually::{PATIENCE, eventually_async},
    program::say,
    role::{Part, Role},
    room::Room,
};

const QUEUE: &str = "tight";
const CONCURRENCY: u32 = 7;
const PER_KEY: u32 = 2;
const PER_NODE: u32 = 4;
/// So many that the limit of all is met before those of the keys.
const KEYS: u64 = 6;
const PROCESSES: [&str; 4] = ["one", "two", "three", "four"];
const LEASE: Duration = Duration::from_secs(2);

/// Each priority has a third of the runs.
const PRIORITIES: [u8; 3] = [9, 5, 0];
const SECOND: Duration = Duration::from_secs(1);

/// How much there is to be done, and how fast.
struct Load {
    runs: u64,
    kills: u64,
    /// How many begin in a second.
    rate: u32,
    key_rate: u32,
}

/// A run of the test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Errand {
    key: u64,
    priority: u8,
    /// How long it takes, in milliseconds.
    takes: u64,
}

/// What is under way while this is there.
struct Presence {
    _locks: Vec<File>,
}

impl Presence {
    /// Takes one of so many places for each limit, or says which one is exceeded.
    fn enter(room: &Path, process: &str, errand: &Errand) -> Result<Self, String> {
        let limits = [
            ("all".to_owned(), CONCURRENCY),
            (format!("key-{}", errand.key), PER_KEY),
            (format!("node-{process}"), PER_NODE),
        ];
        let locks = limits.into_iter().map(|(what, most)| {
            let place = (0..most).find_map(|number| {
                let path = room.join(format!("place-{what}-{number}"));
                let file = File::options().create(true).append(true).open(path).expect("a file opens");
                file.try_lock().ok().map(|()| file)
            });
            place.ok_or_else(|| format!("more than {most} of {what} are under way"))
        });
        Ok(Self { _locks: locks.collect::<Result<_, _>>()? })
    }
}

/// What an observer noted when an errand began.
struct Begun {
    micros: u128,
    key: u64,
    priority: u8,
}

impl Begun {
    fn note(room: &Path, errand: &Errand) {
        let micros = UNIX_EPOCH.elapsed().expect("it is after 1970").as_micros();
        Room::at(room).append("begun", &format!("{micros} {} {}", errand.key, errand.priority));
    }

    /// All that began, in this order.
    fn all(room: &Room) -> Vec<Self> {
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<u128>().ok()).expect("a number");
        let read = |line: String| {
            let mut words = line.split(' ');
            let [micros, key, priority] = [words.next(), words.next(), words.next()].map(number);
            Self { micros, key: key as u64, priority: priority as u8 }
        };
        let mut all: Vec<Self> = room.lines("begun").into_iter().map(read).collect();
        all.sort_by_key(|begun| begun.micros);
        all
    }
}

/// Sees to it that no more begin in any second than a rate says, when so many may have been taken before it.
fn no_second_has_more(what: &str, times: &[u128], rate: u32, before: u32) {
    let most = (rate + before) as usize;
    for span in times.windows(most + 1) {
        let took = span[most] - span[0];
        assert!(took >= SECOND.as_micros(), "{} of {what} began within {took} µs", most + 1);
    }
}

/// Sees to it that those who began kept to the rates, and that the urgent ones mostly came first.
fn judge(all: &[Begun], load: &Load) {
    let times: Vec<u128> = all.iter().map(|begun| begun.micros).collect();
    no_second_has_more("all", &times, load.rate, CONCURRENCY);
    let mut keys: BTreeMap<u64, Vec<u128>> = BTreeMap::new();
    let mut places: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
    for (place, begun) in all.iter().enumerate() {
        keys.entry(begun.key).or_default().push(begun.micros);
        places.entry(begun.priority).or_default().push(place);
    }
    for (key, times) in &keys {
        no_second_has_more(&format!("key {key}"), times, load.key_rate, PER_KEY);
    }
    let middle = |places: &Vec<usize>| places.iter().sum::<usize>() / places.len();
    let middles: Vec<usize> = places.values().map(middle).collect();
    assert!(middles.is_sorted(), "the most urgent come first: {middles:?}");
}

fn errands(role: &Role, room: &Room) -> Workflow<Errand, u64> {
    let (name, directory) = (role.name.clone(), Arc::new(room.directory().to_owned()));
    let body = move |cx: TaskCx| {
        let (name, directory) = (name.clone(), Arc::clone(&directory));
        async move {
            let errand: Errand = cx.input()?;
            Begun::note(&directory, &errand);
            match Presence::enter(&directory, &name, &errand) {
                Ok(_presence) => tokio::time::sleep(Duration::from_millis(errand.takes)).await,
                Err(why) => Room::at(&directory).append("exceeded", &why),
            }
            Ok(errand.key)
        }
    };
    let built = Workflow::builder("errand").tasks([Task::new("do", body)]).output("do").build();
    built.expect("the graph is sound").typed()
}

/// A process of the test.
pub async fn serve(role: &Role, room: &Room, mut orders: tokio::sync::mpsc::UnboundedReceiver<String>) {
    // Whoever comes after a process that was killed says so by his name.
    let engine = Engine::over(room.store().await)
        .name(role.name.clone())
        .workflow(errands(role, room))
        .serve([QUEUE])
        .heartbeat(role.heartbeat)
        .stale_after(role.stale_after)
        .launch()
        .await
        .expect("the engine launches");
    say("ready");
    if let Some(order) = orders.recv().await {
        assert_eq!(order, "stop");
    }
    engine.stop().await.expect("the engine stops");
}

fn process(name: &str, room: &Room) -> Child {
    let role = Role::new(name, room, Part::Queue);
    Child::ready(role.lease(Duration::from_millis(300), LEASE))
}

async fn live(client: &Client) -> u64 {
    let status = client.queues().get(QUEUE).await.expect("the store answers");
    status.map_or(0, |status| status.depth + status.running)
}

/// Runs errands while processes are killed whenever some of them are done, and others are cancelled.
async fn share(room: Room, load: Load) {
    let Load { runs, kills, rate, key_rate } = load;
    let client = room.client().await;
    let setup = client.queue(QUEUE).concurrency(CONCURRENCY).per_key(PER_KEY).per_node(PER_NODE);
    let setup = setup.rate(rate, SECOND).key_rate(key_rate, SECOND).ageing(SECOND * 3600);
    setup.await.expect("the queue is declared");
    client.queues().pause(QUEUE).await.expect("it is paused");
    let mut children = PROCESSES.map(|name| process(name, &room));
    let role = Role::new("nobody", &room, Part::Queue);
    let mut ids = Vec::new();
    for priority in PRIORITIES {
        let errand = |number| Errand { key: number % KEYS, priority, takes: 5 + number % 30 };
        let part = (0..runs / PRIORITIES.len() as u64).map(errand);
        let start = client.start_many(errands(&role, &room), part).queue(QUEUE).priority(priority);
        ids.extend(start.queue_key(|errand: &Errand| errand.key.to_string()).await.expect("they start"));
    }
    client.queues().resume(QUEUE).await.expect("it goes on");

    for kill in 1..=kills {
        let left = runs - runs * kill / (kills + 1);
        eventually_async("the next part is done", PATIENCE, || async { live(&client).await <= left }).await;
        let victim = (kill % 4) as usize;
        children[victim].kill();
        for id in ids.iter().skip(kill as usize).step_by(97) {
            let run = client.run(&errands(&role, &room), *id);
            run.cancel("not needed any more").await.expect("it can be asked");
        }
        children[victim] = process(PROCESSES[victim], &room);
    }
    eventually_async("all is done", PATIENCE, || async { live(&client).await == 0 }).await;

    assert_eq!(room.lines("exceeded"), Vec::<String>::new(), "seen by the tasks themselves");
    judge(&Begun::all(&room), &load);
    let unfinished = client.runs().live().limit(1).list().await.expect("runs can be found");
    assert!(unfinished.is_empty(), "{unfinished:?}");
    children.into_iter().for_each(Child::stop);
}

async fn no_task_ever_sees_a_limit_exceeded_while_processes_are_killed(room: Room) {
    share(room, Load { runs: 600, kills: 4, rate: 100, key_rate: 20 }).await;
}

on_both!(no_task_ever_sees_a_limit_exceeded_while_processes_are_killed);

mod at_length {
    use super::*;

    /// It takes seven minutes, whatever the machine can do.
    const LONG: Load = Load { runs: 20_001, kills: 40, rate: 50, key_rate: 10 };

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "takes minutes"]
    async fn twenty_thousand_runs_in_a_file() {
        share(Room::new(), LONG).await;
    }

    #[cfg(feature = "postgres")]
    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "takes minutes"]
    async fn twenty_thousand_runs_on_postgres() {
        let cluster = windlass_cluster::Cluster::find().expect("a cluster is there");
        share(Room::on_postgres(cluster.url()), LONG).await;
    }
}
