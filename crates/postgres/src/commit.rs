//! Writing batches.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;
use windlass_core::{ClaimId, NodeId, RunId, Time};
use windlass_store::{Act, NewRun, News, Refusal, Unit, Written};

use crate::{
    batch::{Batch, KeyFact, Outcome, Standing},
    error::Fault,
    held::{Facts, Held, UnderWay},
    parents::Parents,
    session::Session,
    single::{Changes, Single, Stop},
    tenure::{Tenure, Tenures},
};

/// The answers to a batch.
pub(crate) type Answers = Vec<Result<Written, Refusal>>;

/// A run within a batch, as far as it was looked at.
#[derive(Clone, Copy)]
enum Seen {
    /// Its holder records, under this claim.
    Recorded(ClaimId),
    /// Outcomes of its published attempts come.
    Delivered,
    /// Messages come.
    Sent,
    /// It has begun or ended: whatever else comes is looked at one by one.
    Closed,
    /// Its units are written one by one.
    Single,
}

/// Whether an act may move its run to another place, which is then locked first.
const fn moves(act: &Act) -> bool {
    matches!(act, Act::Park { .. } | Act::Release { .. } | Act::Send(_) | Act::Deliver { .. })
}

/// Which units are written together: what holders record, end and give up, messages and outcomes, and starts. The rest
/// is written one by one, before them: units of different runs do not touch each other, but for starts that want to be
/// held.
struct Plan {
    is_single: Vec<bool>,
    any_single: bool,
}

impl Plan {
    fn of(units: &[Unit], parents: &Parents, careful: bool) -> Self {
        // Then a start may touch the run of another unit, so that they are written one after the other.
        let careful = careful || units.iter().any(looks_at_another);
        // A start that wants to be held is not while another of its line is ready.
        let wants = |unit: &Unit| matches!(&unit.act, Act::Start(new) if new.owner.is_some());
        let any_wants = units.iter().any(wants);
        let mut runs: HashMap<RunId, Seen> = HashMap::with_capacity(units.len());
        for unit @ Unit { run, act } in units {
            let seen = runs.get(run).copied();
            let moves = moves(act) || parents.told_by(unit).is_some();
            let next = match (act, act.holder(), seen) {
                _ if careful || act.check().is_err() || (any_wants && moves) => Seen::Single,
                // These look before they write: what is there already may have forgotten what it began with.
                (Act::Record { forget: true, .. }, ..) => Seen::Single,
                (Act::Start(new), ..) if new.key.is_some() && !new.steps.is_empty() => Seen::Single,
                (Act::Start(_), _, None) => Seen::Closed,
                (Act::Send(_), _, None | Some(Seen::Sent)) => Seen::Sent,
                (Act::Deliver { .. }, _, None | Some(Seen::Delivered)) => Seen::Delivered,
                (Act::Save { .. } | Act::Publish { .. } | Act::Withdraw { .. }, ..) => Seen::Single,
                (Act::Record { .. }, Some(claim), None) => Seen::Recorded(claim),
                (Act::Record { .. }, Some(claim), Some(Seen::Recorded(before))) if before == claim => {
                    Seen::Recorded(claim)
                }
                (_, Some(_), None) => Seen::Closed,
                (_, Some(claim), Some(Seen::Recorded(before))) if before == claim => Seen::Closed,
                _ => Seen::Single,
            };
            runs.insert(*run, next);
        }
        let is_single = |run: &RunId| runs.get(run).map(|seen| matches!(seen, Seen::Single));
        let bound = parents.bound(is_single);
        let is_single = |unit: &Unit| is_single(&unit.run) == Some(true) || bound.contains(&unit.run);
        let any_single = units.iter().any(is_single);
        // Then the order of all counts, and whether one with a key begins at all.
        let has_key = |unit: &Unit| matches!(&unit.act, Act::Start(new) if new.key.is_some() || new.queue_key.is_some());
        let in_order = (any_single || units.iter().any(has_key)) && any_wants;
        let is_start = |unit: &Unit| matches!(unit.act, Act::Start(_));
        let is_single: Vec<_> =
            units.iter().map(|unit| is_single(unit) || (in_order && is_start(unit))).collect();
        Self { any_single: is_single.contains(&true), is_single }
    }

