//! One turn of a batch: what has come to it, and what follows.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::{
    RunId, RunState, Time,
    batch::{Attention, Decision, Entry, Item, LastBatch, Origin, Senders, Tell, run_id},
};
use windlass_store::{Act, InboxRow, RunImage, Unit, Wait};

use super::{
    declaration::Declaration,
    ledger::Ledger,
    message::{ITEM, Message, TOLD, read_item, topics},
};
use crate::{
    Error,
    hub::Hub,
    schedule::{Held, said},
};

/// So many items that cannot be read are passed by others at most.
const MOST_STUCK: usize = 1_000;

/// What lies in the inbox of a batch.
#[derive(Default)]
pub(super) struct Mail {
    /// Items and orders in the order of their arrival.
    entries: Vec<Entry>,
    /// The number of each, and what it holds if it is an item.
    rows: Vec<Row>,
    /// What calls or means nothing, and goes whatever follows.
    rest: Vec<i64>,
    /// Who is declared, and by which of the entries.
    declared: Vec<(usize, Declaration)>,
    /// Whether some are left for the next turn.
    is_cut: bool,
    /// Why the last of those items cannot be read that cannot.
    unreadable: Option<Error>,
}

struct Row {
    seq: i64,
    origin: Option<Origin>,
    body: Bytes,
}

/// What a turn comes to, to be written.
pub(super) struct Taken {
    pub(super) units: Vec<Unit>,
    pub(super) starts: Vec<RunId>,
    pub(super) workflow: String,
    pub(super) wake: Option<Time>,
    /// How often the page was written then.
    pub(super) turn: u64,
    /// Whether some items stay because they cannot be read.
    pub(super) is_stuck: bool,
}

impl Mail {
    /// Reads what has come. With `open`, items are decoded: only then is it known how long they are.
    pub(super) fn read(hub: &Hub, inbox: &[InboxRow], ledger: &Ledger, open: bool) -> Result<Self, Error> {
        let mut mail = Self::default();
        let mut senders = ledger.senders.clone();
        for row in inbox {
            let (entry, origin, body) = match row.topic.as_str() {
                ITEM => {
                    let (origin, kept) = read_item(&row.body)?;
                    let is_new = origin.is_none_or(|origin| senders.take(origin, row.at));
                    // Others have passed one that was stuck.
                    if !is_new && ledger.stuck.binary_search(&row.seq).is_err() {
                        mail.rest.push(row.seq);
                        continue;
                    }
                    let read = if open { hub.read("an item", kept) } else { Ok(kept) };
                    let (entry, body) = mail.weigh(row, read);
                    (entry, origin, body)
                }
                TOLD => (Entry::Told(mail.hear(Message::decode(hub, row)?)), None, Bytes::new()),
                _ => {
                    mail.rest.push(row.seq);
                    continue;
                }
            };
            mail.entries.push(entry);
            mail.rows.push(Row { seq: row.seq, origin, body });
        }
        Ok(mail)
    }

    /// An item that was read, or not.
    fn weigh(&mut self, row: &InboxRow, read: Result<Bytes, Error>) -> (Entry, Bytes) {
        match read {
            Ok(body) => (Entry::Item(Item { at: row.at, bytes: body.len() }), body),
            Err(error) => {
                self.unreadable = Some(error);
                (Entry::Stuck, Bytes::new())
            }
        }
    }

    /// The numbers of the items that stay because they cannot be read, and why. When they are too many to be written
    /// down, nothing passes them.
    fn stuck(&mut self, decision: &Decision) -> Result<(Vec<i64>, Option<Error>), Error> {
        let stuck: Vec<i64> = decision.stuck.iter().map(|place| self.rows[*place].seq).collect();
        match self.unreadable.take() {
            Some(error) if stuck.len() > MOST_STUCK => Err(error),
            error => Ok((stuck, error.filter(|_| !decision.stuck.is_empty()))),
        }
    }

    /// Remembers the items that go, so that a repeat of one is known.
    fn remember(&self, decision: &Decision, senders: &mut Senders, now: Time) {
        let gone = decision.discarded.iter().chain(decision.batches.iter().flatten());
        for origin in gone.filter_map(|place| self.rows[*place].origin) {
            senders.take(origin, now);
        }
        senders.forget(now);
    }

    fn hear(&mut self, message: Message) -> Tell {
        match message {
            Message::Told(tell) => tell,
            Message::Declare(declaration) => {
                self.declared.push((self.entries.len(), *declaration));
                Tell::Declare
            }
        }
    }

