//! A small pipeline that survives being interrupted.
//!
//! It reads a CSV file, cleans it, fetches exchange rates from a service that is down at first, enriches the users
//! a few at a time, and loads them into a table of a database of its own. Stop it half-way, with Ctrl-C or with
//! `kill -9`, and start it again: it goes on where it stopped.
//!
//! ```sh
//! cargo run --example etl              # --fresh begins anew, --fast does not dawdle, --dir DIR chooses the place
//! ```

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use windlass::{RunState, RunStatus, StepKind, TaskState, Update, prelude::*};

/// The same key finds the same run, in this process and in the next.
const KEY: &str = "users.csv";
const CSV: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/users.csv");

#[derive(Clone, Debug, Serialize, Deserialize)]
struct User {
    id: u32,
    name: String,
    email: String,
    country: String,
    currency: String,
    spent: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    user: User,
    euros: f64,
    segment: String,
}

/// How slow the imaginary services are.
struct Services {
    delay: Duration,
}

/// How many users this process has enriched, to show that a second one does only what is left.
static ENRICHED: AtomicUsize = AtomicUsize::new(0);

/// The program's own database, which knows nothing of Windlass.
struct Warehouse {
    db: Mutex<Connection>,
    rejected: PathBuf,
}

#[workflow(output = load, description = "Loads users from a CSV file into a table.")]
mod etl {
    use super::*;

    /// A plain function: it runs on the blocking pool.
    #[task]
    pub fn extract(input: &str) -> Result<Vec<String>> {
        let text = fs::read_to_string(input)?;
        Ok(text.lines().skip(1).map(str::to_owned).collect())
    }

    /// Keeps what can be used, and notes the rest in the run's context.
    #[task]
    pub async fn clean(extract: &[String], context: &mut Context) -> Result<Vec<User>> {
        let (mut users, mut rejected) = (Vec::new(), Vec::new());
        for line in extract {
            match parse(line) {
                Ok(user) => users.push(user),
                Err(why) => rejected.push(format!("{line},{why}")),
            }
        }
        context.set("rejected", rejected.len())?;
        context.set("rejected_lines", rejected)?;
        Ok(users)
    }

    /// The service is down for the first two attempts, so the third one gets the rates.
    #[task(retry(attempts = 5, delay = "300ms", on = transient), timeout = "10s")]
    pub async fn rates(cx: &Cx, services: Res<Services>) -> Result<BTreeMap<String, f64>> {
        tokio::time::sleep(services.delay).await;
        if cx.attempt() < 3 {
            return Err("the rate service answered with status 503".into());
        }
        let rates =
            [("EUR", 1.0), ("SEK", 0.09), ("GBP", 1.17), ("USD", 0.91), ("JPY", 0.0062), ("BRL", 0.18)];
        Ok(rates.map(|(currency, euros)| (currency.to_owned(), euros)).into())
    }

    /// One durable instance per user. What is recorded is never done again.
    #[task(for_each = clean, limit = 4)]
    pub async fn enrich(item: &User, rates: &BTreeMap<String, f64>, services: Res<Services>) -> Result<Row> {
        ENRICHED.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(services.delay).await;
        let unknown = || Failure::permanent(format!("there is no rate for {}", item.currency));
        let euros = item.spent * rates.get(&item.currency).ok_or_else(unknown)?;
        let segment = if euros > 500.0 { "gold" } else { "standard" };
        Ok(Row { user: item.clone(), euros, segment: segment.to_owned() })
    }

    /// Runs only if there is something to write.
    #[task(after = [clean], when = context("rejected") > 0)]
    pub fn keep_rejected(context: &Context, warehouse: Res<Warehouse>) -> Result<()> {
        let lines: Vec<String> = context.get("rejected_lines")?;
        fs::write(&warehouse.rejected, lines.join("\n") + "\n")?;
        Ok(())
    }

    /// If the process dies after its commit and before ours, this runs again. So it replaces what is there.
    #[task]
    pub fn load(enrich: &[Row], warehouse: Res<Warehouse>) -> Result<usize> {
        let mut db = warehouse.db();
        let change = db.transaction()?;
        for Row { user, euros, segment } in enrich {
            change.execute(
                "INSERT OR REPLACE INTO users (id, name, email, country, euros, segment) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                (user.id, &user.name, &user.email, &user.country, euros, segment),
            )?;
        }
        change.commit()?;
        Ok(enrich.len())
    }
}