    /// The order in which units are written one by one. Starts with a key take their keys in the order of the keys, so
    /// that two batches never wait for each other; but only where nobody can tell: each is all that the batch has of
    /// its run, and no start wants to be held, or all do and nothing else makes a run ready or ends a ready one.
    fn order(&self, units: &[Unit], parents: &Parents) -> Vec<usize> {
        let mut order: Vec<usize> = (0..units.len()).filter(|at| self.is_single[*at]).collect();
        let is_keyed = |unit: &&Unit| matches!(&unit.act, Act::Start(new) if new.key.is_some());
        let are_starts = units.iter().all(|unit| is_keyed(&unit));
        if units.iter().filter(is_keyed).count() < 2 || (!are_starts && units.iter().any(looks_at_another)) {
            return order;
        }
        let mut count: HashMap<RunId, usize> = HashMap::new();
        for unit in units {
            *count.entry(unit.run).or_default() += 1;
            if let Some(parent) = parents.told_by(unit) {
                *count.entry(parent).or_default() += 1;
            }
        }
        let starts = || units.iter().filter(|unit| matches!(unit.act, Act::Start(_)));
        let wants = |unit: &&Unit| matches!(&unit.act, Act::Start(new) if new.owner.is_some());
        let wanted = starts().filter(wants).count();
        let moves = |unit: &Unit| {
            !matches!(unit.act, Act::Start(_) | Act::Record { .. } | Act::Save { .. } | Act::End { .. })
                || parents.told_by(unit).is_some()
        };
        if wanted > 0 && (wanted < starts().count() || units.iter().any(moves)) {
            return order;
        }
        let key = |at: usize| match &units[at].act {
            Act::Start(new) if count[&units[at].run] == 1 => {
                new.key.as_ref().map(|key| (&*new.workflow, key.key.as_str()))
            }
            _ => None,
        };
        let places: Vec<usize> = (0..order.len()).filter(|place| key(order[*place]).is_some()).collect();
        let mut sorted: Vec<usize> = places.iter().map(|place| order[*place]).collect();
        sorted.sort_by_key(|at| key(*at));
        for (place, at) in places.into_iter().zip(sorted) {
            order[place] = at;
        }
        order
    }
}

/// Whether a start may change the run that has its key.
fn looks_at_another(unit: &Unit) -> bool {
    key_of_another(unit).is_some()
}

/// The workflow and the key of a start that may change the run that has it.
pub(crate) fn key_of_another(unit: &Unit) -> Option<(&str, &str)> {
    let Act::Start(new) = &unit.act else { return None };
    let key = new.key.as_ref().filter(|key| key.conflict.looks_at_the_run())?;
    Some((&new.workflow, &key.key))
}

/// What the units of a batch have to do with each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bond {
    /// All are written, or none.
    Together,
    /// One that would have to wait for long is left out.
    Apart,
}

/// How long a unit waits for a stranger's transaction once somebody in its batch has waited for too long.
const BRIEF: &str = "SET LOCAL lock_timeout = '50ms'";
/// So many units are written one by one in no time.
const FEW: usize = 64;

