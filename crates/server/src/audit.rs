//! What was changed, by whom.
//!
//! The record is a ring of pages, each a value that all processes share, so that it never grows beyond what it has room for.
//! Whoever has something to add writes all that waits in this process with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use windlass::{Client, Error, SharedValue, Time};

/// How many lines are on a page.
const LINES: usize = 64;

/// How many pages there are. The oldest is written anew when all are full.
const PAGES: u64 = 1_024;

/// A change that somebody made, or wanted to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) at: Time,
    /// Who: the name of a key, or of a user that the program knows.
    pub(crate) who: Option<String>,
    /// From which address, or what the program says of that.
    pub(crate) from: Option<String>,
    /// What: the id of the way of asking.
    pub(crate) what: String,
    /// On what, if it is known.
    pub(crate) on: Option<String>,
    /// What it was answered with; zero if nobody waited for that.
    pub(crate) status: u16,
    /// Which problem there was.
    pub(crate) problem: Option<String>,
}

/// A place in the record: how many lines come before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(pub(crate) u64);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Page {
    /// Which page of all that there ever were.
    number: u64,
    lines: Vec<Line>,
}

/// A line that is not written yet, and who waits for it.
type Waiting = (Line, oneshot::Sender<Result<(), Error>>);

/// The record of changes.
pub(crate) struct Audit {
    client: Client,
    waiting: Mutex<Vec<Waiting>>,
    writing: tokio::sync::Mutex<()>,
}

/// What became of lines that were to be added to a page.
enum Added {
    /// So many found room.
    Some(usize),
    /// The place of this page belongs to a later one by now.
    Passed,
}

impl Audit {
    pub(crate) fn new(client: Client) -> Arc<Self> {
        Arc::new(Self { client, waiting: Mutex::default(), writing: tokio::sync::Mutex::default() })
    }

    /// Adds a line. It is durable when this is answered.
    pub(crate) async fn add(&self, line: Line) -> Result<(), Error> {
        let (told, mut written) = oneshot::channel();
        self.waiting().push((line, told));
        let _writing = self.writing.lock().await;
        // Whoever wrote before has taken it along, unless it came too late for that.
        if let Ok(written) = written.try_recv() {
            return written;
        }
        let (lines, told): (Vec<Line>, Vec<_>) = std::mem::take(&mut *self.waiting()).into_iter().unzip();
        let result = self.write(&lines).await;
        for told in told {
            // Whoever does not wait any more needs not be told.
            drop(told.send(result.clone()));
        }
        result
    }

    /// Up to `limit` lines from before a place, or from the end, newest first; and the place of the last.
    pub(crate) async fn list(
        &self,
        before: Option<Place>,
        limit: usize,
    ) -> Result<Vec<(Place, Line)>, Error> {
        let end = (self.newest().get().await? + 1) * LINES as u64;
        let Place(end) = before.unwrap_or(Place(end)).min(Place(end));
        let mut found = Vec::new();
        let mut number = end.div_ceil(LINES as u64);
        while number > 0 && found.len() < limit {
            number -= 1;
            let page = self.page(number).get().await?;
            if page.number != number {
                break;
            }
            let first = number * LINES as u64;
            let places = (first..).map(Place).zip(page.lines);
            let before: Vec<(Place, Line)> = places.take_while(|(place, _)| place.0 < end).collect();
            found.extend(before.into_iter().rev());
        }
        found.truncate(limit);
        Ok(found)
    }

    async fn write(&self, mut lines: &[Line]) -> Result<(), Error> {
        let mut number = self.newest().get().await?;
        while !lines.is_empty() {
            let add = |page: &mut Page| Ok::<_, Error>(page.add(number, lines));
            match self.page(number).change(add).await? {
                Added::Some(count) => lines = &lines[count..],
                Added::Passed => number = self.newest().get().await?,
            }
            if !lines.is_empty() {
                let next = |newest: &mut u64| {
                    *newest = (*newest).max(number + 1);
                    Ok::<_, Error>(*newest)
                };
                number = self.newest().change(next).await?;
            }
        }
        Ok(())
    }

    /// The number of the page that is written.
    fn newest(&self) -> SharedValue<u64> {
        self.client.shared_value("windlass.audit")
    }

    fn page(&self, number: u64) -> SharedValue<Page> {
        self.client.shared_value(&format!("windlass.audit.{}", number % PAGES))
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Page {
    /// Adds as many lines as there is room for.
    fn add(&mut self, number: u64, lines: &[Line]) -> Added {
        if self.number > number {
            return Added::Passed;
        }
        if self.number < number {
            *self = Self { number, lines: Vec::new() };
        }
        let room = LINES.saturating_sub(self.lines.len()).min(lines.len());
        self.lines.extend_from_slice(&lines[..room]);
        Added::Some(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(what: String) -> Line {
        Line { at: Time(0), who: None, from: None, what, on: None, status: 200, problem: None }
    }

    #[tokio::test]
    async fn every_change_is_recorded_once_whoever_else_writes() {
        let engine = windlass::Engine::open("sqlite::memory:").launch().await.unwrap();
        let processes = [Audit::new(engine.client()), Audit::new(engine.client())];
        let writers: Vec<_> = (0..300)
            .map(|number| {
                let audit = Arc::clone(&processes[number % 2]);
                tokio::spawn(async move { audit.add(line(number.to_string())).await })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap().unwrap();
        }
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = processes[0].list(before, 70).await.unwrap();
            let Some((last, _)) = page.last() else { break };
            before = Some(*last);
            seen.extend(page.into_iter().map(|(_, line)| line.what.parse::<u32>().unwrap()));
        }
        assert_eq!(seen.len(), 300);
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..300));
        engine.stop().await.unwrap();
    }

    #[tokio::test]
    async fn the_oldest_changes_make_room() {
        let engine = windlass::Engine::open("sqlite::memory:").launch().await.unwrap();
        let audit = Audit::new(engine.client());
        audit.add(line("old".into())).await.unwrap();
        let set = |newest: &mut u64| {
            *newest = PAGES;
            Ok::<_, Error>(())
        };
        audit.newest().change(set).await.unwrap();
        audit.add(line("new".into())).await.unwrap();
        let all = audit.list(None, 500).await.unwrap();
        assert_eq!(all.iter().map(|(_, line)| &*line.what).collect::<Vec<_>>(), ["new"]);
        // A process that had slept for a whole round.
        let mut page = audit.page(0).get().await.unwrap();
        assert!(matches!(page.add(0, &[line("late".into())]), Added::Passed));
        engine.stop().await.unwrap();
    }
}
