//! Two stores side by side.

use std::{collections::HashMap, sync::Arc};

use windlass_core::{ClaimId, NodeId, RunId, RunState};

use super::{
    Dice, Disagreement, Duel,
    ask::{Ask, Names, show},
};
use crate::{
    Act, Claim, DefinitionId, DefinitionRow, Place, Query, RunImage, SpreadClaim, Store, Unit,
    conformance::{Failing, Fixture, scene::b},
};

/// The workflows of a duel, and how many versions each has.
pub(super) const WORKFLOWS: [&str; 2] = ["etl", "mail"];
const VERSIONS: [&str; 3] = ["1", "2", "3"];
/// The keys that starts choose from.
pub(super) const KEYS: [&str; 3] = ["k1", "k2", "k3"];
/// How many moves there are between two looks at everything.
const BETWEEN_LOOKS: usize = 8;

/// What the next operation is drawn from: everything that was ever named, and where the model stands.
#[derive(Default)]
pub(super) struct World {
    pub(super) nodes: Vec<NodeId>,
    pub(super) killed: Vec<NodeId>,
    pub(super) runs: Vec<RunId>,
    pub(super) images: Vec<RunImage>,
    /// Every holding that there ever was.
    pub(super) held: Vec<(NodeId, ClaimId, RunId)>,
    pub(super) versions: Vec<(Arc<str>, DefinitionId)>,
    pub(super) last_commit: Option<(Option<NodeId>, Vec<Unit>)>,
    pub(super) last_claim: Option<Claim>,
    pub(super) last_tasks: Option<SpreadClaim>,
    /// Every claim of published attempts that there ever was.
    pub(super) task_claims: Vec<ClaimId>,
    pub(super) kills: bool,
}

impl World {
    /// Where the runs stand.
    fn states(&self) -> HashMap<RunId, RunState> {
        self.images.iter().map(|image| (image.run.id, image.standing.state())).collect()
    }
}

/// The runs that an operation may retry.
fn reopened(ask: &Ask) -> Vec<RunId> {
    let Ask::Commit(_, units) = ask else { return Vec::new() };
    let reopens = units.iter().filter(|unit| matches!(unit.act, Act::Reopen { .. }));
    reopens.map(|unit| unit.run).collect()
}

/// A model and a store under test in one duel.
pub(super) struct Arena<M, S> {
    model: (M, Arc<dyn Store>),
    subject: (S, Arc<dyn Store>),
    ours: Names,
    theirs: Names,
    world: World,
}

/// What was looked at, and what the two said.
type Difference = (String, String, String);

impl<M: Fixture, S: Fixture> Arena<M, S> {
    /// Plays the moves until the two disagree.
    pub(super) async fn play(
        seed: u64,
        moves: &[u64],
        duel: Duel,
        model: M,
        subject: S,
    ) -> Option<Disagreement> {
        let mut arena = Self {
            model: side(model),
            subject: side(subject),
            ours: Names::default(),
            theirs: Names::default(),
            world: World { kills: duel.kills, ..World::default() },
        };
        arena.define().await;
        let mut asked = Vec::new();
        for (number, &roll) in moves.iter().enumerate() {
            let mut dice = Dice::new(roll);
            let ask = arena.world.draw(&mut dice);
            let how = if duel.faults { draw_failing(&mut dice, &ask) } else { None };
            asked.push((ask.clone(), how));
            let last = number + 1 == moves.len();
            let everything = last || number % BETWEEN_LOOKS == 0;
            if let Err((about, model, subject)) = arena.step(ask, how, everything).await {
                let asked = asked.iter().map(in_words).collect();
                return Some(Disagreement { seed, asked, about, model, subject });
            }
        }
        None
    }

    async fn define(&mut self) {
        for workflow in WORKFLOWS {
            for version in VERSIONS {
                let row =
                    || DefinitionRow { workflow: workflow.into(), version: version.into(), body: b("{}") };
                let ours = self.model.1.define(row()).await.expect("the model defines");
                let theirs = self.subject.1.define(row()).await.expect("the store defines");
                self.theirs.learn_definition(ours, theirs);
                self.world.versions.push((workflow.into(), ours));
            }
        }
    }

    async fn step(&mut self, ask: Ask, how: Option<Failing>, everything: bool) -> Result<(), Difference> {
        let touched = self.world.remember(&ask);
        let before = self.world.states();
        let reopened = reopened(&ask);
        let (subject, is_twice) = match how {
            Some(how) => self.ask_with_fault(&ask, how).await,
            None => (self.ask_subject(&ask).await, false),
        };
        let mut model = ask.clone().put(&self.model.0, &*self.model.1, &self.ours).await;
        if is_twice {
            model = ask.put(&self.model.0, &*self.model.1, &self.ours).await;
        }
        differ("the answer", model, subject)?;
        self.look_around(if everything { None } else { Some(touched) }).await?;
        self.check_steps(&before, &reopened)
    }

    /// Whether legal steps lead from where every run stood to where it stands: an operation may be several. What the two
    /// agree on can be wrong too.
    fn check_steps(&self, before: &HashMap<RunId, RunState>, reopened: &[RunId]) -> Result<(), Difference> {
        for (run, is) in self.world.states() {
            // Whoever retries has seen which end it is that is left; a generation has no other.
            let begins = reopened.contains(&run) || !before.contains_key(&run);
            let was = before.get(&run).copied().filter(|_| !begins).unwrap_or(RunState::Pending);
            if !was.leads_to(is, |step| !step.is_retry()) {
                let about = format!("the steps of run {run}: nothing legal leads from {was} to {is}");
                return Err((about, is.to_string(), is.to_string()));
            }
        }
        Ok(())
    }