/// Writes a batch, in order, and answers each unit. Also says what others may want to know.
pub(crate) async fn commit(
    session: &Session,
    held: &Mutex<Held>,
    node: Option<NodeId>,
    units: &[Unit],
    bond: Bond,
) -> Result<(Answers, News), Fault> {
    let _under_way = UnderWay::begin(held);
    let known = known(&held.lock(), node, units);
    let parents = Parents::of(session, units, &known).await?;
    let empty = part_with(&mut held.lock(), units);
    let batch = Given { node, units, parents, empty };
    let is_apart = bond == Bond::Apart;
    // Whoever takes care of each unit meets the next stranger at a smaller price; but there must not be many.
    let care = match is_apart && units.len() <= FEW && held.lock().has_met_a_stranger() {
        true => Care::Brief,
        false => Care::Little(&known),
    };
    let mut written = attempt(session, &batch, care).await;
    for care in [Care::Some, Care::Full] {
        if matches!(&written, Err(fault) if fault.is_of_data()) {
            // One of them cannot be written, or was written before: it must not take the others with it.
            written = attempt(session, &batch, care).await;
        }
    }
    if is_apart && matches!(&written, Err(fault) if fault.is_lock()) {
        written = attempt(session, &batch, Care::Brief).await;
    }
    let mut held = held.lock();
    if let (Err(fault), Some(node)) = (&written, node)
        && fault.is_fenced()
    {
        held.gone(node);
    }
    let (answers, changes) = written.inspect_err(|_| held.give_back(batch.empty))?;
    if is_apart && answers.contains(&Err(Refusal::Busy)) {
        held.meets_a_stranger();
    }
    if let Some(node) = node.filter(|_| changes.begun.iter().any(|begun| begun.held.is_some())) {
        let rows: HashMap<RunId, (ClaimId, i64)> =
            changes.begun.iter().filter_map(|begun| Some((begun.run, begun.held?))).collect();
        for (Unit { run, act }, answer) in units.iter().zip(&answers) {
            if let (Act::Start(new), Ok(Written::Started { owned: true, .. })) = (act, answer)
                && let Some((claim, row)) = rows.get(run)
            {
                let parent = new.parent.as_ref().map(|parent| parent.run);
                let (workflow, tenure) = (Arc::clone(&new.workflow), Tenure::FIRST);
                let facts = Facts { workflow, generation: 1, parent, tenure, is_bare: true };
                held.add((*run, *claim), *row, node, facts);
            }
        }
    }
    for run in changes.gone {
        held.remove(run);
    }
    Ok((answers, changes.news))
}

/// What is known of the run of each unit.
fn known(held: &Held, node: Option<NodeId>, units: &[Unit]) -> Vec<Option<Facts>> {
    units.iter().map(|Unit { run, act }| held.known((*run, act.holder()?), node)).collect()
}

/// The rows of `holding` that may go. Whatever gives a run up makes doubtful who holds it, until there is an answer; and
/// whatever leaves something behind is noted before it is sent.
fn part_with(held: &mut Held, units: &[Unit]) -> Vec<i64> {
    for Unit { run, act } in units {
        match act {
            Act::End { claim, .. } | Act::Park { claim, .. } | Act::Release { claim } => {
                held.doubt((*run, *claim));
            }
            Act::Save { claim, .. } | Act::Publish { claim, .. } => held.leaves_something((*run, *claim)),
            _ => {}
        }
    }
    held.take_empty()
}

/// What is to be written.
struct Given<'u> {
    node: Option<NodeId>,
    units: &'u [Unit],
    parents: Parents,
    /// Rows of `holding` of which nothing is left.
    empty: Vec<i64>,
}

/// How much is taken for granted.
#[derive(Clone, Copy)]
enum Care<'k> {
    /// That the node holds what it says, and that nothing was written before: as it nearly always is. Comes with what
    /// is known of the run of each unit.
    Little(&'k [Option<Facts>]),
    /// That every value can be written.
    Some,
    /// Nothing.
    Full,
    /// Nothing, and nobody is waited for: whatever meets a stranger's transaction is left out.
    Brief,
}

/// Whether there is nothing to look up: no run is given up or takes anything in, and everything is known of those that
/// are held.
fn is_plain(units: &[Unit], known: &[Option<Facts>]) -> bool {
    units.iter().zip(known).all(|(unit, known)| match &unit.act {
        Act::End { .. } => known.is_some(),
        Act::Record { consumed, .. } => known.is_some() && consumed.is_empty(),
        act => !moves(act),
    })
}

