//! What a power cut leaves, at any moment: worked out from what a process wrote, and what the disk had taken of it.
//!
//! A library that is loaded before all others (`power_cut.c`) writes down every write and every `fsync` of the process.
//! From that, the test makes the files as a power cut leaves them: with nothing that was not synced, or with any part of
//! it, sector by sector.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    path::PathBuf,
    process::Command,
    sync::Arc,
};

use rusqlite::Connection;
use windlass::Engine;

use crate::{
    child::Child,
    crash_sweep::{self, Dice, FACTS, recorded_before},
    graph,
    ledger::{self, Ledger},
    program::note_records,
    role::{Part, Role},
    room::Room,
};

/// How many runs there are, and how many at a time.
const RUNS: u64 = 100;
const ABREAST: u64 = 4;
/// At how many moments the power is cut, and after how many of them the work goes on.
const CUTS: usize = 20;
const GOING_ON: usize = 2;
/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// What the process does whose power is cut.
pub async fn toil(role: &Role, room: &Room, ledger: Arc<Ledger>) {
    let store = room.store().await;
    note_records(&*store, role, room).await;
    let workflow = graph::twenty(&ledger);
    let engine = Engine::over(store).workflow(workflow.clone()).launch().await.expect("the engine launches");
    for wave in 0..RUNS / ABREAST {
        let mut runs = Vec::new();
        for number in wave * ABREAST..(wave + 1) * ABREAST {
            let start = engine.start(workflow.clone(), number % 2).key(format!("run-{number}"));
            let run = start.await.expect("the run starts");
            room.append("acknowledged", &run.id().to_string());
            runs.push(run);
        }
        if wave % 3 == 0 {
            // The log is moved into the file while there is work, as it is when it has become long.
            let other = Connection::open(room.database()).expect("the file opens");
            let moved = other.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            moved.expect("the log is moved as far as nobody reads it");
        }
        for run in runs {
            run.await.expect("the run completes");
        }
    }
    engine.stop().await.expect("the engine stops");
}

/// What a process did to a file.
#[derive(Debug)]
enum Deed {
    Wrote(usize, Vec<u8>),
    Cut(usize),
    Unlinked,
    BeganSync,
    EndedSync,
}

#[derive(Debug)]
struct Entry {
    file: String,
    thread: u64,
    deed: Deed,
}

/// Reads what the library wrote down.
fn read(mut journal: &[u8]) -> Vec<Entry> {
    const NAME: usize = 64;
    let mut entries = Vec::new();
    while !journal.is_empty() {
        let mut take = |count: usize| {
            let (taken, rest) = journal.split_at(count);
            journal = rest;
            taken
        };
        let what = take(1)[0];
        let name: Vec<u8> = take(NAME).iter().copied().take_while(|byte| *byte != 0).collect();
        let mut number = || u64::from_ne_bytes(take(8).try_into().expect("eight bytes"));
        let (thread, at, count) = (number(), number() as usize, number() as usize);
        let deed = match what {
            b'W' => Deed::Wrote(at, take(count).to_vec()),
            b'T' => Deed::Cut(at),
            b'U' => Deed::Unlinked,
            b'B' => Deed::BeganSync,
            b'E' => Deed::EndedSync,
            other => panic!("`{other}` is no deed"),
        };
        entries.push(Entry { file: String::from_utf8(name).expect("a name"), thread, deed });
    }
    entries
}

/// A file: what the disk has taken for certain, and what it may or may not have taken.
#[derive(Default)]
struct File {
    taken: Option<Vec<u8>>,
    pending: VecDeque<Deed>,
    /// How many deeds were taken.
    settled: usize,
    /// How many deeds there were when each thread began to sync, the file or its directory.
    syncing: HashMap<u64, usize>,
    listing: HashMap<u64, usize>,
}

/// The directory, as the disk has it.
#[derive(Default)]
struct Disk {
    files: HashMap<String, File>,
}

impl Disk {
    fn play(&mut self, entry: Entry) {
        match (&*entry.file, &entry.deed) {
            (".", Deed::BeganSync) => {
                for file in self.files.values_mut() {
                    file.listing.insert(entry.thread, file.deeds());
                }
            }
            (".", Deed::EndedSync) => {
                self.files.values_mut().for_each(|file| file.listed(entry.thread));
            }
            _ => self.files.entry(entry.file.clone()).or_default().play(entry),
        }
    }
}

