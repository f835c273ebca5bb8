//! What is wrong with a database and those who work on it, and what to do.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use windlass::postgres::{Isolation, Postgres};

use crate::{
    Output,
    api::{Api, as_it_is, is_server},
    command::Said,
    paint::Paint,
    show::{each, text},
    trouble::Trouble,
    watch::Form,
};

/// From how many seconds on something is late.
const LATE: f64 = 60.0;
/// From how many seconds on clocks differ.
const APART: f64 = 5.0;
/// From how many bytes on a log has not been put back into its file for too long.
const LONG_LOG: u64 = 64 << 20;

/// What was found.
struct Finding {
    is_wrong: bool,
    words: String,
}

impl Finding {
    fn wrong(words: impl Into<String>) -> Self {
        Self { is_wrong: true, words: words.into() }
    }

    fn notice(words: impl Into<String>) -> Self {
        Self { is_wrong: false, words: words.into() }
    }
}

/// Looks at everything, and says what it finds.
pub(crate) async fn examine(
    url: &str,
    key: Option<&str>,
    form: Form,
    output: &mut Output,
) -> Result<(), Trouble> {
    let api = Api::open(url, key).await?;
    let health = api.get("/health").await?;
    let (overview, nodes) = (api.get("/overview").await?, api.get("/nodes").await?);
    let mut findings: Vec<Finding> =
        each(&health, "wrong").map(|words| Finding::wrong(text(words))).collect();
    findings.extend(endings(&overview));
    findings.extend(waits(&overview, &nodes));
    if !is_server(url) {
        findings.extend(database(url).await?);
    }
    let wrong = findings.iter().filter(|finding| finding.is_wrong).count();
    let listed = findings.iter().map(|found| json!({"kind": kind(found), "words": found.words}));
    let answer = json!({"ok": wrong == 0, "findings": listed.collect::<Vec<_>>()});
    Said::new(answer, report).print(form, output)?;
    match wrong {
        0 => Ok(()),
        1 => Err(Trouble::Unwell("1 thing is wrong".to_owned())),
        _ => Err(Trouble::Unwell(format!("{wrong} things are wrong"))),
    }
}

const fn kind(finding: &Finding) -> &'static str {
    if finding.is_wrong { "wrong" } else { "notice" }
}

fn report(answer: &Value, paint: Paint) -> Vec<String> {
    let line = |found: &Value| format!("{}  {}", paint.finding(&text(&found["kind"])), text(&found["words"]));
    let mut lines: Vec<String> = each(answer, "findings").map(line).collect();
    if answer["ok"] == true {
        lines.push("nothing is wrong".to_owned());
    }
    lines
}

/// Runs that ended badly. They may well have been looked at, so that they are no more than a notice.
fn endings(overview: &Value) -> Vec<Finding> {
    let count = |state: &str| {
        each(overview, "states")
            .find(|one| one["state"] == state)
            .map_or(0, |one| one["count"].as_u64().unwrap_or(0))
    };
    let found = ["failed", "abandoned"].into_iter().filter(|state| count(state) > 0).map(|state| {
        let count = count(state);
        Finding::notice(format!(
            "{count} ended as {state}: `windlass runs list --state {state}` shows them, `windlass runs retry --state {state}` opens them again"
        ))
    });
    found.collect()
}

/// What waits for too long, and for whom.
fn waits(overview: &Value, nodes: &Value) -> Vec<Finding> {
    let alive: Vec<&Value> = each(nodes, "nodes").filter(|node| node["health"] == "alive").collect();
    let is_served = |queue: &str| alive.iter().any(|node| each(node, "queues").any(|served| served == queue));
    let mut found = Vec::new();
    for queue in each(overview, "queues").filter(|queue| queue["waiting"].as_u64().unwrap_or(0) > 0) {
        let (name, waiting) = (text(&queue["name"]), text(&queue["waiting"]));
        let oldest = queue["oldest_s"].as_f64().unwrap_or(0.0);
        if !alive.is_empty() && !is_served(&name) {
            found.push(Finding::wrong(format!(
                "{waiting} wait in queue `{name}`, which no process serves: start one with `.queue(\"{name}\", …)` or `.serve([\"{name}\"])`"
            )));
        } else if oldest > LATE {
            found.push(Finding::wrong(format!(
                "{waiting} wait in queue `{name}`, the first for {oldest:.0} s: add processes or slots, or raise its limits"
            )));
        }
    }
    let late = overview["lateness_s"].as_f64().unwrap_or(0.0);
    if late > LATE && !alive.is_empty() {
        found.push(Finding::wrong(format!(
            "a run that should have gone on is {late:.0} s late: the processes are overloaded, or none has its code"
        )));
    }
    found
}

async fn database(url: &str) -> Result<Vec<Finding>, Trouble> {
    match url.starts_with("postgres:") || url.starts_with("postgresql:") {
        true => server(url).await,
        false => Ok(file(url)),
    }
}

