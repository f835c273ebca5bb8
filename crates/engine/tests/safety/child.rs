//! A process of a test, as the test sees it.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    process::{Child as Process, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use windlass_store::CommitMoment;

use crate::{
    eventually::{PATIENCE, eventually},
    role::{Boundary, Role, VARIABLE},
    room::Room,
};

/// What a child's line begins with when it is meant for the test.
pub const MARK: &str = "@";
/// The order that lets a child out of its trap.
pub const GO_ON: &str = "go on";

/// This test binary in another process, playing a role. It is killed when this is dropped.
#[derive(Debug)]
pub struct Child {
    role: Role,
    process: Process,
    orders: ChildStdin,
    words: Receiver<String>,
}

impl Child {
    pub fn spawn(role: Role) -> Self {
        Self::spawn_with(role, [])
    }

    /// The same, with these in its environment.
    pub fn spawn_with<const N: usize>(role: Role, variables: [(&str, &OsStr); N]) -> Self {
        let room = Room::at(&role.room);
        let errors = room.file(&format!("{}.stderr", role.name));
        let errors = std::fs::File::options().create(true).append(true).open(errors).expect("a file opens");
        let mut process = Command::new(std::env::current_exe().expect("this binary has a path"))
            .args(["--exact", "program::program", "--ignored", "--nocapture"])
            .env(VARIABLE, serde_json::to_string(&role).expect("a role is JSON"))
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the test binary starts");
        let orders = process.stdin.take().expect("orders are piped");
        let output = BufReader::new(process.stdout.take().expect("words are piped"));
        let (sender, words) = channel();
        std::thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            // The harness may have printed its own words in front of ours.
            for word in lines.filter_map(|line| line.split_once(MARK).map(|(_, word)| word.to_owned())) {
                if sender.send(word).is_err() {
                    return;
                }
            }
        });
        Self { role, process, orders, words }
    }

    /// Spawns and waits until the child's engine is up.
    pub fn ready(role: Role) -> Self {
        let child = Self::spawn(role);
        child.hear("ready");
        child
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Gives an order.
    pub fn tell(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("the child takes orders");
    }

    /// Waits for a word that begins so, and answers the rest of it.
    #[track_caller]
    pub fn hear(&self, word: &str) -> String {
        self.hear_within(word, PATIENCE).unwrap_or_else(|| {
            panic!("`{}` did not say `{word}`; it wrote:\n{}", self.role.name, self.last_words())
        })
    }

    /// The same, but gives up after a while.
    pub fn hear_within(&self, word: &str, within: Duration) -> Option<String> {
        let until = Instant::now() + within;
        loop {
            let said = self.words.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?;
            if let Some(rest) = said.strip_prefix(word) {
                return Some(rest.trim().to_owned());
            }
        }
    }

    /// What the child logged so far.
    pub fn journal(&self) -> String {
        std::fs::read_to_string(Room::at(&self.role.room).file(&format!("{}.log", self.role.name)))
            .unwrap_or_default()
    }

    /// Freezes the child wherever it is.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let flags = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        eventually("the child freezes", PATIENCE, || {
            waitid(WaitId::Pid(self.os_pid()), flags).expect("the child can be asked").is_some()
        });
    }

    /// Freezes the child in the trap that it was told to set.
    #[track_caller]
    pub fn freeze_in_trap(&self) {
        self.hear("trapped");
        self.freeze();
    }

    /// Lets a frozen child go on, out of its trap too.
    pub fn thaw(&mut self) {
        self.signal(Signal::CONT);
        self.tell(GO_ON);
    }

    /// How many bytes of memory the child has in use.
    #[cfg(target_os = "linux")]
    pub fn memory(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the child lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it uses memory");
        let kibibytes = line.trim().trim_end_matches(" kB");
        kibibytes.parse::<u64>().expect("a number") * 1024
    }

    /// Whether the child has ended by itself.
    pub fn is_over(&mut self) -> bool {
        self.process.try_wait().expect("the child can be asked").is_some()
    }

    /// Ends the child with SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        self.process.kill().expect("the child can be killed");
        self.process.wait().expect("the child can be waited for");
    }

    /// Tells the child to stop its engine, and waits until it has.
    #[track_caller]
    pub fn stop(mut self) {
        self.tell("stop");
        let status = self.end();
        assert!(status.success(), "`{}` ended with {status}:\n{}", self.role.name, self.last_words());
    }

    /// Waits for the child's end.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        let mut status = None;
        eventually(&format!("`{}` ends", self.role.name), PATIENCE, || {
            status = self.process.try_wait().expect("the child can be waited for");
            status.is_some()
        });
        status.expect("the child has ended")
    }

    /// What the child wrote, for the message of a failed test.
    pub fn last_words(&self) -> String {
        let room = Room::at(&self.role.room);
        let errors = std::fs::read_to_string(room.file(&format!("{}.stderr", self.role.name)));
        format!("{}\n{}", errors.unwrap_or_default(), self.journal())
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.os_pid(), signal).expect("the child can be signalled");
    }

    fn os_pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended already, and a kill reaches a frozen process too.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Whether a process was ended by SIGKILL.
pub fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::KILL.as_raw())
}

/// Ends this process as a crash does: at once, with nothing tidied up.
pub fn kill_me() -> ! {
    kill_process(rustix::process::getpid(), Signal::KILL).expect("a process may kill itself");
    loop {
        std::thread::park();
    }
}

/// A hook that ends this process so at a boundary of a commit.
pub fn kill_at(boundary: Option<Boundary>) -> impl Fn(CommitMoment) + Send + Sync {
    move |moment| match (moment, boundary) {
        (CommitMoment::Before(now), Some(Boundary::Before(then))) if now == then => kill_me(),
        (CommitMoment::After(now), Some(Boundary::After(then))) if now == then => kill_me(),
        _ => {}
    }
}

/// Set when a process may leave its trap.
static RELEASED: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// Keeps this thread where it is, so that the test can freeze the process just here.
pub fn wait_in_trap() {
    println!("{MARK}trapped");
    let mut released = RELEASED.0.lock();
    while !*released {
        RELEASED.1.wait(&mut released);
    }
}

/// Lets this process out of its trap.
pub fn leave_trap() {
    *RELEASED.0.lock() = true;
    RELEASED.1.notify_all();
}