impl File {
    fn deeds(&self) -> usize {
        self.settled + self.pending.len()
    }

    fn play(&mut self, Entry { thread, deed, .. }: Entry) {
        match deed {
            Deed::BeganSync => {
                self.syncing.insert(thread, self.deeds());
            }
            Deed::EndedSync => {
                let until = self.syncing.remove(&thread).expect("what ends has begun");
                self.settle(until);
            }
            deed => self.pending.push_back(deed),
        }
    }

    /// The disk has taken so many deeds.
    fn settle(&mut self, until: usize) {
        while self.settled < until {
            let deed = self.pending.pop_front().expect("it is pending");
            apply(&mut self.taken, &deed, |_| true);
            self.settled += 1;
        }
    }

    /// The disk has taken that it was unlinked, if it was before this began.
    fn listed(&mut self, thread: u64) {
        let Some(until) = self.listing.remove(&thread) else { return };
        let known = self.pending.iter().take(until.saturating_sub(self.settled));
        if let Some(last) = known.rev().position(|deed| matches!(deed, Deed::Unlinked)) {
            let known = until.saturating_sub(self.settled).min(self.pending.len());
            self.settle(self.settled + known - last);
        }
    }

    /// What a power cut leaves of it.
    fn left(&self, mut survives: impl FnMut() -> bool) -> Option<Vec<u8>> {
        let mut left = self.taken.clone();
        for deed in &self.pending {
            apply(&mut left, deed, |_| survives());
        }
        left
    }

    /// All of it, as whoever reads it now sees it.
    fn text(&self) -> Vec<u8> {
        self.left(|| true).unwrap_or_default()
    }
}

/// Does a deed, as far as its parts survive.
fn apply(to: &mut Option<Vec<u8>>, deed: &Deed, mut survives: impl FnMut(usize) -> bool) {
    match deed {
        Deed::Wrote(at, bytes) => {
            let mut begin = 0;
            while begin < bytes.len() {
                // Sectors of the disk, wherever the write begins.
                let end = bytes.len().min(begin + SECTOR - (at + begin) % SECTOR);
                if survives(begin) {
                    let file = to.get_or_insert_default();
                    if file.len() < at + end {
                        file.resize(at + end, 0);
                    }
                    file[at + begin..at + end].copy_from_slice(&bytes[begin..end]);
                }
                begin = end;
            }
        }
        Deed::Cut(length) => {
            if survives(0) {
                to.get_or_insert_default().resize(*length, 0);
            }
        }
        Deed::Unlinked => {
            if survives(0) {
                *to = None;
            }
        }
        Deed::BeganSync | Deed::EndedSync => {}
    }
}

/// What of what was not synced survives.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Nothing,
    AnyPart,
}

/// The room as it is found after the cut.
fn room_after(disk: &Disk, kept: Kept, dice: &mut Dice) -> Room {
    let room = Room::new();
    for (name, file) in &disk.files {
        let left = match (name.as_str(), kept) {
            // These say what was seen from outside, which no power cut takes back.
            ("effects" | "acknowledged", _) => Some(file.text()),
            (_, Kept::Nothing) => file.left(|| false),
            (_, Kept::AnyPart) => file.left(|| dice.roll() < 0.5),
        };
        if let Some(left) = left {
            std::fs::write(room.file(name), left).expect("a file is written");
        }
    }
    // The first boot found nothing.
    std::fs::write(room.file("recorded-0"), "").expect("a file is written");
    room
}

/// Whether all that was said to be durable is there, and nothing was done before what it depends on was durable.
fn examine(room: &Room, story: &str) {
    let conn = Connection::open(room.database()).expect("the file opens");
    let checked: String =
        conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it is checked");
    assert_eq!(checked, "ok", "{story}");
    drop(conn);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let store = room.store().await;
        note_records(&*store, &role(room, 1), room).await;
        for run in room.lines("acknowledged") {
            let run = run.parse().expect("a run id");
            let image = store.load(run).await.expect("a run can be loaded");
            assert!(image.is_some(), "{story}: run {run} was acknowledged and is lost");
        }
    });
    let known = [recorded_before(room, 0), recorded_before(room, 1)];
    crash_sweep::check_order(&ledger::by_attempt(ledger::effects(&room.effects())), &known, story);
}

fn role(room: &Room, boot: usize) -> Role {
    Role::new(&boot.to_string(), room, Part::Toil)
}