    async fn ask_subject(&self, ask: &Ask) -> String {
        ask.clone().put(&self.subject.0, &*self.subject.1, &self.theirs).await
    }

    /// Asks the store under test while a commit of its fails, and then again, as whoever got no answer does. Also answers
    /// whether it was done twice.
    async fn ask_with_fault(&self, ask: &Ask, how: Failing) -> (String, bool) {
        let can_fail = self.subject.0.fail_commit(Some(how));
        let answer = self.ask_subject(ask).await;
        self.subject.0.fail_commit(None);
        // What changes nothing may have nothing to commit.
        let is_lost = if can_fail { answer.contains("Unavailable(") } else { how == Failing::Unanswered };
        if is_lost { (self.ask_subject(ask).await, how == Failing::Unanswered) } else { (answer, false) }
    }

    /// Compares the runs named, or all that can be seen, and takes the model's images for the next draw.
    async fn look_around(&mut self, only: Option<Vec<RunId>>) -> Result<(), Difference> {
        self.world.images.clear();
        for run in self.world.runs.clone() {
            let ours = self.model.1.load(run).await.expect("the model loads");
            if only.as_ref().is_none_or(|only| only.contains(&run)) {
                self.compare_run(run, ours.as_ref()).await?;
            }
            self.world.images.extend(ours);
        }
        for image in &self.world.images {
            if let Place::Owned { node, claim } = image.standing.place
                && !self.world.held.contains(&(node, claim, image.run.id))
            {
                self.world.held.push((node, claim, image.run.id));
            }
        }
        if only.is_none() { self.compare_rest().await } else { Ok(()) }
    }

    async fn compare_run(&mut self, run: RunId, ours: Option<&RunImage>) -> Result<(), Difference> {
        let mut theirs = self.subject.1.load(run).await;
        if let (Some(ours), Ok(Some(theirs))) = (ours, &mut theirs) {
            for (ours, theirs) in ours.inbox.iter().zip(&theirs.inbox) {
                self.theirs.learn_row(ours.seq, theirs.seq);
            }
            self.theirs.image(theirs);
        }
        differ(
            &format!("run {run}"),
            show(Ok(ours)),
            show(theirs.as_ref().map(Option::as_ref).map_err(Clone::clone)),
        )
    }

    async fn compare_rest(&self) -> Result<(), Difference> {
        let (model, subject) = (&*self.model.1, &*self.subject.1);
        differ("all nodes", nodes(model).await, nodes(subject).await)?;
        let all = || Query { limit: usize::MAX, ..Query::default() };
        let page = show(subject.find(all()).await.map(|page| self.theirs.page(page)));
        differ("all runs", show(model.find(all()).await), page)?;
        differ("all queues", show(model.queues(None).await), show(subject.queues(None).await))?;
        differ("all ends", self.ends(model).await, self.ends(subject).await)?;
        for workflow in WORKFLOWS {
            for key in KEYS {
                let ask = async |store: &dyn Store| show(store.by_key(workflow.into(), key.into()).await);
                differ(&format!("key {key} of {workflow}"), ask(model).await, ask(subject).await)?;
            }
        }
        for &node in self.world.nodes.iter().filter(|node| !self.world.killed.contains(node)) {
            let ask = async |store: &dyn Store, names: &Names| {
                show(store.inbox(node, None).await.map(|mut rows| {
                    names.inboxes(&mut rows);
                    rows
                }))
            };
            let (ours, theirs) = (ask(model, &self.ours).await, ask(subject, &self.theirs).await);
            differ(&format!("inboxes of {node}"), ours, theirs)?;
            let mut theirs = subject.held_tasks(node).await;
            if let Ok(rows) = &mut theirs {
                self.theirs.spread(rows);
            }
            differ(&format!("tasks of {node}"), show(model.held_tasks(node).await), show(theirs))?;
        }
        Ok(())
    }

    async fn ends(&self, store: &dyn Store) -> String {
        let mut ends = store.ends(self.world.runs.clone()).await;
        if let Ok(ends) = &mut ends {
            ends.sort_by_key(|(run, _)| *run);
        }
        show(ends)
    }
}

/// Now and then, how the commit of an operation fails that makes one.
fn draw_failing(dice: &mut Dice, ask: &Ask) -> Option<Failing> {
    let commits = match ask {
        Ask::Advance(_) | Ask::Kill(_) | Ask::Find(_) | Ask::Aged(_) | Ask::Cell(_) => false,
        // A store may declare a queue before it changes it: which of the two had failed decides what comes then.
        Ask::ChangeQueue(..) => false,
        _ => true,
    };
    (commits && dice.chance(25)).then(|| dice.one([Failing::Lost, Failing::Unanswered]))
}

fn in_words((ask, how): &(Ask, Option<Failing>)) -> String {
    match how {
        Some(how) => format!("{how:?}, and again: {ask:?}"),
        None => format!("{ask:?}"),
    }
}

fn side<F: Fixture>(fixture: F) -> (F, Arc<dyn Store>) {
    let store = fixture.store();
    (fixture, store)
}

async fn nodes(store: &dyn Store) -> String {
    let mut rows = store.nodes().await;
    if let Ok(rows) = &mut rows {
        rows.iter_mut().for_each(Names::node);
    }
    show(rows)
}

fn differ(about: &str, model: String, subject: String) -> Result<(), Difference> {
    if model == subject { Ok(()) } else { Err((about.to_owned(), model, subject)) }
}
