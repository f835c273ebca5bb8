//! The random tester finds what is wrong with a store, and leaves little unasked.

#![cfg(feature = "conformance")]

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::broadcast;
use windlass_core::{NodeId, RunId, Time};
use windlass_store::{
    Act, Aged, AgedRun, Answer, Backlog, Cell, Claim, Claimed, Count, Death, DefinitionId, DefinitionRow,
    Discard, End, Heartbeat, Hint, InboxRow, Joined, KeyLife, LogLine, Looked, NewNode, NodeRow, Page, Pulse,
    Query, QueueChange, QueueChanged, QueueRow, Reach, Refusal, RunImage, SpreadClaim, SpreadClaimed,
    SpreadRow, StepRow, Store, Swapped, Swept, Tally, Unit, Versions, Written,
    conformance::{Duel, Fixture, MemoryFixture},
};

/// The model with something wrong: what goes in and what comes out can be bent.
#[derive(Clone)]
struct Bent {
    inner: Arc<dyn Store>,
    unit: fn(&mut Unit),
    image: fn(&mut RunImage),
    claimed: fn(&mut Claimed),
    /// What commits were answered with, by variant.
    answers: Arc<Mutex<BTreeSet<String>>>,
}

struct BentFixture {
    inner: MemoryFixture,
    store: Bent,
}

impl Bent {
    fn fixture(&self) -> BentFixture {
        let inner = MemoryFixture::new();
        BentFixture { store: Self { inner: inner.store(), ..self.clone() }, inner }
    }
}

impl Default for Bent {
    fn default() -> Self {
        Self {
            inner: MemoryFixture::new().store(),
            unit: |_| {},
            image: |_| {},
            claimed: |_| {},
            answers: Arc::default(),
        }
    }
}

impl Fixture for BentFixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn advance(&self, span: Duration) {
        self.inner.advance(span);
    }

    fn kill(&self, node: NodeId) -> bool {
        self.inner.kill(node)
    }
}

impl Store for Bent {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn join(&self, node: NewNode) -> Answer<'_, Joined> {
        self.inner.join(node)
    }

    fn heartbeat(&self, node: NodeId, pulse: Pulse) -> Answer<'_, Heartbeat> {
        self.inner.heartbeat(node, pulse)
    }

    fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.inner.leave(node)
    }

    fn declare_dead(&self, judge: NodeId, condemned: NodeId, why: Death) -> Answer<'_, bool> {
        self.inner.declare_dead(judge, condemned, why)
    }

    fn sweep(&self, judge: NodeId, limit: usize) -> Answer<'_, Swept> {
        self.inner.sweep(judge, limit)
    }

    fn commit(
        &self,
        node: Option<NodeId>,
        batch: Arc<Vec<Unit>>,
    ) -> Answer<'_, Vec<Result<Written, Refusal>>> {
        let mut batch = (*batch).clone();
        batch.iter_mut().for_each(self.unit);
        Box::pin(async move {
            let answers = self.inner.commit(node, Arc::new(batch)).await?;
            for answer in &answers {
                let text = match answer {
                    Ok(written) => format!("{written:?}"),
                    Err(refusal) => format!("{refusal:?}"),
                };
                let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                let owned = if text.contains("owned: true") { " owned" } else { "" };
                self.answers.lock().insert(format!("{word}{owned}"));
            }
            Ok(answers)
        })
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            let mut claimed = self.inner.claim(request).await?;
            (self.claimed)(&mut claimed);
            Ok(claimed)
        })
    }

    fn look(&self, request: Claim) -> Answer<'_, Looked> {
        self.inner.look(request)
    }

    fn change_queue(&self, queue: Arc<str>, change: QueueChange) -> Answer<'_, QueueChanged> {
        self.inner.change_queue(queue, change)
    }

    fn queues(&self, only: Option<Arc<str>>) -> Answer<'_, Vec<QueueRow>> {
        self.inner.queues(only)
    }

    fn claim_tasks(&self, request: SpreadClaim) -> Answer<'_, SpreadClaimed> {
        self.inner.claim_tasks(request)
    }

    fn held_tasks(&self, node: NodeId) -> Answer<'_, Vec<SpreadRow>> {
        self.inner.held_tasks(node)
    }

    fn unblock(&self, node: NodeId, workflows: Vec<(Arc<str>, DefinitionId)>) -> Answer<'_, usize> {
        self.inner.unblock(node, workflows)
    }

    fn define(&self, definition: DefinitionRow) -> Answer<'_, DefinitionId> {
        self.inner.define(definition)
    }

    fn definition(&self, id: DefinitionId) -> Answer<'_, Option<DefinitionRow>> {
        self.inner.definition(id)
    }

    fn definitions(&self, which: Versions) -> Answer<'_, Vec<(DefinitionId, DefinitionRow)>> {
        self.inner.definitions(which)
    }

    fn load(&self, run: RunId) -> Answer<'_, Option<RunImage>> {
        Box::pin(async move {
            let mut image = self.inner.load(run).await?;
            image.iter_mut().for_each(self.image);
            Ok(image)
        })
    }

    fn inbox(&self, node: NodeId, only: Option<Vec<RunId>>) -> Answer<'_, Vec<InboxRow>> {
        self.inner.inbox(node, only)
    }

    fn ends(&self, runs: Vec<RunId>) -> Answer<'_, Vec<(RunId, End)>> {
        self.inner.ends(runs)
    }

    fn by_key(&self, workflow: Arc<str>, key: String) -> Answer<'_, Option<RunId>> {
        self.inner.by_key(workflow, key)
    }

    fn find(&self, query: Query) -> Answer<'_, Page> {
        self.inner.find(query)
    }

    fn count(&self, query: Query, look: usize) -> Answer<'_, Vec<Count>> {
        self.inner.count(query, look)
    }

    fn backlog(&self, look: usize) -> Answer<'_, Backlog> {
        self.inner.backlog(look)
    }

    fn outlines(&self, runs: Vec<RunId>, limit: usize) -> Answer<'_, Vec<(RunId, Vec<StepRow>)>> {
        self.inner.outlines(runs, limit)
    }

    fn tally(&self, add: Vec<Tally>) -> Answer<'_, ()> {
        self.inner.tally(add)
    }

    fn tallies(&self, since: Time) -> Answer<'_, Vec<Tally>> {
        self.inner.tallies(since)
    }

    fn add_log(&self, lines: Vec<LogLine>) -> Answer<'_, ()> {
        self.inner.add_log(lines)
    }

    fn log(&self, run: RunId) -> Answer<'_, Vec<LogLine>> {
        self.inner.log(run)
    }

    fn aged(&self, request: Aged) -> Answer<'_, Vec<AgedRun>> {
        self.inner.aged(request)
    }

    fn discard(&self, request: Discard) -> Answer<'_, Vec<Result<(), Refusal>>> {
        self.inner.discard(request)
    }

    fn cell(&self, name: Arc<str>) -> Answer<'_, Option<Cell>> {
        self.inner.cell(name)
    }

    fn swap_cell(
        &self,
        node: Option<NodeId>,
        name: Arc<str>,
        version: u64,
        body: bytes::Bytes,
    ) -> Answer<'_, Swapped> {
        self.inner.swap_cell(node, name, version, body)
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeRow>> {
        self.inner.nodes()
    }

    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.inner.hints()
    }
}