/// Builds the library that writes everything down.
fn library(room: &Room) -> PathBuf {
    let (source, library) = (room.file("power_cut.c"), room.file("power_cut.so"));
    std::fs::write(&source, include_str!("power_cut.c")).expect("the source is written");
    // Whoever builds SQLite has a C compiler.
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).status();
    assert!(built.expect("there is a C compiler").success(), "the library is built");
    library
}

/// What a process writes that works through all runs.
fn written(room: &Room) -> Vec<Entry> {
    let beside = Room::new();
    let (library, journal) = (library(&beside), beside.file("journal"));
    let mut child = Child::spawn_with(
        role(room, 0),
        [
            ("LD_PRELOAD", library.as_os_str()),
            ("POWER_CUT_DIRECTORY", room.directory().as_os_str()),
            ("POWER_CUT_JOURNAL", journal.as_os_str()),
        ],
    );
    let status = child.end();
    assert!(status.success(), "the program ends by itself: {status}\n{}", child.last_words());
    read(&std::fs::read(&journal).expect("the journal can be read"))
}

/// How many of the runs that were acknowledged are not in the file.
fn lost(room: &Room) -> usize {
    let conn = Connection::open(room.database()).expect("the file opens");
    let is_there = |run: &str| {
        let run = run.parse::<windlass::RunId>().expect("a run id");
        let found = conn
            .prepare("SELECT 1 FROM run WHERE id = ?1")
            .and_then(|mut find| find.exists([run.as_bytes()]));
        // Even the table may be lost.
        found.unwrap_or(false)
    };
    room.lines("acknowledged").iter().filter(|run| !is_there(run)).count()
}

/// Whether the other test could fail: with less than it asks of the disk, runs are lost.
#[test]
fn a_power_cut_loses_what_was_acknowledged_when_commits_are_not_synced() {
    let room = Room::new();
    room.set_url(&format!("sqlite://{}?synchronous=normal", room.database().display()));
    let entries = written(&room);
    let mut disk = Disk::default();
    let (mut losses, last) = (0, entries.len() - 1);
    for (at, entry) in entries.into_iter().enumerate() {
        disk.play(entry);
        if at > 0 && at % (last / 5) == 0 {
            losses += lost(&room_after(&disk, Kept::Nothing, &mut Dice::new(1)));
        }
    }
    assert!(losses > 0, "nothing was lost, although nobody waited for the disk");
}

#[test]
fn a_power_cut_at_any_moment_loses_nothing_that_was_acknowledged_or_built_upon() {
    let room = Room::new();
    let entries = written(&room);
    let records = crash_sweep::records(&room);
    assert_eq!(records.len(), RUNS as usize);
    let facts = records.into_values().next().expect("there are runs");
    assert_eq!(facts.len(), FACTS, "{facts:?}");

    let of_file: Vec<usize> = (0..entries.len()).filter(|&at| entries[at].file == "app.db").collect();
    let syncs = entries.iter().filter(|entry| matches!(entry.deed, Deed::EndedSync)).count();
    assert!(of_file.len() > 100 && syncs > 300, "{} writes to the file, {syncs} syncs", of_file.len());
    let mut dice = Dice::new(0xC07);
    let mut any = |below: usize| (dice.roll() * below as f64) as usize;
    // Half of them while the log is moved into the file.
    let cuts: BTreeSet<usize> = (0..CUTS)
        .map(|cut| if cut % 2 == 0 { any(entries.len()) } else { of_file[any(of_file.len())] })
        .collect();

    let mut disk = Disk::default();
    let (mut done, last) = (0, entries.len() - 1);
    for (at, entry) in entries.into_iter().enumerate() {
        disk.play(entry);
        if !cuts.contains(&at) && at != last {
            continue;
        }
        done += 1;
        for kept in [Kept::Nothing, Kept::AnyPart] {
            let story = format!("cut after deed {at} of {last}, {kept:?} survives");
            let after = room_after(&disk, kept, &mut dice);
            examine(&after, &story);
            if done % (CUTS / GOING_ON) == 0 {
                let mut child = Child::spawn(role(&after, 1));
                let status = child.end();
                assert!(status.success(), "{story}: {status}\n{}", child.last_words());
                crash_sweep::check(&facts, &after, RUNS as usize, 2, &story);
            }
        }
    }
    assert!(done > CUTS / 2, "the power was cut {done} times");
}