async fn attempt(session: &Session, batch: &Given<'_>, care: Care<'_>) -> Result<(Answers, Changes), Fault> {
    let Given { node, units, parents, empty } = batch;
    let node = *node;
    let careful = matches!(care, Care::Full | Care::Brief);
    let is_brief = matches!(care, Care::Brief);
    let plan = Plan::of(units, parents, careful);
    let known = if let Care::Little(known) = care { known } else { &[] };
    let mut together = Together { batch: Batch::forgetting(empty), ..Together::default() };
    let mut answers = vec![None; units.len()];
    if !known.is_empty() && !plan.any_single && is_plain(units, known) {
        for (unit, known) in units.iter().zip(known) {
            together.add_known(unit, node, known.as_ref(), parents.told_by(unit));
        }
        let (now, outcome) = together.batch.write_alone(session, node).await?;
        return Ok(together.answer(units, parents, answers, outcome, now, Changes::default()));
    }
    let mut tenures = Tenures::default();
    for (unit, facts) in units.iter().zip(known) {
        if let (Some(claim), Some(facts)) = (unit.act.holder(), facts) {
            tenures.add(unit.run, claim, facts.tenure);
        }
    }
    if !plan.any_single && tenures.are_of_all(node, units) {
        // Nothing is looked at in between.
        for unit in units.iter() {
            together.add(unit, node, &tenures, parents.told_by(unit));
        }
        let (now, outcome) = together.batch.write_whole(session, node).await?;
        return Ok(together.answer(units, parents, answers, outcome, now, Changes::default()));
    }
    let work = async |now: Time| {
        tenures.learn(session, node, units).await?;
        let mut single = Single { session, node, now, tenures, changes: Changes::default() };
        if is_brief {
            // Each locks what it needs by itself: two batches that wait for each other do so for a moment.
            session.client().batch_execute(BRIEF).await?;
            one_by_one(&mut single, batch, &plan, &mut answers, care).await?;
        } else if plan.any_single {
            // All at once, also what is written together: two batches must not wait for each other.
            let locked =
                units.iter().zip(&plan.is_single).filter(|(unit, single)| **single || moves(&unit.act));
            single.lock(locked.map(|(unit, _)| unit), parents).await?;
            one_by_one(&mut single, batch, &plan, &mut answers, care).await?;
        }
        for (unit, _) in units.iter().zip(&plan.is_single).filter(|(_, is_single)| !**is_single) {
            together.add(unit, node, &single.tenures, parents.told_by(unit));
        }
        let outcome = together.batch.write(session, node).await?;
        Ok(together.answer(units, parents, answers, outcome, now, single.changes))
    };
    session.transact(node, work).await
}

