//! What others have not been told yet, and how it is said.

use std::{mem, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;
use windlass_core::RunId;
use windlass_store::{Hint, News};

use crate::column;

/// How many runs are named at most; of more it is only said that there is something.
const NAMED: usize = 4000;
/// How many are named in one notification, which has room for 8000 bytes.
const IN_ONE: usize = 220;

const RUNS: &str = "runs";
const TASKS: &str = "tasks";
const PROBE: &str = "probe";
const MAIL: char = 'm';
const ENDED: char = 'e';

/// What others have not been told yet. It is gathered while they are told something else.
#[derive(Default)]
pub(crate) struct Unsaid {
    gathered: Mutex<Gathered>,
    came: Notify,
}

#[derive(Default)]
struct Gathered {
    news: News,
    /// Whether there is more than can be named.
    is_more: bool,
}

impl Unsaid {
    /// Adds what has come of one's own doings.
    pub(crate) fn add(&self, news: &News) {
        if news.is_empty() {
            return;
        }
        let mut gathered = self.gathered.lock();
        if !gathered.is_more {
            gathered.news.add(news);
            gathered.is_more = gathered.news.mail.len() + gathered.news.ended.len() > NAMED;
        }
        if gathered.is_more {
            gathered.news = News::default();
        }
        drop(gathered);
        self.came.notify_one();
    }

    /// Has others look for everything: what they were to be told was lost on the way.
    pub(crate) fn lose(&self) {
        self.gathered.lock().is_more = true;
        self.came.notify_one();
    }

    /// Waits until there is something.
    pub(crate) async fn comes(&self) {
        self.came.notified().await;
    }

    /// What there is to say, in the words of this speaker. Nothing if it was said before.
    pub(crate) fn take(&self, speaker: &str) -> Vec<String> {
        let Gathered { news, is_more } = mem::take(&mut *self.gathered.lock());
        match is_more {
            true => vec![speaker.to_owned()],
            false if news.is_empty() => Vec::new(),
            false => said(speaker, &news),
        }
    }
}

/// News as notifications.
fn said(speaker: &str, news: &News) -> Vec<String> {
    let named = |kind: char, runs: &[RunId]| -> Vec<String> {
        runs.iter().map(|run| format!(" {kind}{}", column::run(*run).as_simple())).collect()
    };
    let mut words = named(MAIL, &news.mail);
    words.extend(named(ENDED, &news.ended));
    let flags = [(news.runs, RUNS), (news.tasks, TASKS)];
    words.extend(flags.iter().filter(|(is, _)| *is).map(|(_, word)| format!(" {word}")));
    words.chunks(IN_ONE).map(|words| format!("{speaker}{}", words.concat())).collect()
}

/// What somebody says who only wants to hear himself.
pub(crate) fn probe(speaker: &str) -> String {
    format!("{speaker} {PROBE}")
}

/// What a notification of somebody else means; nothing if he only wants to hear himself. One in other words, as of a
/// transaction of the application's or of another version of this program, may mean anything.
pub(crate) fn heard(payload: &str) -> Option<Hint> {
    let mut words = payload.split(' ').skip(1).peekable();
    if words.peek() == Some(&PROBE) {
        return None;
    }
    let mut news = News::default();
    for word in words {
        let run = || Some(RunId::from_bytes(Uuid::try_parse(word.get(1..)?).ok()?.into_bytes()));
        match (word, word.chars().next()) {
            (RUNS, _) => news.runs = true,
            (TASKS, _) => news.tasks = true,
            (_, Some(MAIL)) if let Some(run) = run() => news.mail.push(run),
            (_, Some(ENDED)) if let Some(run) = run() => news.ended.push(run),
            _ => return Some(Hint::Changed),
        }
    }
    Some(if news.is_empty() { Hint::Changed } else { Hint::News(Arc::new(news)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard_of(unsaid: &Unsaid) -> Vec<Option<Hint>> {
        let said = unsaid.take("me");
        assert!(said.iter().all(|words| words.len() < 8000), "a notification has no room for more");
        said.iter().map(|words| heard(words)).collect()
    }

    fn ended(runs: usize) -> News {
        News { ended: (0..runs).map(|_| RunId::new()).collect(), ..News::default() }
    }

    #[test]
    fn what_is_said_is_heard() {
        let unsaid = Unsaid::default();
        assert_eq!(heard_of(&unsaid), []);
        let mut news = News { tasks: true, ..ended(500) };
        news.sent_to(RunId::new());
        unsaid.add(&news);
        let mut all = News::default();
        for hint in heard_of(&unsaid) {
            let Some(Hint::News(part)) = hint else { panic!("{hint:?}") };
            all.add(&part);
        }
        assert_eq!(all, news);
        assert_eq!(heard_of(&unsaid), [], "it is said once");
    }

    #[test]
    fn of_more_than_can_be_named_others_hear_that_there_is_something() {
        let unsaid = Unsaid::default();
        unsaid.add(&ended(NAMED));
        unsaid.add(&ended(1));
        unsaid.add(&ended(1));
        assert_eq!(heard_of(&unsaid), [Some(Hint::Changed)]);
        unsaid.lose();
        assert_eq!(heard_of(&unsaid), [Some(Hint::Changed)]);
    }

    #[test]
    fn a_run_that_is_sent_much_is_named_once() {
        let (unsaid, run) = (Unsaid::default(), RunId::new());
        for _ in 0..3 {
            let mut news = News::default();
            (0..NAMED).for_each(|_| news.sent_to(run));
            unsaid.add(&news);
        }
        let Some(Hint::News(news)) = heard_of(&unsaid).pop().flatten() else { panic!("it can be named") };
        assert_eq!(news.mail, [run]);
    }

    #[test]
    fn strange_words_may_mean_anything() {
        assert_eq!(heard(&probe("me")), None);
        for words in ["sql", "me", "me ", "me more", "me runs more", "me mx", "me é"] {
            assert_eq!(heard(words), Some(Hint::Changed), "{words}");
        }
    }
}