/// Reads one line of the file, whose fields contain no commas and no quotes.
fn parse(line: &str) -> Result<User, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [id, name, email, country, currency, spent] = fields[..] else {
        return Err(format!("{} fields in place of 6", fields.len()));
    };
    if name.is_empty() {
        return Err("no name".into());
    }
    if !email.contains('@') {
        return Err("no e-mail address".into());
    }
    if country.len() != 2 || !country.chars().all(|letter| letter.is_ascii_alphabetic()) {
        return Err(format!("no such country: {country}"));
    }
    Ok(User {
        id: id.parse().map_err(|_| format!("not an id: {id}"))?,
        name: name.to_owned(),
        email: email.to_lowercase(),
        country: country.to_uppercase(),
        currency: currency.to_owned(),
        spent: spent.parse().map_err(|_| format!("not an amount: {spent}"))?,
    })
}

impl Warehouse {
    fn open(dir: &Path) -> Result<Self, rusqlite::Error> {
        let db = Connection::open(dir.join("warehouse.db"))?;
        db.execute(
            "CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, name TEXT, email TEXT, country TEXT, euros REAL, segment TEXT)",
            (),
        )?;
        Ok(Self { db: Mutex::new(db), rejected: dir.join("rejected.csv") })
    }

    fn db(&self) -> MutexGuard<'_, Connection> {
        // A transaction of a task that panicked was rolled back when it was dropped.
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The three countries that spent most.
    fn best(&self) -> Result<Vec<(String, u32, f64)>, rusqlite::Error> {
        let db = self.db();
        let mut query = db.prepare(
            "SELECT country, COUNT(*), SUM(euros) FROM users GROUP BY country ORDER BY SUM(euros) DESC LIMIT 3",
        )?;
        query.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("etl: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<ExitCode> {
    let Arguments { dir, fresh, fast } = Arguments::read()?;
    fs::create_dir_all(&dir)?;
    if fresh {
        begin_anew(&dir)?;
    }
    let delay = Duration::from_millis(if fast { 2 } else { 120 });
    let engine = Engine::open(format!("sqlite:{}", dir.join("etl.db").display()))
        .resource(Services { delay })
        .resource(Warehouse::open(&dir)?)
        .workflow(etl::workflow())
        .launch()
        .await?;

    println!("records: {}", dir.join("etl.db").display());
    println!("users:   {}", dir.join("warehouse.db").display());
    let mut terminal = Terminal::new();
    let run = match engine.run_by_key(&etl::workflow(), KEY).await? {
        Some(mut run) => {
            let status = run.status().await?;
            if status.state == RunState::Completed {
                println!(
                    "run {} is done already; `cargo run --example etl -- --fresh` begins anew",
                    run.id()
                );
                engine.stop().await?;
                return Ok(ExitCode::SUCCESS);
            }
            match status.task("enrich").and_then(|task| task.items) {
                Some((done, all)) => {
                    println!("resuming run {}: {done} of {all} users already done", run.id())
                }
                None => println!("resuming run {}: no user was done yet", run.id()),
            }
            terminal.skip_over(&status);
            if status.state.is_terminal() {
                println!("it ended as {} last time, so it is retried", status.state);
                run.retry().await?;
            }
            run
        }
        None => {
            let run = engine.start(etl::workflow(), CSV.to_owned()).key(KEY).await?;
            println!("starting run {}; interrupt it and start it again to see it go on", run.id());
            run
        }
    };

    let mut updates = run.watch();
    // One future for the whole loop, so that no signal falls between two rounds.
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    loop {
        tokio::select! {
            update = updates.next() => match update {
                Some(update) => terminal.show(&run, update?).await?,
                None => break,
            },
            _ = &mut interrupt => {
                terminal.line("!", "stopping: what runs may finish; Ctrl-C again stops at once");
                tokio::select! {
                    stopped = engine.stop() => stopped?,
                    _ = tokio::signal::ctrl_c() => engine.stop_now().await?,
                }
                println!("stopped; the same command goes on from here");
                return Ok(ExitCode::from(130));
            }
        }
    }
    let loaded = run.await?;
    engine.stop().await?;
    println!(
        "done: {loaded} users are in the table; this process enriched {}",
        ENRICHED.load(Ordering::Relaxed)
    );
    for (country, users, euros) in Warehouse::open(&dir)?.best()? {
        println!("  {country}  {users:>3} users  {euros:>9.2} €");
    }
    Ok(ExitCode::SUCCESS)
}

struct Arguments {
    dir: PathBuf,
    fresh: bool,
    fast: bool,
}

impl Arguments {
    fn read() -> Result<Self> {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut read = Self {
            dir: package.parent().unwrap_or(package).join("target/etl-example"),
            fresh: false,
            fast: false,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--fresh" => read.fresh = true,
                "--fast" => read.fast = true,
                "--dir" => read.dir = arguments.next().ok_or("--dir needs a directory")?.into(),
                other => {
                    return Err(format!("`{other}` is not known: --fresh, --fast and --dir DIR are").into());
                }
            }
        }
        Ok(read)
    }
}

/// Removes what earlier starts left, and nothing else.
fn begin_anew(dir: &Path) -> Result<()> {
    for name in ["etl.db", "etl.db-wal", "etl.db-shm", "warehouse.db", "rejected.csv", "etl.db-locks"] {
        let path = dir.join(name);
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        } else if path.exists() {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Shows what happens to the run, in place where the terminal can, and line by line elsewhere.
struct Terminal {
    live: bool,
    colour: bool,
    /// Whether the last line can still change.
    open: bool,
    /// What earlier processes have done.
    seen: HashSet<(String, u32)>,
    enriched: usize,
    users: usize,
}

impl Terminal {
    fn new() -> Self {
        let live = std::io::stdout().is_terminal();
        let colour = live && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { live, colour, open: false, seen: HashSet::new(), enriched: 0, users: 0 }
    }

    /// Leaves out what happened before this process began.
    fn skip_over(&mut self, status: &RunStatus) {
        for task in &status.tasks {
            self.seen.extend(task.attempts.iter().map(|attempt| (attempt.step.to_string(), attempt.number)));
            if task.state == TaskState::Completed {
                self.line("=", &format!("{} was done before", task.name));
            }
        }
        (self.enriched, self.users) = status.task("enrich").and_then(|task| task.items).unwrap_or_default();
    }

    async fn show(&mut self, run: &Run<usize>, update: Update) -> Result<()> {
        if let Update::State(RunState::Blocked) = update {
            let wait = run.status().await?.wait;
            let why = wait.and_then(|wait| wait.reason).unwrap_or_default();
            self.line("!", &format!("this code cannot continue the run: {why}; --fresh begins anew"));
        }
        let Update::Step { name, attempt, kind, started_at, at, failure, .. } = update else { return Ok(()) };
        if self.seen.contains(&(name.to_string(), attempt)) {
            return Ok(());
        }
        let why = failure.map(|failure| failure.to_string()).unwrap_or_default();
        match kind {
            StepKind::Completed if name.starts_with("enrich[") => {
                if self.users == 0 {
                    let status = run.status().await?;
                    self.users = status.task("enrich").and_then(|task| task.items).unwrap_or_default().1;
                }
                self.enriched += 1;
                self.bar();
            }
            StepKind::Completed => {
                self.line("+", &format!("{name} ({} ms)", at.since(started_at).as_millis()))
            }
            StepKind::Retrying => {
                self.line("~", &format!("{name}: attempt {attempt} failed: {why}; trying again"))
            }
            StepKind::Failed => self.line("!", &format!("{name} failed: {why}")),
            StepKind::Skipped => self.line("-", &format!("{name} was not needed")),
            StepKind::Cancelled => self.line("!", &format!("{name} was stopped")),
            // After a crash the beginning of an attempt is recorded too, and is of no interest here.
            StepKind::Started => {}
        }
        Ok(())
    }

    fn bar(&mut self) {
        let (done, all) = (self.enriched, self.users.max(1));
        if self.live {
            let full = done * 30 / all;
            print!(
                "\r  . enrich [{}{}] {done} of {all}",
                "#".repeat(full),
                " ".repeat(30_usize.saturating_sub(full))
            );
            self.open = true;
            // A terminal that is gone is noticed by the next println.
            std::io::stdout().flush().ok();
        } else if done % 20 == 0 || done == all {
            println!("  . enrich: {done} of {all}");
        }
    }

    fn line(&mut self, mark: &str, text: &str) {
        if std::mem::take(&mut self.open) {
            println!();
        }
        let colour = match mark {
            "+" | "=" => 32,
            "~" | "-" => 33,
            _ => 31,
        };
        if self.colour {
            println!("  \x1b[{colour}m{mark}\x1b[0m {text}");
        } else {
            println!("  {mark} {text}");
        }
    }
}