async fn model() -> MemoryFixture {
    MemoryFixture::new()
}

#[tokio::test]
async fn a_flaw_is_found_replayed_and_cut_down() {
    let honest = Bent::default();
    let flaws: Vec<(&str, Bent)> = vec![
        (
            "recoveries are not counted",
            Bent { image: |image| image.standing.recoveries = 0, ..honest.clone() },
        ),
        ("saved values are lost", Bent { image: |image| image.saved.clear(), ..honest.clone() }),
        (
            "steps are shown by name",
            Bent { image: |image| image.steps.sort_by(|a, b| a.name.cmp(&b.name)), ..honest.clone() },
        ),
        (
            "claims are not in order of urgency",
            Bent { claimed: |claimed| claimed.runs.sort_by_key(|image| image.run.id), ..honest.clone() },
        ),
        (
            "a park forgets what was taken in",
            Bent {
                unit: |unit| {
                    if let Act::Park { consumed, .. } = &mut unit.act {
                        consumed.clear();
                    }
                },
                ..honest.clone()
            },
        ),
        (
            "a park forgets its topics",
            Bent {
                unit: |unit| {
                    if let Act::Park { wait, .. } = &mut unit.act {
                        wait.topics.clear();
                    }
                },
                ..honest.clone()
            },
        ),
        (
            "keys never lapse",
            Bent {
                unit: |unit| {
                    if let Act::Start(new) = &mut unit.act
                        && let Some(key) = &mut new.key
                    {
                        key.life = KeyLife::Kept;
                    }
                },
                ..honest.clone()
            },
        ),
        (
            "message keys are ignored",
            Bent {
                unit: |unit| {
                    if let Act::Send(message) = &mut unit.act {
                        message.key = None;
                    }
                },
                ..honest.clone()
            },
        ),
        (
            "what is held is withdrawn too",
            Bent {
                unit: |unit| {
                    if let Act::Withdraw { reach, .. } = &mut unit.act {
                        *reach = Reach::All;
                    }
                },
                ..honest.clone()
            },
        ),
        (
            "deaths of published attempts are not counted",
            Bent {
                image: |image| image.published.iter_mut().for_each(|row| row.deaths = 0),
                ..honest.clone()
            },
        ),
        (
            "nothing is forgotten",
            Bent {
                unit: |unit| {
                    if let Act::Record { forget, .. } = &mut unit.act {
                        *forget = false;
                    }
                },
                ..honest.clone()
            },
        ),
        (
            "what runs hear of their children is lost",
            Bent { image: |image| image.inbox.retain(|row| !row.topic.starts_with('>')), ..honest.clone() },
        ),
        (
            "any generation is reopened",
            Bent {
                unit: |unit| {
                    if let Act::Reopen { after } = &mut unit.act {
                        *after = 1;
                    }
                },
                ..honest.clone()
            },
        ),
    ];
    for (flaw, bent) in flaws {
        let subject = async || bent.fixture();
        let mut found = None;
        for seed in 0..600 {
            found = Duel::default().seek(seed, model, subject).await;
            if found.is_some() {
                break;
            }
        }
        let found = found.unwrap_or_else(|| panic!("{flaw}: not found"));
        let again = Duel::default().seek(found.seed, model, subject).await.expect("a seed replays");
        assert_eq!(found.to_string(), again.to_string(), "{flaw}");
        assert!(found.asked.len() <= 20, "{flaw}: {found}");
    }
}

#[tokio::test]
async fn every_answer_of_a_commit_is_reached() {
    let bent = Bent::default();
    Duel::default().fight(0..100, model, async || bent.fixture()).await;
    let answers = bent.answers.lock().clone();
    let expected = [
        "Begun",
        "Done",
        "Earlier",
        "Ended",
        "Existing",
        "Held",
        "KeyTaken",
        "NotYours",
        "Open",
        "Started",
        "Started owned",
        "TooLate",
        "Unfit",
        "Unknown",
        "Withdrawn",
    ];
    assert_eq!(answers, expected.map(String::from).into());
}
