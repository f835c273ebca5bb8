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

    fn see_as_it_is(&self, typed: &str) -> String {
        let output =
            windlass().args(typed.split_whitespace()).env("WINDLASS_URL", self.url()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
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
    command.env_remove("WINDLASS_URL").env_remove("WINDLASS_KEY");
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
async fn a_run_is_started_told_and_ended() -> Result<()> {
    let mut desk = Desk::furnished().await?;
    let started =
        desk.see_as_it_is("runs start letters \"hello\" --key k3 --tag eu --priority 2 --delay 600");
    desk.names.insert(started.trim().to_owned(), "NEW".to_owned());
    check(
        &desk,
        "
        $ windlass runs list --tag eu
        RUN WORKFLOW STATE CREATED KEY WAITS FOR
        NEW letters pending TIME k3 TIME
        $ windlass runs send NEW approved {\"by\":\"Ada\"} --key once
        it is sent
        $ windlass runs send NEW approved Ada
        error: invalid value 'Ada' for '[PAYLOAD]': not JSON (expected value at line 1 column 1): a text has quotes, as in '\"text\"'
        For more information, try '--help'.
        [2]
        $ windlass runs check
        RUN WORKFLOW STATE FIT WHY
        NEW letters pending fits it has not begun
        $ windlass runs terminate NEW --reason enough
        it ends at once
        $ windlass runs terminate NEW
        it had ended already, as cancelled
        $ windlass runs check --workflow letters
        no run is in flight
        $ windlass runs discard NEW
        its records are gone
        $ windlass runs start leters 1
        windlass: no engine has brought workflow `leters`; did you mean `letters`? (unknown_workflow)
        [1]
        ",
    );
    Ok(())
}

#[tokio::test]
async fn many_runs_are_acted_on_once_somebody_has_confirmed_it() -> Result<()> {
    check(
        &Desk::furnished().await?,
        "
        $ windlass runs retry --workflow letters --dry-run
        1 run would be opened again
        $ windlass runs retry --workflow letters
        windlass: nothing was done: say --yes when you mean it
        [1]
        $ windlass runs retry --state failed --yes
        1 run fit
        1 opened again
        $ windlass runs pause --all --yes
        1 run fit
        1 paused
        $ windlass runs resume --all -y
        1 run fit
        1 resumed
        $ windlass runs cancel --key k2 --yes --reason enough
        1 run fit
        1 cancelled
        $ windlass runs discard --key nothing --yes
        0 discarded
        $ windlass runs cancel
        windlass: which runs? Name one, or say conditions such as --workflow, or --all
        [2]
        $ windlass runs cancel GOOD --all
        windlass: name one run, or conditions for many, but not both
        [2]
        ",
    );
    Ok(())
}

#[tokio::test]
async fn schedules_are_reset_made_up_for_and_removed() -> Result<()> {
    check(
        &Desk::furnished().await?,
        "
        $ windlass schedules backfill nightly --from 2026-03-01T00:00:00Z --to 2026-03-03T00:00:00Z --dry-run
        runs would be started for 2 times
        TIME
        TIME
        $ windlass schedules backfill nightly --from yesterday --to 2026-03-03T00:00:00Z
        windlass: `from` is `yesterday`, and not a time as `2026-03-01T12:30:00Z` (malformed_time)
        [1]
        $ windlass schedules reset nightly
        its failures are forgotten
        $ windlass schedules remove nightly
        it is gone; its runs stay
        $ windlass schedules list
        no schedule was declared
        $ windlass triggers list
        no engine was given a trigger
        $ windlass triggers ask new_file
        windlass: there is no trigger `new_file`: no engine was given it so far
        [3]
        ",
    );
    Ok(())
}

#[tokio::test]
async fn queues_get_limits_and_lose_them() -> Result<()> {
    check(
        &Desk::furnished().await?,
        "
        $ windlass queues set mail --concurrency 2 --rate 5/60 --hold
        the queue is updated
        $ windlass queues list
        QUEUE STATE WAITING RUNNING LIMITS
        mail open 0 0 concurrency 2, hold true, rate 5 in 60 s
        $ windlass queues set mail --rate many
        error: invalid value 'many' for '--rate <COUNT/SECONDS>': say how many in how many seconds: 100/1
        For more information, try '--help'.
        [2]
        $ windlass queues remove mail
        it has no limits any more, and is not paused
        $ windlass queues list
        no queue was declared: none has limits
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
        $ windlass migrate --check
        windlass: whoever opens an SQLite file brings it up to date, so there is nothing to check: `windlass migrate` does it, and a copy of the file is a way back
        [2]
        $ windlass doctor
        wrong no process runs an engine on this database: start one
        notice 1 ended as failed: `windlass runs list --state failed` shows them, `windlass runs retry --state failed` opens them again
        windlass: 1 thing is wrong
        [6]
        $ windlass top
        windlass: this needs a terminal: `windlass runs list` and `doctor` do without
        [2]
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
        ┌───────┐
        │ write │
        └───┬───┘
        ▼
        ┌─────────┐
        │ (post) │
        └─────────┘
        $ windlass graph letters --format mermaid
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
        "triggers list",
        "runs check",
        "runs cancel --state failed --dry-run",
        "runs resume --all --yes",
        "runs start letters 1",
        "schedules backfill nightly --from 2026-03-01T00:00:00Z --to 2026-03-03T00:00:00Z --dry-run",
        "queues set mail --concurrency 3",
        "queues remove mail",
        "migrate --print",
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
fn what_makes_a_schema_is_printed_without_a_database() {
    let output = windlass().args(["migrate", "--print", "--schema", "mine"]).output().unwrap();
    let sql = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && sql.starts_with("CREATE SCHEMA \"mine\";"), "{sql}");
}

#[tokio::test]
async fn a_postgresql_database_is_checked_made_and_examined() -> Result<()> {
    let cluster = windlass_cluster::Cluster::start(&["fsync = off"])?;
    let see = |typed: &str| {
        let output =
            windlass().args(typed.split_whitespace()).env("WINDLASS_URL", cluster.url()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, said) = see("migrate --check");
    assert!(code == Some(4) && said.contains("windlass migrate"), "{code:?}: {said}");
    assert_eq!(see("migrate"), (Some(0), "the database is ready\n".to_owned()));
    let (code, said) = see("migrate --check");
    assert!(code == Some(0) && said.contains("nothing has to be done"), "{code:?}: {said}");
    let (code, said) = see("doctor");
    assert!(code == Some(6) && said.contains("PostgreSQL has fsync = off"), "{code:?}: {said}");
    assert!(!said.contains("clocks"), "{said}");
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
    assert_eq!(code(&["demo", "--url", "sqlite::memory:"]), Some(2), "a demo never plays where others work");
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
    let (mut serving, address) = serve(&desk, &[]);
    let answer = ask(&address, "GET", "/runs", "");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"k2\""), "{answer}");
    let answer = ask(&address, "GET", "/metrics", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let typed = |url: &str, typed: &str| desk.see(&format!("--url {url} {typed}"));
    let server = format!("http://{address}");
    for command in [
        "runs list",
        "runs show BAD",
        "runs watch GOOD",
        "runs list --state fialed",
        "schedules list",
        "graph letters",
    ] {
        assert_eq!(typed(&server, command), desk.see(command), "the server answers as the database does");
    }
    assert_eq!(
        typed(&format!("{server}/api/v1/"), "queues set mail --concurrency 7"),
        "the queue is updated\n"
    );
    let seen = typed(&format!("{server}/elsewhere"), "runs list");
    // The page answers there, whatever is asked.
    assert!(seen.contains("is not a Windlass server") && seen.ends_with("[4]\n"), "{seen}");
    let seen = typed(&server, "migrate");
    assert!(seen.contains("needs the database itself") && seen.ends_with("[2]\n"), "{seen}");
    serving.kill()?;
    serving.wait()?;
    let seen = typed(&server, "nodes");
    assert!(seen.contains("no server answers at") && seen.ends_with("[4]\n"), "{seen}");
    let seen = typed("http://", "nodes");
    assert!(seen.contains("is not the address of a server") && seen.ends_with("[2]\n"), "{seen}");
    Ok(())
}

/// A server of this machine, and where it listens.
fn serve(desk: &Desk, options: &[&str]) -> (std::process::Child, String) {
    let mut serving = windlass();
    serving.args(["serve", "--address", "127.0.0.1:0", "--url", &desk.url()]).args(options);
    let mut serving = serving.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/api/v1/")).unwrap();
    (serving, address.to_owned())
}

#[tokio::test]
async fn what_goes_wrong_is_json_where_json_is_asked_for() -> Result<()> {
    let desk = Desk::furnished().await?;
    let failed = |typed: &str| {
        let output =
            windlass().args(typed.split_whitespace()).env("WINDLASS_URL", desk.url()).output().unwrap();
        assert!(output.stdout.is_empty(), "{typed}");
        let said: serde_json::Value = serde_json::from_slice(&output.stderr).expect(typed);
        assert!(said["detail"].is_string() && said.get("hint").is_some(), "{typed}: {said}");
        (said["code"].as_str().unwrap().to_owned(), output.status.code().unwrap())
    };
    let nobody = "00000000-0000-7000-8000-000000000000";
    let retry =
        format!("--json runs retry {}", desk.names.iter().find(|(_, name)| *name == "GOOD").unwrap().0);
    for (typed, code, exit) in [
        (&*format!("--json runs show {nobody}"), "unknown_run", 3),
        ("runs show 7 --json", "malformed_id", 1),
        ("--json runs discard --all --reason x", "unconfirmed", 1),
        ("--json --url http:// nodes", "url", 2),
        ("--json --url sqlite:///nowhere/app.db nodes", "database", 4),
        ("--json nodess", "usage", 2),
        (&retry, "not_retryable", 1),
    ] {
        assert_eq!(failed(typed), (code.to_owned(), exit), "{typed}");
    }
    Ok(())
}

#[tokio::test]
async fn a_server_shows_no_more_of_payloads_than_it_is_told_to() -> Result<()> {
    let desk = Desk::furnished().await?;
    let input = r#"{"user":"ann","password":"hunter2","iban":"DE89"}"#;
    let id = desk.see_as_it_is(&format!("runs start letters {input} --context {{\"eu\":true}}"));
    for (options, shown) in [
        (&[] as &[&str], &["ann", "DE89"] as &[&str]),
        (&["--redact", "phone,IBAN"], &["ann"]),
        (&["--hide-payloads"], &[]),
    ] {
        let (mut serving, address) = serve(&desk, options);
        let answer = ask(&address, "GET", &format!("/runs/{}/document", id.trim()), "");
        serving.kill()?;
        serving.wait()?;
        assert_eq!(answer.contains(r#""eu":true"#), !options.contains(&"--hide-payloads"), "{answer}");
        let seen: Vec<&str> =
            ["ann", "DE89", "hunter2"].into_iter().filter(|value| answer.contains(value)).collect();
        assert_eq!(seen, shown, "{options:?}: {answer}");
    }
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

#[tokio::test]
async fn a_server_with_keys_lets_in_who_has_one() -> Result<()> {
    let desk = Desk::furnished().await?;
    let key = desk.see_as_it_is("keys create ann --role viewer");
    let (mut serving, address) = serve(&desk, &[]);
    let server = format!("http://{address}/");
    let with = |key: &str, typed: &str| desk.see(&format!("--url {server} --api-key {key} {typed}"));
    assert_eq!(with(key.trim(), "runs list"), desk.see("runs list"));
    let seen = with("windlass_wrong", "runs list");
    assert!(
        seen.contains("WINDLASS_KEY or --api-key says which key is yours") && seen.ends_with("[1]\n"),
        "{seen}"
    );
    let seen = with(key.trim(), "runs retry BAD");
    assert!(seen.ends_with("[1]\n"), "a viewer changes nothing: {seen}");
    serving.kill()?;
    serving.wait()?;
    Ok(())
}

#[tokio::test]
async fn what_is_no_windlass_server_is_recognised() -> Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let other = std::thread::spawn(move || {
        let (mut wire, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(wire.try_clone().unwrap()).read_line(&mut line).unwrap();
        wire.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>").unwrap();
    });
    let output = windlass().args(["--url", &format!("http://{address}/page"), "nodes"]).output()?;
    other.join().unwrap();
    let said = String::from_utf8(output.stderr)?;
    assert!(said.contains("is not a Windlass server"), "{said}");
    assert_eq!(output.status.code(), Some(4));
    Ok(())
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
    // What was logged is written a little later, while the shop goes on.
    while !ask(&address, "GET", &format!("/runs/{run}/logs"), "").contains("\"message\":\"charging\"") {
        run_that(&|_| true);
    }
    let asked = ask(&address, "GET", "/workflows/bank_account", "");
    assert!(asked.contains(r#""title":"Supplier""#), "{asked}");
    // A payout fails until somebody notes the account.
    let known = r#"{"workflow": "bank_account", "input": "Finca Aurora"}"#;
    let failed = ask(&address, "GET", "/runs?workflow=payout&state=failed&limit=1", "");
    let failed: serde_json::Value = serde_json::from_str(failed.split_once("\r\n\r\n").unwrap().1).unwrap();
    let payout = failed["runs"][0]["id"].as_str().unwrap();
    assert!(ask(&address, "POST", "/runs", known).starts_with("HTTP/1.1 201"));
    run_that(&|run| run["workflow"] == "bank_account" && run["state"] == "completed");
    let answer = ask(&address, "POST", &format!("/runs/{payout}/retry"), "");
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    run_that(&|run| run["id"] == payout && run["generation"] == 2 && !run["ended_at"].is_null());
    let shown = ask(&address, "GET", &format!("/runs/{payout}"), "");
    assert!(shown.contains(r#"{"name":"account","state":"completed""#), "{shown}");
    let metrics = ask(&address, "GET", "/metrics", "");
    assert!(metrics.contains("windlass_attempts_total{"), "{metrics}");

    interrupt(&demo);
    assert!(demo.wait().unwrap().success());
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the demo has removed its files");
}

/// What Ctrl-C does.
fn interrupt(child: &std::process::Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}
