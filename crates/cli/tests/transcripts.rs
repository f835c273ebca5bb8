//! What people type, and what they see.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
};

use windlass::prelude::*;

#[workflow(output = post)]
mod letters {
    use super::*;

    #[task]
    pub async fn write(input: String) -> Result<String> {
        Ok(input)
    }

    #[task]
    pub async fn post(write: &str) -> Result<usize> {
        match write {
            "fail" => Err(Failure::permanent("the box is full")),
            letter => Ok(letter.len()),
        }
    }
}

/// A database with something in it, and nobody who runs it.
struct Desk {
    folder: tempfile::TempDir,
    /// What the runs are called in a transcript.
    names: HashMap<String, String>,
}

impl Desk {
    async fn furnished() -> Result<Self> {
        let desk = Self { folder: tempfile::tempdir()?, names: HashMap::new() };
        let engine = Engine::open(desk.url()).workflow(letters::workflow()).launch().await?;
        let good = engine.start(letters::workflow(), "hello".to_owned()).key("k1").await?;
        let bad = engine.start(letters::workflow(), "fail".to_owned()).key("k2").await?;
        let names =
            [(good.id().to_string(), "GOOD".to_owned()), (bad.id().to_string(), "BAD".to_owned())].into();
        good.await?;
        bad.await.unwrap_err();
        engine.queue("mail").concurrency(5).await?;
        engine.schedule("nightly").cron("0 2 * * *").workflow(letters::workflow(), "x".to_owned()).await?;
        engine.stop().await?;
        Ok(Self { names, ..desk })
    }

    fn url(&self) -> String {
        format!("sqlite://{}", self.file().display())
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("app.db")
    }

    /// What a command prints, and its exit code if that is not zero. Runs have their names, other ids and times none, and
    /// columns are one blank apart.
    fn see(&self, typed: &str) -> String {
        let run = |name: &str| self.names.iter().find(|(_, known)| *known == name).map(|(id, _)| id.clone());
        let arguments = typed.split_whitespace().map(|word| run(word).unwrap_or_else(|| word.to_owned()));
        let output = windlass().args(arguments).env("WINDLASS_URL", self.url()).output().unwrap();
        let mut seen = self.plain(&String::from_utf8(output.stdout).unwrap());
        seen += &self.plain(&String::from_utf8(output.stderr).unwrap());
        match output.status.code() {
            Some(0) => seen,
            code => format!("{seen}[{}]\n", code.unwrap()),
        }
    }

    fn plain(&self, text: &str) -> String {
        let word = |word: &str| {
            let bare = word.trim_end_matches([',', ':', ')']);
            let tail = &word[bare.len()..];
            match self.names.get(bare) {
                Some(name) => format!("{name}{tail}"),
                None if bare.len() == 36 && bare.matches('-').count() == 4 => format!("ID{tail}"),
                None if bare.starts_with("20") && bare.contains('T') && bare.ends_with('Z') => {
                    format!("TIME{tail}")
                }
                None => word.to_owned(),
            }
        };
        let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ") + "\n";
        text.lines().map(line).collect()
    }
}

fn windlass() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.env_remove("WINDLASS_URL");
    command
}

/// Has somebody type what follows each `$ windlass`, and compares what is seen.
fn check(desk: &Desk, transcript: &str) {
    let lines: Vec<&str> = transcript.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let seen = lines.iter().filter_map(|line| line.strip_prefix("$ windlass ")).map(|typed| {
        let seen = desk.see(typed);
        let seen: Vec<&str> = seen.lines().filter(|line| !line.is_empty()).collect();
        format!("$ windlass {typed}\n{}\n", seen.join("\n"))
    });
    let (seen, expected): (String, String) = (seen.collect(), lines.join("\n") + "\n");
    assert!(seen == expected, "expected:\n{expected}\nseen:\n{seen}");
}

