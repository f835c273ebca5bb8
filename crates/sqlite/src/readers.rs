//! The threads that read.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
};

use parking_lot::Mutex;
use windlass_store::StoreError;

use crate::{book::Book, error::explain, job::Job};

type Work = Box<dyn Job<Book>>;

/// Threads that take turns at a queue of questions, each with a connection of its own. They end when the
/// sender is dropped.
pub(crate) fn spawn(books: Vec<Book>, file: &str) -> (Sender<Work>, Vec<JoinHandle<()>>) {
    let (sender, receiver) = channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let threads = books.into_iter().map(|book| {
        let (receiver, file) = (Arc::clone(&receiver), file.to_owned());
        std::thread::Builder::new()
            .name("windlass-read".into())
            .spawn(move || read(book, &receiver, &file))
            .expect("the operating system has room for a thread")
    });
    let threads = threads.collect();
    (sender, threads)
}

fn read(mut book: Book, work: &Mutex<Receiver<Work>>, file: &str) {
    loop {
        let next = work.lock().recv();
        let Ok(mut job) = next else { return };
        let fate = answer_from_one_snapshot(&mut book, &mut job).map_err(|error| explain(&error, file));
        job.answer(fate);
    }
}

/// Several statements make one answer, so they look at one moment of the database. A single one does so anyway.
fn answer_from_one_snapshot(book: &mut Book, job: &mut Work) -> rusqlite::Result<()> {
    if job.take_shortcut(book)? {
        return Ok(());
    }
    book.conn.prepare_cached("BEGIN")?.execute([])?;
    let done = job.attempt(book);
    let ended = book.conn.prepare_cached("ROLLBACK").and_then(|mut end| end.execute([]));
    done.and(ended).map(|_| ())
}

/// What a question is answered with when no thread is left to take it.
pub(crate) const fn closed<T>() -> Result<T, StoreError> {
    Err(StoreError::Closed)
}