    /// Leaves what is for the next turn.
    fn cut(&mut self, ledger: &Ledger) {
        let reach = ledger.basket.reach(&self.entries);
        self.is_cut = reach < self.entries.len();
        self.entries.truncate(reach);
        self.rows.truncate(reach);
        self.declared.retain(|(place, _)| *place < reach);
    }

    /// Has the batch be as it was declared last.
    pub(super) fn declare(&mut self, ledger: &mut Ledger) {
        if let Some((_, declaration)) = self.declared.pop() {
            ledger.declaration = declaration;
        }
    }

    /// Whether there is an order among the entries.
    fn is_told(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry, Entry::Told(_)))
    }

    /// What the batch comes to.
    pub(super) fn decide(&self, hub: &Hub, ledger: &Ledger, now: Time) -> Decision {
        let gathering = ledger.declaration.gathering;
        gathering.decide(ledger.basket.clone(), &self.entries, hub.payload_limit, now)
    }

    /// The numbers of what is taken in: all but the items that are left.
    fn consumed(&self, decision: &Decision) -> Vec<i64> {
        let gone = decision.batches.iter().flatten().chain(&decision.discarded);
        let orders = self.entries.iter().zip(&self.rows).filter(|(entry, _)| matches!(entry, Entry::Told(_)));
        let gone = gone.map(|place| self.rows[*place].seq);
        gone.chain(orders.map(|(_, row)| row.seq)).chain(self.rest.iter().copied()).collect()
    }
}

/// Takes a turn of a claimed batch. `pause` says when to look again at what cannot be read, whatever else happens.
pub(super) fn take(
    hub: &Hub,
    held: Held,
    image: &RunImage,
    mut ledger: Ledger,
    pause: impl FnOnce(&Error) -> Duration,
) -> Result<Taken, Error> {
    let now = hub.clock.now();
    let mut mail = Mail::read(hub, &image.inbox, &ledger, true)?;
    mail.cut(&ledger);
    mail.declare(&mut ledger);
    let decision = mail.decide(hub, &ledger, now);
    let mut consumed = mail.consumed(&decision);
    let (stuck, why) = mail.stuck(&decision)?;
    let mut wait = wait(&decision);
    if let Some(error) = &why {
        wait.until = Some(wait.until.unwrap_or(Time::MAX).min(now + pause(error)));
        wait.reason = Some(said(error));
    }
    if mail.is_cut {
        wait.until = Some(now);
    }
    mail.remember(&decision, &mut ledger.senders, now);
    ledger.basket = decision.basket;
    ledger.stay(stuck, &consumed);
    let (mut units, mut starts) = (Vec::new(), Vec::new());
    for (place, batch) in (0_u16..).zip(&decision.batches) {
        let items: Vec<&Bytes> = batch.iter().map(|place| &mail.rows[*place].body).collect();
        let run = run_id(held.run, mail.rows[batch[0]].seq, place, now);
        let new = ledger.declaration.new_run(hub, &items)?;
        units.push(Unit { run, act: Act::Start(Box::new(new)) });
        ledger.basket.took(LastBatch { run, at: now, items: items.len() });
        starts.push(run);
    }
    let Held { run, claim, .. } = held;
    if mail.is_told() || !starts.is_empty() {
        let (steps, consumed) = (vec![ledger.write(hub, image, now)?], std::mem::take(&mut consumed));
        units.push(Unit { run, act: Act::Record { claim, steps, consumed, forget: true } });
    }
    let wake = wait.until;
    units.push(Unit { run, act: Act::Park { claim, steps: Vec::new(), consumed, wait } });
    let (turn, workflow) = (ledger.turn, ledger.declaration.workflow);
    Ok(Taken { units, starts, workflow, wake, turn, is_stuck: why.is_some() })
}

/// What the run waits for until there is something to decide again.
fn wait(decision: &Decision) -> Wait {
    let (listens, look) = match decision.attention {
        Attention::NextItem => (true, Time::MAX),
        Attention::At(then) => (false, then),
    };
    let until = decision.due.unwrap_or(Time::MAX).min(look);
    Wait {
        state: RunState::Suspended,
        until: (until < Time::MAX).then_some(until),
        topics: topics(listens),
        reason: Some("gathering items".to_owned()),
        blocked_by: None,
    }
}