#[tokio::test]
async fn runs_are_found_and_steered() -> Result<()> {
    check(
        &Desk::furnished().await?,
        "
        $ windlass runs list
        RUN WORKFLOW STATE CREATED KEY WAITS FOR
        BAD letters failed TIME k2 -
        GOOD letters completed TIME k1 -
        $ windlass runs list --state completed --limit 1
        RUN WORKFLOW STATE CREATED KEY WAITS FOR
        GOOD letters completed TIME k1 -
        $ windlass runs list --limit 1
        RUN WORKFLOW STATE CREATED KEY WAITS FOR
        BAD letters failed TIME k2 -
        more: --after BAD
        $ windlass runs list --workflow nothing
        no run fits
        $ windlass runs list --state fialed
        windlass: `fialed` is not a state: there are pending, running, suspended, paused, blocked, undoing, completed, failed, cancelled, abandoned (malformed_query)
        [1]
        $ windlass runs show 7
        windlass: `7` is not the id of a run (malformed_id)
        [1]
        $ windlass runs show 00000000-0000-7000-8000-000000000000
        windlass: there is no run ID: it was never started here, or its record was removed
        [3]
        $ windlass runs watch GOOD
        TIME write completed, attempt 1
        TIME post completed, attempt 1
        TIME the run is completed
        $ windlass runs watch BAD
        TIME write completed, attempt 1
        TIME post failed, attempt 1: the box is full
        TIME the run is failed
        windlass: the run ended as failed
        [5]
        $ windlass runs retry GOOD
        windlass: run GOOD cannot be retried: it is Completed (not_retryable)
        [1]
        $ windlass runs retry BAD
        it runs again
        $ windlass runs pause BAD
        it stops at the next boundary
        $ windlass runs resume BAD
        it goes on
        $ windlass runs cancel GOOD
        it had ended already, as completed
        $ windlass runs cancel BAD --reason enough
        it will end as cancelled, unless it ends by itself first
        $ windlass runs fork GOOD post
        ID
        $ windlass runs fork GOOD pots
        windlass: workflow `letters` has no task `pots`; did you mean `post`? (unknown_task)
        [1]
        ",
    );
    Ok(())
}

#[tokio::test]
async fn a_run_is_shown() -> Result<()> {
    let desk = Desk::furnished().await?;
    let shown = desk.see("runs show BAD").replace(letters::workflow().version(), "VERSION");
    let expected = "\
letters BAD failed
key: k2
queue: default
priority: 5
version: VERSION
created at: TIME
ended at: TIME
run BAD (letters) failed: post: the box is full

TASK STATE ATTEMPTS ERROR
write completed 1 -
post failed 1 the box is full
";
    assert_eq!(shown, expected);
    Ok(())
}

#[tokio::test]
async fn schedules_queues_and_processes_are_seen_and_steered() -> Result<()> {
    check(
        &Desk::furnished().await?,
        "
        $ windlass schedules pause nightly --note holidays
        it starts nothing more by itself
        $ windlass schedules list
        SCHEDULE WORKFLOW WHEN STATE NEXT RUN
        nightly letters every day at 02:00 in UTC paused -
        $ windlass schedules resume nightly
        it goes on
        $ windlass schedules trigger nightly --id w1
        a run is started under the key nightly!w1
        $ windlass schedules show nobody
        windlass: there is no schedule `nobody`
        [3]
        $ windlass queues list
        QUEUE STATE WAITING RUNNING LIMITS
        mail open 0 0 concurrency 5
        $ windlass queues pause mail
        nothing of it begins until it is resumed
        $ windlass queues list
        QUEUE STATE WAITING RUNNING LIMITS
        mail paused 0 0 concurrency 5
        $ windlass queues resume mail
        its runs may begin
        $ windlass nodes
        no process runs an engine on this database
        $ windlass migrate
        the database is ready
        ",
    );
    Ok(())
}