async fn one_by_one(
    single: &mut Single<'_>,
    batch: &Given<'_>,
    plan: &Plan,
    answers: &mut [Option<Result<Written, Refusal>>],
    care: Care<'_>,
) -> Result<(), Fault> {
    let Given { units, parents, .. } = batch;
    let (careful, is_brief) = (matches!(care, Care::Full | Care::Brief), matches!(care, Care::Brief));
    let mut refused = HashSet::new();
    // Keys that strangers have taken.
    let mut strange = HashSet::new();
    for at in plan.order(units, parents) {
        let (Unit { run, act }, answer) = (&units[at], &mut answers[at]);
        let is_holders = act.holder().is_some();
        if is_holders && refused.contains(run) {
            *answer = Some(Err(Refusal::Earlier));
            continue;
        }
        let key = match act {
            Act::Start(new) => new.key.as_ref().map(|key| (&*new.workflow, key.key.as_str())),
            _ => None,
        };
        if key.is_some_and(|key| strange.contains(&key)) {
            *answer = Some(Err(Refusal::Busy));
            continue;
        }
        if careful {
            single.session.client().batch_execute("SAVEPOINT unit").await?;
        }
        let locked = if is_brief { single.lock(std::iter::once(&units[at]), parents).await } else { Ok(()) };
        let mut written = match locked {
            Ok(()) => single.write(*run, act).await,
            Err(fault) => Err(Stop::Fault(fault)),
        };
        if careful && matches!(&written, Err(Stop::Fault(fault)) if fault.is_taken()) {
            // Its first sending was still under way; now that is seen.
            single.session.client().batch_execute("ROLLBACK TO SAVEPOINT unit").await?;
            single.tenures.learn(single.session, single.node, units).await?;
            written = single.write(*run, act).await;
        }
        *answer = Some(match written {
            Ok(written) => Ok(written),
            Err(Stop::Refusal(refusal)) => Err(refusal),
            Err(Stop::Fault(fault)) if is_brief && fault.is_lock() => {
                single.session.client().batch_execute("ROLLBACK TO SAVEPOINT unit").await?;
                strange.extend(key);
                Err(Refusal::Busy)
            }
            Err(Stop::Fault(fault)) if careful && fault.is_of_data() => {
                single.session.client().batch_execute("ROLLBACK TO SAVEPOINT unit").await?;
                let Fault::Sql(error) = fault else {
                    unreachable!("only the database finds fault with data")
                };
                Err(Refusal::Unfit(crate::error::describe(&error)))
            }
            Err(Stop::Fault(fault)) => return Err(fault),
        });
        if is_holders && matches!(answer, Some(Err(_))) {
            refused.insert(*run);
        }
    }
    Ok(())
}

/// The units that are written together.
#[derive(Default)]
struct Together<'a> {
    batch: Batch<'a>,
    /// The runs whose standing is asked, in order.
    held: Vec<RunId>,
    is_held: HashSet<RunId>,
    /// The runs whose keys are asked for, in order.
    keyed: Vec<RunId>,
    /// Lines in which a run of this batch is made ready.
    ready: HashSet<(&'a str, &'a str)>,
}

impl<'a> Together<'a> {
    /// The answers to all units, some of which have theirs.
    fn answer(
        &self,
        units: &[Unit],
        parents: &Parents,
        mut answers: Vec<Option<Result<Written, Refusal>>>,
        outcome: Outcome,
        now: Time,
        mut changes: Changes,
    ) -> (Answers, Changes) {
        let Outcome { standings, begun, keys, sent, delivered } = outcome;
        let mut delivered = delivered.into_iter();
        let mut sent = sent.into_iter();
        let keys: HashMap<RunId, KeyFact> = self.keyed.iter().copied().zip(keys).collect();
        let standings: Option<HashMap<RunId, Standing>> =
            standings.map(|standings| self.held.iter().copied().zip(standings).collect());
        let owned: HashMap<RunId, bool> =
            begun.iter().map(|begun| (begun.run, begun.held.is_some())).collect();
        let news = &mut changes.news;
        news.runs |= begun.iter().any(|begun| begun.held.is_none());
        changes.begun.extend(begun);
        let mut refused = HashSet::new();
        for (answer, unit @ Unit { run, act }) in answers.iter_mut().zip(units) {
            if answer.is_some() {
                continue;
            }
            let standing = match &standings {
                Some(standings) => standings.get(run).copied(),
                None => Some(Standing::Held),
            };
            *answer = Some(match (act, standing) {
                (Act::Start(new), _) => match (owned.get(run), keys.get(run)) {
                    (None, Some(fact)) => fact.judge(*run, new),
                    (owned, _) => Ok(Written::Started { at: now, owned: owned == Some(&true) }),
                },
                (Act::Send(_), _) => {
                    let sent = sent.next().unwrap_or(Err(Refusal::Unknown));
                    if sent.is_ok() {
                        news.sent_to(*run);
                    }
                    sent.map(|()| Written::Done { at: now })
                }
                (Act::Deliver { .. }, _) => {
                    let is_delivered = delivered.next() == Some(true);
                    if is_delivered {
                        news.outcome_of(*run);
                    }
                    Ok(if is_delivered { Written::Done { at: now } } else { Written::TooLate })
                }
                (act, Some(Standing::Held)) => {
                    match act {
                        Act::End { claim, .. } => {
                            changes.gone.push((*run, *claim));
                            news.ended.push(*run);
                            if let Some(parent) = parents.told_by(unit) {
                                news.sent_to(parent);
                            }
                        }
                        Act::Park { claim, .. } | Act::Release { claim } => {
                            changes.gone.push((*run, *claim));
                            news.runs = true;
                        }
                        _ => {}
                    }
                    Ok(Written::Done { at: now })
                }
                (act, Some(Standing::Said(at))) => {
                    changes.gone.extend(act.holder().map(|claim| (*run, claim)));
                    Ok(Written::Done { at })
                }
                _ if refused.insert(*run) => Err(Refusal::NotYours),
                _ => Err(Refusal::Earlier),
            });
        }
        let answers = answers.into_iter().map(|answer| answer.unwrap_or(Err(Refusal::Earlier))).collect();
        (answers, changes)
    }

