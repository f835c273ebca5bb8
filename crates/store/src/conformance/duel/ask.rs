//! One operation, in the model's terms, and what a store answers to it.

use std::{collections::HashMap, fmt::Debug, sync::Arc, time::Duration};

use bytes::Bytes;
use windlass_core::NodeId;

use crate::{
    Act, Aged, Claim, Claimed, Death, DefinitionId, Discard, Heartbeat, InboxRow, Joined, NewNode, NodeRow,
    Page, Place, Pulse, Query, QueueChange, RunImage, SpreadClaim, SpreadRow, Standing, Store, StoreError,
    Unit, Wait, conformance::Fixture,
};

/// An operation.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Advance(Duration),
    Kill(NodeId),
    Join(NewNode),
    Heartbeat(NodeId, u32),
    Leave(NodeId),
    DeclareDead(NodeId, NodeId, Death),
    Sweep(NodeId),
    Commit(Option<NodeId>, Vec<Unit>),
    Claim(Claim),
    ClaimTasks(SpreadClaim),
    Unblock(NodeId, Vec<(Arc<str>, DefinitionId)>),
    Find(Query),
    Aged(Aged),
    Cell(Arc<str>),
    SwapCell(Option<NodeId>, Arc<str>, u64, Bytes),
    Discard(Discard),
    ChangeQueue(Arc<str>, QueueChange),
}

/// How one store's numbers are called by the model. The model's own are empty.
#[derive(Debug, Default)]
pub(super) struct Names {
    definitions: HashMap<DefinitionId, DefinitionId>,
    foreign_definitions: HashMap<DefinitionId, DefinitionId>,
    rows: HashMap<i64, i64>,
    foreign_rows: HashMap<i64, i64>,
}

impl Ask {
    /// Asks a store, and answers in words that can be compared.
    pub(super) async fn put(self, fixture: &impl Fixture, store: &dyn Store, names: &Names) -> String {
        match self {
            Self::Advance(span) => {
                fixture.advance(span);
                String::new()
            }
            Self::Kill(node) => show(Ok(fixture.kill(node))),
            Self::Join(node) => show(store.join(node).await.map(|Joined { now, fenced }| (now, fenced))),
            Self::Heartbeat(node, running) => show(
                store
                    .heartbeat(node, Pulse { running, ended: [("tight".into(), running)].into() })
                    .await
                    .map(|mut beat| {
                        names.beat(&mut beat);
                        beat
                    }),
            ),
            Self::Leave(node) => show(store.leave(node).await),
            Self::DeclareDead(judge, condemned, why) => show(store.declare_dead(judge, condemned, why).await),
            // Which runs a bounded sweep takes first is the store's choice, so it is not bounded.
            Self::Sweep(judge) => show(store.sweep(judge, 1_000_000).await),
            Self::Commit(node, mut batch) => {
                batch.iter_mut().for_each(|unit| names.unit(unit));
                // Half of them on this thread, where the store lets us.
                let at_once = if batch.len() % 2 == 1 { store.commit_at_once(node, &batch) } else { None };
                show(match at_once {
                    Some(answers) => Ok(answers),
                    None => store.commit(node, Arc::new(batch)).await,
                })
            }
            Self::Claim(mut claim) => {
                names.workflows(&mut claim.workflows);
                let looked = show(store.look(claim.clone()).await);
                let claimed = show(store.claim(claim).await.map(|mut claimed: Claimed| {
                    claimed.runs.iter_mut().for_each(|image| names.image(image));
                    claimed
                }));
                [looked, claimed].join("; ")
            }
            Self::ClaimTasks(mut claim) => {
                names.workflows(&mut claim.workflows);
                show(store.claim_tasks(claim).await.map(|mut claimed| {
                    names.spread(&mut claimed.tasks);
                    claimed.limited = false;
                    claimed
                }))
            }
            Self::Unblock(node, mut workflows) => {
                names.workflows(&mut workflows);
                show(store.unblock(node, workflows).await)
            }
            Self::Cell(name) => show(store.cell(name).await),
            Self::SwapCell(node, name, version, body) => {
                show(store.swap_cell(node, name, version, body).await)
            }
            Self::Aged(request) => show(store.aged(request).await),
            Self::Discard(request) => show(store.discard(request).await),
            Self::ChangeQueue(queue, change) => show(store.change_queue(queue, change).await),
            Self::Find(query) => show(store.find(query).await.map(|page| names.page(page))),
        }
    }
}