/// Settings with which PostgreSQL loses what it has said is written, and its clock.
async fn server(url: &str) -> Result<Vec<Finding>, Trouble> {
    let broken = |why: String| Trouble::Database(why);
    let store = Postgres::open(&as_it_is(url)).await.map_err(|why| broken(why.to_string()))?;
    let looked = store.begin(Isolation::ReadCommitted).await.map_err(|why| broken(why.to_string()))?;
    let ask = "SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), \
               extract(epoch FROM clock_timestamp())::float8";
    let row = looked.query_one(ask, &[]).await.map_err(|why| broken(why.to_string()))?;
    let here = now();
    let (fsync, pages, commit): (String, String, String) = (row.get(0), row.get(1), row.get(2));
    let there: f64 = row.get(3);
    let mut found = Vec::new();
    for (name, value) in [("fsync", fsync), ("full_page_writes", pages)] {
        if value == "off" {
            found.push(Finding::wrong(format!(
                "PostgreSQL has {name} = off: a crash of its machine can lose or spoil everything; set it to on"
            )));
        }
    }
    if commit == "off" {
        found.push(Finding::wrong(
            "PostgreSQL has synchronous_commit = off: a crash can take back what was acknowledged; set it to on for this database",
        ));
    }
    if (here - there).abs() > APART {
        found.push(Finding::wrong(format!(
            "the clocks of this machine and of the database are {:.0} s apart: let both follow NTP",
            (here - there).abs()
        )));
    }
    Ok(found)
}

#[allow(clippy::disallowed_methods, reason = "it is the machine's clock that is examined")]
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs_f64()).unwrap_or_default()
}

/// Where an SQLite file is, and how long its log has become.
fn file(url: &str) -> Vec<Finding> {
    let path = url.strip_prefix("sqlite:").unwrap_or(url).trim_start_matches("//");
    let path = path.split('?').next().unwrap_or_default();
    let mut found = Vec::new();
    let log = std::fs::metadata(format!("{path}-wal")).map_or(0, |log| log.len());
    if log > LONG_LOG {
        found.push(Finding::wrong(format!(
            "the log {path}-wal has {} MiB: something reads without end and keeps it from being put back, such as a backup or a \
             forgotten `BEGIN` in a shell",
            log >> 20
        )));
    }
    let full = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(kind) =
        kind_of(&mounts, &full.display().to_string()).filter(|kind| ["tmpfs", "ramfs"].contains(&&**kind))
    {
        found.push(Finding::wrong(format!(
            "{path} is on {kind}, which is memory: it is lost when the machine stops; move the file to a disk"
        )));
    }
    found
}

/// The kind of the file system that a path is on, by a table of mounts as Linux prints it.
fn kind_of(mounts: &str, path: &str) -> Option<String> {
    let mount = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        Some((head.split(' ').nth(4)?.to_owned(), tail.split(' ').next()?.to_owned()))
    };
    let holds = |point: &str| std::path::Path::new(path).starts_with(point);
    let mounts = mounts.lines().filter_map(mount).filter(|(point, _)| holds(point));
    mounts.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(found: Vec<Finding>) -> String {
        found.iter().map(|found| format!("{} {}\n", kind(found), found.words)).collect()
    }

    #[test]
    fn a_queue_that_nobody_serves_is_named() {
        let nodes = json!({"nodes": [{"health": "alive", "queues": ["default"]}, {"health": "dead", "queues": ["gpu"]}]});
        let overview = json!({"lateness_s": 61.0, "queues": [
            {"name": "gpu", "waiting": 3, "oldest_s": 1.0},
            {"name": "default", "waiting": 2, "oldest_s": 90.0},
            {"name": "mail", "waiting": 0, "oldest_s": null},
        ]});
        let said = words(waits(&overview, &nodes));
        assert!(said.contains("3 wait in queue `gpu`, which no process serves"), "{said}");
        assert!(said.contains("2 wait in queue `default`, the first for 90 s"), "{said}");
        assert!(said.contains("is 61 s late") && !said.contains("mail"), "{said}");
    }

    #[test]
    fn runs_that_failed_are_a_notice() {
        let said = words(endings(
            &json!({"states": [{"state": "failed", "count": 2}, {"state": "completed", "count": 9}]}),
        ));
        assert!(said.starts_with("notice 2 ended as failed") && !said.contains("abandoned"), "{said}");
    }

    #[test]
    fn the_mount_that_is_closest_says_what_a_file_is_on() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:5 / /tmp rw - tmpfs tmpfs rw\n";
        assert_eq!(kind_of(mounts, "/tmp/app.db").as_deref(), Some("tmpfs"));
        assert_eq!(kind_of(mounts, "/var/app.db").as_deref(), Some("ext4"));
        assert_eq!(kind_of(mounts, "/tmpfoo/app.db").as_deref(), Some("ext4"));
    }
}