    /// Adds what needs no second look.
    fn add_known(
        &mut self,
        unit: &'a Unit,
        node: Option<NodeId>,
        known: Option<&'a Facts>,
        parent: Option<RunId>,
    ) {
        match (&unit.act, known) {
            (Act::Record { steps, .. }, Some(facts)) => self.batch.record(unit.run, facts.tenure, steps),
            (Act::End { claim, steps, end }, Some(facts)) => {
                if let Some(parent) = parent {
                    self.batch.tell(unit.run, facts.tenure, parent);
                }
                self.batch.end_known(unit.run, *claim, steps, end, facts);
            }
            _ => self.add(unit, node, &Tenures::default(), parent),
        }
    }

    fn add(&mut self, unit: &'a Unit, node: Option<NodeId>, tenures: &Tenures, parent: Option<RunId>) {
        let run = unit.run;
        let tenure = unit.act.holder().map(|claim| self.hold(run, claim, tenures));
        match (&unit.act, tenure) {
            (Act::Start(new), _) => self.start(run, new, node),
            (Act::Record { steps, consumed, .. }, Some(tenure)) => {
                self.batch.record(run, tenure, steps);
                self.batch.consume(run, tenure, consumed);
            }
            (Act::Park { steps, consumed, wait, .. }, Some(tenure)) => {
                self.batch.record(run, tenure, steps);
                self.batch.consume(run, tenure, consumed);
                self.batch.give_up(run, tenure, Some(wait));
            }
            (Act::Release { .. }, Some(tenure)) => self.batch.give_up(run, tenure, None),
            (Act::Deliver { claim, task, outcome }, _) => self.batch.deliver(run, *claim, task, outcome),
            (Act::Send(message), _) => self.batch.send(run, message),
            (Act::End { claim, steps, end }, Some(tenure)) => {
                if let Some(parent) = parent {
                    self.batch.tell(run, tenure, parent);
                }
                self.batch.record(run, tenure, steps);
                self.batch.end(run, *claim, tenure, end);
            }
            _ => unreachable!("all else is written one by one"),
        }
    }

    fn hold(&mut self, run: RunId, claim: ClaimId, tenures: &Tenures) -> Tenure {
        let tenure = tenures.of(run, claim);
        if self.is_held.insert(run) {
            self.held.push(run);
            self.batch.hold(run, claim, tenure);
        }
        tenure
    }

    fn start(&mut self, run: RunId, new: &'a NewRun, node: Option<NodeId>) {
        let line = (&*new.workflow, &*new.queue);
        let is_wanted = node.is_some() && new.owner.is_some() && !self.ready.contains(&line);
        if !is_wanted && new.delay.is_none_or(|delay| delay.as_micros() == 0) {
            self.ready.insert(line);
        }
        if new.key.is_some() {
            self.keyed.push(run);
        }
        self.batch.start(run, new, is_wanted);
    }
}
