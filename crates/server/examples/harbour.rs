//! An engine with work of every kind, and the page before it: to look at while the page is written, and what its tests see.
//!
//! ```sh
//! cargo run -p windlass-server --example harbour -- --port 7171
//! ```
//!
//! `--runs N` starts so many more runs at once, `--past N` has so many that ended before, `--prefix /some/path` mounts the router there, `--empty` has workflows and
//! nothing to do, `--still` begins and starts nothing after that, and `--keys` asks for keys, which it prints.

use std::{collections::HashMap, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tracing_subscriber::{prelude::*, util::SubscriberInitExt};
use windlass::{
    machine::{Joined, MachineState, Poll},
    prelude::*,
};
use windlass_server::{Api, Keys, Role, record_metrics};

/// Ships' papers, read, cleaned, priced and filed.
#[workflow(output = file)]
mod manifest {
    use super::*;

    #[task]
    pub async fn read(input: Ship) -> Result<Vec<Crate>> {
        tracing::info!(ship = input.name, rig = ?input.rig, marks = ?input.marks, "reading the papers");
        sleep(Duration::from_millis(300)).await;
        Ok((1..=input.crates).map(|number| Crate { number, kilos: 40 + number * 7 % 60 }).collect())
    }

    #[task(retry(attempts = 4, delay = "700ms", jitter = 0))]
    pub async fn weigh(read: &[Crate], cx: &Cx) -> Result<u32> {
        sleep(Duration::from_millis(400)).await;
        if cx.attempt() < 3 {
            tracing::warn!(attempt = cx.attempt(), "the scale did not settle");
            return Err(format!("the scale did not settle (attempt {})", cx.attempt()).into());
        }
        Ok(read.iter().map(|one| one.kilos).sum())
    }

    #[task(for_each = read, limit = 4, retry(attempts = 2, delay = "500ms"))]
    pub async fn price(item: &Crate, input: Ship, cx: &Cx) -> Result<u32> {
        sleep(Duration::from_millis(200 + 40 * u64::from(item.number))).await;
        match (input.name.as_str(), item.number, cx.attempt()) {
            ("Vasa", 7, _) => Err(Failure::permanent("crate 7 has no papers: the customs house refuses it")),
            (_, 3, 1) => Err("the price list was locked by somebody else".into()),
            _ => Ok(item.kilos * 12),
        }
    }

    #[task(after = [weigh], when = context("insured") == true)]
    pub async fn insure(weigh: Option<u32>) -> Result<u32> {
        Ok(weigh.unwrap_or_default() / 100)
    }

    #[task]
    pub async fn file(price: &[u32], weigh: u32, cx: &Cx) -> Result<String> {
        for part in 1..=4 {
            sleep(Duration::from_millis(500)).await;
            cx.beat(f64::from(part) / 4.0);
        }
        Ok(format!("{} crates, {weigh} kg, {} p", price.len(), price.iter().sum::<u32>()))
    }

    #[undo(file)]
    pub async fn withdraw(file: String) -> Result<()> {
        println!("withdrew {file}");
        Ok(())
    }

    #[task(after = [price], when = failed(price))]
    pub async fn alarm(price: Option<Vec<u32>>) -> Result<String> {
        sleep(Duration::from_millis(300)).await;
        Ok(format!("told the harbour master; priced: {}", price.is_some()))
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Ship {
    name: String,
    crates: u32,
    #[serde(default)]
    rig: Rig,
    #[serde(default)]
    marks: Vec<String>,
    #[serde(default)]
    pilot: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rig {
    #[default]
    Sail,
    Steam,
}

/// What the page asks for to start a manifest.
fn ship_schema() -> serde_json::Value {
    serde_json::json!({
        "title": "Ship",
        "type": "object",
        "required": ["name", "crates"],
        "properties": {
            "name": {"type": "string", "description": "As it is painted on her stern"},
            "crates": {"type": "integer", "minimum": 1, "maximum": 99},
            "rig": {"enum": ["sail", "steam"]},
            "marks": {"type": "array", "items": {"type": "string"}},
            "pilot": {"type": ["string", "null"]},
        },
    })
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Crate {
    number: u32,
    kilos: u32,
}

/// A berth is let when the harbour master has said so.
#[flow]
async fn berth(cx: &Flow, ship: String) -> Result<String> {
    let deposit = cx
        .step("take deposit", || async { Ok::<_, Failure>(1_200_u32) })
        .undo(|cents: u32| async move {
            println!("gave {cents} back");
            Ok::<_, Failure>(())
        })
        .await?;
    cx.publish("ship", &ship)?;
    tokio::try_join!(
        cx.step("reserve tug", || async {
            tracing::info!(tug = 4, "asking for a tug");
            sleep(Duration::from_millis(800)).await;
            Ok::<_, Failure>("tug 4".to_owned())
        }),
        cx.step("reserve pilot", || async {
            sleep(Duration::from_millis(500)).await;
            Ok::<_, Failure>("pilot 2".to_owned())
        }),
    )?;
    match cx.event(APPROVED).timeout(Duration::from_secs(48 * 3600)).await? {
        Some(Approval { by, yes: true }) => {
            let papers = cx.run(survey::workflow(), ship.clone()).await?;
            Ok(format!("{ship} has a berth ({by}; {papers}; deposit {deposit})"))
        }
        Some(Approval { by, .. }) => Err(Failure::permanent(format!("{by} refused the berth"))),
        None => Err(Failure::permanent("nobody approved it within two days")),
    }
}

const APPROVED: Event<Approval> = Event::new("approved");

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Approval {
    by: String,
    yes: bool,
}

/// Somebody walks around a ship.
#[flow]
async fn survey(cx: &Flow, ship: String) -> Result<String> {
    for part in ["hull", "rudder"] {
        cx.step(part, || async { Ok::<_, Failure>(true) }).await?;
        cx.sleep(Duration::from_secs(1)).await?;
    }
    Ok(format!("{ship} is sound"))
}

/// Slow work in a narrow queue.
#[workflow]
mod unload {
    use super::*;

    #[task(retry(attempts = 1))]
    pub async fn crane(input: u32, cx: &Cx) -> Result<u32> {
        for part in 1..=10 {
            sleep(Duration::from_millis(300)).await;
            cx.beat(f64::from(part) / 10.0);
        }
        Ok(input)
    }
}

/// Quick and mostly lucky.
#[workflow]
mod signal {
    use super::*;

    #[task(retry(attempts = 2, delay = "200ms"))]
    pub async fn hoist(input: u32, cx: &Cx) -> Result<u32> {
        match (input % 11, input % 5, cx.attempt()) {
            (0, ..) => Err(Failure::permanent("the halyard parted")),
            (_, 0, 1) => Err("a gust took the flag".into()),
            _ => Ok(input),
        }
    }

    #[task]
    pub async fn answer(hoist: u32) -> Result<String> {
        Ok(format!("seen {hoist}"))
    }
}

/// Never works.
#[workflow]
mod tide_table {
    use super::*;

    #[task(retry(attempts = 1))]
    pub async fn fetch() -> Result<u32> {
        let source = std::io::Error::other("connection refused (os error 111)");
        Err(Failure::from(source))
    }
}

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Voyage {
    Moored,
    Loaded,
    AtSea,
    Arrived,
    Refused,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Log {
    #[serde(default)]
    cargo: u32,
    #[serde(default)]
    miles: u32,
}

struct Captain;

#[machine(state = Voyage, data = Log, initial = Moored, terminal = [Arrived, Refused])]
impl Captain {
    #[on(Moored, to = [Loaded, Refused])]
    async fn load(&self, data: &mut Log) -> Result<Voyage> {
        Ok(if data.cargo > 900 { Voyage::Refused } else { Voyage::Loaded })
    }

    async fn ring(&self) -> Result<()> {
        Ok(())
    }

    async fn cast_off(&self) -> Result<()> {
        Ok(())
    }

    #[on(Loaded, to = [AtSea], split = [ring, cast_off], join = quorum(2))]
    async fn leave(&self, _results: Joined) -> Result<Voyage> {
        Ok(Voyage::AtSea)
    }

    #[on(AtSea, to = [Arrived], poll = "4s")]
    async fn sail(&self, data: &mut Log) -> Result<Poll<Voyage>> {
        data.miles += 12;
        Ok(if data.miles < 120 { Poll::Again } else { Poll::Ready(Voyage::Arrived) })
    }
}

#[trigger(every = "20s", starts = signal)]
async fn lighthouse() -> Result<Fire<u32>> {
    Ok(Fire::run(4).key("fog"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = Wanted::read()?;
    tracing_subscriber::registry().with(windlass::log_layer()).init();
    record_metrics()?;
    let past = if wanted.past > 0 { Some(past(wanted.past).await?) } else { None };
    let engine = Engine::open(past.as_ref().map_or_else(|| "sqlite::memory:".to_owned(), url))
        .queue("cranes", 20)
        .queue("signals", 100)
        .resource(Captain)
        .workflow(manifest::workflow().input_schema(ship_schema()))
        .workflow(berth::workflow())
        .workflow(survey::workflow())
        .workflow(unload::workflow())
        .workflow(signal::workflow())
        .workflow(tide_table::workflow())
        .workflow(Captain::workflow());
    let engine =
        if wanted.has("empty") { engine } else { engine.trigger(lighthouse::trigger()) }.launch().await?;

    let api = Api::new(engine.client());
    let router = if wanted.has("keys") { api.keys().router() } else { api.router() };
    let app = match &*wanted.prefix {
        "" => router,
        prefix => axum::Router::new().nest_service(prefix, router),
    };
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", wanted.port)).await?;
    println!("http://{}{}/", listener.local_addr()?, wanted.prefix);
    tokio::spawn(async move { axum::serve(listener, app).await });
    if wanted.has("keys") {
        for role in [Role::Viewer, Role::Operator, Role::Admin] {
            let key = Keys::new(&engine.client()).create(role.name(), role, None).await?;
            println!("key {} {}", role.name(), key.key);
        }
    }
    if !wanted.has("empty") {
        begin(&engine, wanted.runs).await?;
    }
    println!("ready");
    if wanted.has("empty") || wanted.has("still") {
        return std::future::pending().await;
    }
    trade(&engine).await?;
    Ok(())
}

/// A database with so many runs that have ended: one, and copies of all of its rows.
async fn past(runs: u32) -> Result<tempfile::NamedTempFile, Box<dyn std::error::Error>> {
    let file = tempfile::NamedTempFile::new()?;
    let engine = Engine::open(url(&file)).queue("signals", 1).workflow(signal::workflow()).launch().await?;
    let run = engine.start(signal::workflow(), 1).queue("signals").tag("past").await?;
    let id = *run.id().as_bytes();
    run.await?;
    engine.stop().await?;
    drop(engine);
    let database = rusqlite::Connection::open(file.path())?;
    database.execute_batch("PRAGMA synchronous = OFF; BEGIN IMMEDIATE")?;
    let names = |sql: &str, of: &str| -> rusqlite::Result<Vec<String>> {
        database.prepare(sql)?.query_map([of], |row| row.get(0))?.collect()
    };
    for table in names("SELECT name FROM sqlite_master WHERE type = ?", "table")? {
        // But for numbers that the database gives out itself.
        let columns = names(
            "SELECT name FROM pragma_table_info(?1) WHERE NOT (upper(type) = 'INTEGER' AND pk = 1 \
             AND (SELECT max(pk) FROM pragma_table_info(?1)) = 1) ORDER BY cid",
            &table,
        )?;
        for run in &columns {
            let there = format!("SELECT count(*) FROM \"{table}\" WHERE \"{run}\" = ?");
            if database.query_row(&there, [id], |row| row.get::<_, u32>(0))? == 0 {
                continue;
            }
            // Ids begin with a time: the copies are older.
            let value = |column: &String| match column == run {
                true => "unhex(printf('%016x%016x', ?2 - i, i * 2654435761))".to_owned(),
                false => format!("t.\"{column}\""),
            };
            let values: Vec<String> = columns.iter().map(value).collect();
            let copy = format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?3) \
                 INSERT INTO \"{table}\" (\"{}\") SELECT {} FROM n CROSS JOIN \"{table}\" AS t WHERE t.\"{run}\" = ?1",
                columns.join("\", \""),
                values.join(", ")
            );
            let mut first = [0; 8];
            first.copy_from_slice(&id[..8]);
            database.execute(&copy, rusqlite::params![id, i64::from_be_bytes(first), runs])?;
            break;
        }
    }
    database.execute_batch("COMMIT")?;
    Ok(file)
}

fn url(file: &tempfile::NamedTempFile) -> String {
    format!("sqlite://{}", file.path().display())
}

/// Declares queues and schedules, and starts one of everything.
async fn begin(engine: &Engine, more: u32) -> Result<(), windlass::Error> {
    engine.queue("cranes").concurrency(2).rate(60, Duration::from_secs(60)).await?;
    engine.queue("signals").concurrency(50).await?;
    engine
        .schedule("nightly")
        .cron("30 2 * * mon-fri")
        .timezone("Europe/Paris")
        .workflow(survey::workflow(), "the fleet".to_owned())
        .await?;
    engine
        .schedule("bell")
        .every(Duration::from_secs(10))
        .queue("signals")
        .workflow(signal::workflow(), 8)
        .await?;
    engine
        .schedule("tides")
        .every(Duration::from_secs(2))
        .backoff(Backoff::default().trip_after(2))
        .workflow(tide_table::workflow(), ())
        .await?;
    if more > 0 {
        engine.start_many(signal::workflow(), 1..=more).tag("many").queue("signals").await?;
    }
    for (name, crates) in [("Vasa", 12), ("Cutty Sark", 12), ("Batavia", 6)] {
        let ship = Ship { name: name.into(), crates, ..Ship::default() };
        let start = engine.start(manifest::workflow(), ship).key(format!("ship-{name}"));
        start.tag("north").context(serde_json::json!({"insured": name == "Batavia"})).await?;
    }
    for name in ["Endeavour", "Beagle", "Santa María"] {
        engine.start(berth::workflow(), name.to_owned()).key(format!("berth-{name}")).tag("quay").await?;
    }
    for cargo in [300, 950] {
        engine.start(Captain::workflow(), Log { cargo, miles: 0 }).tag("north").await?;
    }
    Ok(())
}

/// Goes on as a harbour does.
async fn trade(engine: &Engine) -> Result<(), windlass::Error> {
    for tick in 0_u32.. {
        engine.start(signal::workflow(), tick).queue("signals").tag("flag").await?;
        if tick % 3 == 0 {
            engine
                .start(unload::workflow(), tick)
                .queue("cranes")
                .queue_key(format!("quay-{}", tick % 9))
                .await?;
        }
        if tick % 20 == 10 {
            let name = format!("Lugger {tick}");
            engine
                .start(manifest::workflow(), Ship { name, crates: 4 + tick % 9, ..Ship::default() })
                .tag("south")
                .await?;
        }
        sleep(Duration::from_millis(1_100)).await;
    }
    Ok(())
}

/// What the command line asks for.
struct Wanted {
    port: u16,
    runs: u32,
    past: u32,
    prefix: String,
    also: Vec<String>,
}

impl Wanted {
    fn read() -> Result<Self, Box<dyn std::error::Error>> {
        let mut words = std::env::args().skip(1);
        let mut said = HashMap::new();
        let mut also = Vec::new();
        while let Some(word) = words.next() {
            match word.strip_prefix("--") {
                Some(name @ ("empty" | "keys" | "still")) => also.push(name.to_owned()),
                Some(name @ ("port" | "runs" | "past" | "prefix")) => {
                    let value = words.next().ok_or_else(|| format!("--{name} wants a value"))?;
                    said.insert(name.to_owned(), value);
                }
                _ => return Err(format!("`{word}` is not understood").into()),
            }
        }
        let number = |name| said.get(name).map_or("0", String::as_str);
        Ok(Self {
            port: number("port").parse()?,
            runs: number("runs").parse()?,
            past: number("past").parse()?,
            prefix: said.get("prefix").cloned().unwrap_or_default(),
            also,
        })
    }

    fn has(&self, word: &str) -> bool {
        self.also.iter().any(|said| said == word)
    }
}