#[tokio::test]
async fn a_workflow_is_drawn_without_its_code() -> Result<()> {
    check(
        &Desk::furnished().await?,
        "
        $ windlass graph letters
        flowchart TD
        t0[\"write\"]
        t1([\"post\"])
        t0 --> t1
        $ windlass graph letters --format dot
        digraph \"letters\" {
        rankdir=TB;
        node [shape=box];
        t0 [label=\"write\"];
        t1 [label=\"post\", style=bold];
        t0 -> t1;
        }
        $ windlass graph leters
        windlass: no engine has brought workflow `leters`; did you mean `letters`?
        [3]
        ",
    );
    Ok(())
}

#[tokio::test]
async fn everything_is_json_for_programs() -> Result<()> {
    let desk = Desk::furnished().await?;
    for typed in [
        "runs list",
        "runs show GOOD",
        "runs retry BAD",
        "runs watch GOOD",
        "runs fork GOOD post",
        "schedules list",
        "schedules show nightly",
        "schedules trigger nightly",
        "queues list",
        "queues pause mail",
        "keys create k --role operator",
        "keys list",
        "keys revoke k",
        "nodes",
        "graph letters",
        "migrate",
    ] {
        let seen = desk.see(&format!("--json {typed}"));
        assert!(!seen.is_empty(), "{typed}");
        for line in seen.lines() {
            let read: Result<serde_json::Value, _> = serde_json::from_str(line);
            assert!(read.is_ok_and(|read| read.is_object()), "{typed}: {line}");
        }
        assert!(!seen.contains('\x1b'), "{typed}");
    }
    Ok(())
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked() -> Result<()> {
    let desk = Desk::furnished().await?;
    check(
        &desk,
        "
        $ windlass keys list
        there is no key: `windlass keys create NAME --role viewer`
        ",
    );
    let key = desk.see("keys create grafana --role viewer --days 90");
    assert!(key.starts_with("windlass_") && key.trim().len() == 73, "{key}");
    check(
        &desk,
        "
        $ windlass keys create grafana --role admin
        windlass: there is a key `grafana` already: revoke it first, or choose another name (key_name_taken)
        [1]
        $ windlass keys list
        KEY ROLE CREATED EXPIRES LAST USED
        grafana viewer TIME TIME -
        $ windlass keys revoke grafana
        after two seconds it opens nothing
        $ windlass keys revoke grafana
        windlass: there is no key `grafana`
        [3]
        ",
    );
    Ok(())
}

#[test]
fn a_database_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("typo.db");
    let output =
        windlass().args(["--url", &format!("sqlite://{}", file.display()), "runs", "list"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(!Path::new(&file).exists());
}

#[test]
fn what_is_not_understood_is_an_error_of_its_own() {
    let code = |arguments: &[&str]| windlass().args(arguments).output().unwrap().status.code();
    assert_eq!(code(&["rnus"]), Some(2));
    assert_eq!(code(&["runs", "list"]), Some(2), "no database is named");
    assert_eq!(code(&["graph", "x", "--format", "png", "--url", "sqlite::memory:"]), Some(2));
    assert_eq!(code(&["serve", "--url", "sqlite::memory:", "--address", "0.0.0.0:0"]), Some(1));
    assert_eq!(code(&["--help"]), Some(0));
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = windlass().args(["completions", shell]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("schedules"), "{shell}: {text}");
    }
}

#[tokio::test]
async fn the_api_is_served_to_this_machine() -> Result<()> {
    let desk = Desk::furnished().await?;
    let mut serving = windlass();
    serving.args(["serve", "--address", "127.0.0.1:0", "--url", &desk.url()]).stdout(Stdio::piped());
    let mut serving = serving.spawn()?;
    let mut line = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut line)?;
    let address = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/api/v1/")).unwrap();
    let mut wire = TcpStream::connect(address)?;
    write!(wire, "GET /api/v1/runs HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    wire.read_to_string(&mut answer)?;
    serving.kill()?;
    serving.wait()?;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"k2\""), "{answer}");
    Ok(())
}

/// Asks a server of this machine, which may say no.
fn ask(address: &str, method: &str, path: &str, body: &str) -> String {
    let mut wire = TcpStream::connect(address).unwrap();
    write!(
        wire,
        "{method} /api/v1{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    wire.read_to_string(&mut answer).unwrap();
    answer
}

/// Without somebody who approves it, the first large order of the demo waits for ten minutes.
#[test]
fn a_visitor_of_the_demo_approves_an_order_and_nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = windlass();
    demo.args(["demo", "--json", "--fast", "--port", "0"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped());
    let mut demo = demo.spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let mut said = || serde_json::from_str::<serde_json::Value>(&lines.next().unwrap().unwrap()).unwrap();
    let address =
        said()["url"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let mut run_that = |fits: &dyn Fn(&serde_json::Value) -> bool| loop {
        let run = said()["run"].clone();
        if fits(&run) {
            return run;
        }
    };
    let waiting = run_that(&|run| run["workflow"] == "checkout" && run["ended_at"].is_null());
    assert!(waiting["waits_for"].as_str().unwrap().starts_with("the event `approved`"), "{waiting}");
    let run = waiting["id"].as_str().unwrap();
    let answer =
        ask(&address, "POST", &format!("/runs/{run}/events"), r#"{"name": "approved", "payload": true}"#);
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    let ended = run_that(&|ended| ended["id"] == run && !ended["ended_at"].is_null());
    assert_eq!(ended["state"], "completed", "{ended}");

    interrupt(&demo);
    assert!(demo.wait().unwrap().success());
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the demo has removed its files");
}

/// What Ctrl-C does.
fn interrupt(child: &std::process::Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}