/// An answer in words. What an error says is for people; which one it is counts.
pub(super) fn show<T: Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(StoreError::Fenced) => "Fenced".into(),
        Err(error) => format!("{error:?}"),
    }
}

impl Names {
    /// Learns that the model's `ours` is this store's `theirs`.
    pub(super) fn learn_definition(&mut self, ours: DefinitionId, theirs: DefinitionId) {
        self.definitions.insert(theirs, ours);
        self.foreign_definitions.insert(ours, theirs);
    }

    /// Learns that the model's row is this store's, unless it is known as another already.
    pub(super) fn learn_row(&mut self, ours: i64, theirs: i64) {
        if !self.rows.contains_key(&theirs) && !self.foreign_rows.contains_key(&ours) {
            self.rows.insert(theirs, ours);
            self.foreign_rows.insert(ours, theirs);
        }
    }

    /// Puts the model's words in place of this store's.
    pub(super) fn image(&self, image: &mut RunImage) {
        self.standing(&mut image.standing);
        self.inbox(&mut image.inbox);
        self.spread(&mut image.published);
    }

    pub(super) fn spread(&self, rows: &mut [SpreadRow]) {
        for row in rows {
            row.definition = rename(&self.definitions, row.definition);
        }
    }

    pub(super) fn inbox(&self, rows: &mut [InboxRow]) {
        for row in rows {
            row.seq = self.rows.get(&row.seq).copied().unwrap_or(row.seq);
        }
    }

    /// The inboxes of several runs: which of them comes first within a batch is the store's choice.
    pub(super) fn inboxes(&self, rows: &mut [InboxRow]) {
        self.inbox(rows);
        rows.sort_by_key(|row| row.run);
    }

    pub(super) fn page(&self, mut page: Page) -> Page {
        page.runs.iter_mut().for_each(|run| self.standing(&mut run.standing));
        // Any place will do from which the search goes on.
        page.next = None;
        page
    }

    pub(super) fn node(row: &mut NodeRow) {
        row.pid = 0;
        row.host.clear();
    }

    fn beat(&self, beat: &mut Heartbeat) {
        beat.others.iter_mut().for_each(Self::node);
        self.inboxes(&mut beat.inbox);
    }

    fn standing(&self, standing: &mut Standing) {
        standing.definition = standing.definition.map(|id| rename(&self.definitions, id));
        if let Place::Waiting(Wait { blocked_by: Some(id), .. }) = &mut standing.place {
            *id = rename(&self.definitions, *id);
        }
    }

    /// Puts this store's words in place of the model's.
    fn unit(&self, unit: &mut Unit) {
        match &mut unit.act {
            Act::Start(new) => {
                if let Some(owner) = &mut new.owner {
                    owner.definition = rename(&self.foreign_definitions, owner.definition);
                }
            }
            Act::Record { consumed, .. } => self.consumed(consumed),
            Act::Publish { definition, .. } => *definition = rename(&self.foreign_definitions, *definition),
            Act::Park { consumed, wait, .. } => {
                self.consumed(consumed);
                wait.blocked_by = wait.blocked_by.map(|id| rename(&self.foreign_definitions, id));
            }
            _ => {}
        }
    }

    fn workflows(&self, workflows: &mut [(Arc<str>, DefinitionId)]) {
        for (_, id) in workflows {
            *id = rename(&self.foreign_definitions, *id);
        }
    }

    fn consumed(&self, rows: &mut [i64]) {
        for row in rows {
            *row = self.foreign_rows.get(row).copied().unwrap_or(*row);
        }
    }
}

fn rename(names: &HashMap<DefinitionId, DefinitionId>, id: DefinitionId) -> DefinitionId {
    names.get(&id).copied().unwrap_or(id)
}
