//! How the writers of several processes take turns.

use std::{
    fs::{File, TryLockError},
    io::{self, ErrorKind, Seek, SeekFrom, Write},
    path::Path,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Two file locks in a row. Whoever wants to write takes *next*, then *main*, then lets *next* go.
///
/// SQLite's own way of waiting is to ask again after a while, and whoever just wrote and wants to write again
/// is always the first to ask: others starve for seconds. Here only one waits for *main*, and it gets it.
#[derive(Debug)]
pub(crate) struct Turnstile {
    next: File,
    main: File,
    /// Another handle on *main*, to ask whether anybody has it.
    probe: File,
    waiting_since: Mutex<Option<Instant>>,
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turnstile);

impl Turnstile {
    /// The turnstile of the processes that use this directory.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let open = |name: &str| {
            File::options().create(true).truncate(false).read(true).write(true).open(directory.join(name))
        };
        Ok(Self {
            next: open("next")?,
            main: open("main")?,
            probe: open("main")?,
            waiting_since: Mutex::new(None),
        })
    }

    /// Waits for the turn of this process.
    pub(crate) fn pass(&self) -> io::Result<Turn<'_>> {
        self.take(&self.next)?;
        let taken = match self.main.try_lock() {
            Ok(()) => Ok(()),
            // Whoever waits here keeps the others out too, and must be found if it never goes on.
            Err(_) => sign(&self.next).and_then(|()| self.take(&self.main)),
        };
        let released = self.next.unlock();
        *self.waiting_since.lock() = None;
        taken?;
        let turn = Turn(self);
        released?;
        sign(&self.main)?;
        Ok(turn)
    }

    /// Takes the turn of this process if nobody else has it or wants it.
    pub(crate) fn pass_at_once(&self) -> io::Result<Option<Turn<'_>>> {
        if !is_free(self.next.try_lock())? {
            return Ok(None);
        }
        let taken = is_free(self.main.try_lock());
        let released = self.next.unlock();
        if !taken? {
            return released.map(|()| None);
        }
        let turn = Turn(self);
        released?;
        sign(&self.main)?;
        Ok(Some(turn))
    }

    /// How long this process has been waiting for its turn, if it is.
    pub(crate) fn waiting(&self) -> Option<Duration> {
        self.waiting_since.lock().map(|since| since.elapsed())
    }

    /// The process that keeps the others from writing, as it says: the one that has the turn or, when nobody has
    /// it, the one that stands before it and does not go on.
    pub(crate) fn holder(&self) -> Option<u32> {
        match self.probe.try_lock() {
            Ok(()) => {
                // Whoever is next in line is let in again at once.
                self.probe.unlock().ok()?;
                signature(&self.next)
            }
            Err(_) => signature(&self.main),
        }
    }

    fn take(&self, lock: &File) -> io::Result<()> {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) if error.kind() != ErrorKind::Interrupted => return Err(error),
            Err(_) => {}
        }
        self.waiting_since.lock().get_or_insert_with(Instant::now);
        loop {
            match lock.lock() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                taken => return taken,
            }
        }
    }
}

/// Whether a lock could be taken at once.
fn is_free(tried: Result<(), TryLockError>) -> io::Result<bool> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Writes the id of this process where those who wait can read it, unless it is there: a file that does not change
/// costs no disk anything.
fn sign(mut lock: &File) -> io::Result<()> {
    let id = std::process::id();
    if signature(lock) == Some(id) {
        return Ok(());
    }
    lock.seek(SeekFrom::Start(0))?;
    lock.write_all(format!("{id:<12}").as_bytes())
}

/// The process that signed last.
fn signature(lock: &File) -> Option<u32> {
    let mut text = [0; 12];
    let len = read_beginning(lock, &mut text).ok()?;
    str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
}

#[cfg(unix)]
fn read_beginning(file: &File, text: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, text, 0)
}

#[cfg(not(unix))]
fn read_beginning(mut file: &File, text: &mut [u8]) -> io::Result<usize> {
    file.seek(SeekFrom::Start(0))?;
    io::Read::read(&mut file, text)
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.main.unlock() {
            tracing::error!(%error, "the turn to write could not be passed on; other processes wait for this one");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use super::*;

    #[test]
    fn whoever_holds_the_turn_can_be_named() {
        let dir = tempfile::tempdir().unwrap();
        let (mine, other) = (Turnstile::open(dir.path()).unwrap(), Turnstile::open(dir.path()).unwrap());
        assert_eq!(other.holder(), None);
        let turn = mine.pass().unwrap();
        assert_eq!(other.holder(), Some(std::process::id()));
        drop(turn);
    }

    #[test]
    fn whoever_stands_before_the_free_turn_and_does_not_go_on_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (stuck, other) = (Turnstile::open(dir.path()).unwrap(), Turnstile::open(dir.path()).unwrap());
        std::fs::write(dir.path().join("main"), "1           ").unwrap();
        stuck.next.lock().unwrap();
        sign(&stuck.next).unwrap();
        assert_eq!(other.holder(), Some(std::process::id()));
        stuck.main.lock().unwrap();
        assert_eq!(other.holder(), Some(1));
    }

    #[test]
    fn a_writer_that_keeps_coming_back_lets_a_waiting_one_in() {
        let dir = tempfile::tempdir().unwrap();
        let busy = Turnstile::open(dir.path()).unwrap();
        let turn = busy.pass().unwrap();
        let patient = Arc::new(Turnstile::open(dir.path()).unwrap());
        let turns = Arc::new(AtomicUsize::new(0));
        let (entered, inside) = mpsc::channel();
        let waiter = std::thread::spawn({
            let (patient, turns) = (Arc::clone(&patient), Arc::clone(&turns));
            move || {
                let turn = patient.pass().unwrap();
                entered.send(turns.load(Ordering::SeqCst)).unwrap();
                drop(turn);
            }
        });
        while patient.waiting().is_none() {
            std::thread::yield_now();
        }
        drop(turn);
        for _ in 0..1000 {
            let turn = busy.pass().unwrap();
            turns.fetch_add(1, Ordering::SeqCst);
            drop(turn);
        }
        waiter.join().unwrap();
        // The busy one may slip in while the waiter is between its two locks, and not for long.
        let before = inside.recv().unwrap();
        assert!(before < 50, "the waiting one came in after {before} turns of the busy one");
    }

    #[test]
    fn a_turn_ends_the_wait() {
        let dir = tempfile::tempdir().unwrap();
        let turnstile = Turnstile::open(dir.path()).unwrap();
        drop(turnstile.pass().unwrap());
        drop(turnstile.pass().unwrap());
        assert_eq!(turnstile.waiting(), None);
    }
}
