//! Writing batches.

use std::collections::{HashMap, HashSet};

use windlass_core::{ClaimId, NodeId, RunId, Time};
use windlass_store::{Act, NewRun, Refusal, Unit, Written};

use crate::{
    batch::{Batch, Frame, KeyFact, Outcome, Standing},
    error::Fault,
    session::Session,
    single::{Changes, Single, Stop},
    tally::Tally,
};

/// The answers to a batch.
pub(crate) type Answers = Vec<Result<Written, Refusal>>;

/// A run within a batch, as far as it was looked at.
#[derive(Clone, Copy)]
enum Seen {
    /// Its holder records, under this claim.
    Recorded(ClaimId),
    /// It has begun or ended: whatever else comes is looked at one by one.
    Closed,
    /// Its units are written one by one.
    Single,
}

/// Which units are written together: records and ends of held runs, and starts. The rest is written
/// one by one, before them: units of different runs do not touch each other, but for starts that want to be held.
struct Plan {
    is_single: Vec<bool>,
    any_single: bool,
}

impl Plan {
    fn of(units: &[Unit], careful: bool) -> Self {
        let mut runs: HashMap<RunId, Seen> = HashMap::with_capacity(units.len());
        for Unit { run, act } in units {
            let seen = runs.get(run).copied();
            let next = match (act, seen) {
                _ if careful || act.check().is_err() => Seen::Single,
                (Act::Record { claim, consumed, .. }, None) if consumed.is_empty() => Seen::Recorded(*claim),
                (Act::Record { claim, consumed, .. }, Some(Seen::Recorded(before)))
                    if consumed.is_empty() && before == *claim =>
                {
                    Seen::Recorded(before)
                }
                (Act::End { .. }, None) => Seen::Closed,
                (Act::End { claim, .. }, Some(Seen::Recorded(before))) if before == *claim => Seen::Closed,
                (Act::Start(_), None) => Seen::Closed,
                _ => Seen::Single,
            };
            runs.insert(*run, next);
        }
        let is_single = |unit: &Unit| matches!(runs.get(&unit.run), Some(Seen::Single));
        let any_single = units.iter().any(is_single);
        // A start that wants to be held is not while another of its line is ready: then the order of all counts, and
        // whether one with a key begins at all.
        let wants = |unit: &Unit| matches!(&unit.act, Act::Start(new) if new.owner.is_some());
        let has_key = |unit: &Unit| matches!(&unit.act, Act::Start(new) if new.key.is_some());
        let in_order = (any_single || units.iter().any(has_key)) && units.iter().any(wants);
        let is_start = |unit: &Unit| matches!(unit.act, Act::Start(_));
        let is_single: Vec<_> =
            units.iter().map(|unit| is_single(unit) || (in_order && is_start(unit))).collect();
        Self { any_single: is_single.contains(&true), is_single }
    }

    /// The order in which units are written one by one. Starts with a key take their keys in the order of the keys, so
    /// that two batches never wait for each other; but only where nobody can tell: each is all that the batch has of
    /// its run, and no start wants to be held, or all do and nothing else makes a run ready or ends a ready one.
    fn order(&self, units: &[Unit]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..units.len()).filter(|at| self.is_single[*at]).collect();
        let is_keyed = |unit: &&Unit| matches!(&unit.act, Act::Start(new) if new.key.is_some());
        if units.iter().filter(is_keyed).count() < 2 {
            return order;
        }
        let mut count: HashMap<RunId, usize> = HashMap::new();
        for unit in units {
            *count.entry(unit.run).or_default() += 1;
        }
        let starts = || units.iter().filter(|unit| matches!(unit.act, Act::Start(_)));
        let wants = |unit: &&Unit| matches!(&unit.act, Act::Start(new) if new.owner.is_some());
        let wanted = starts().filter(wants).count();
        let moves = |unit: &Unit| {
            !matches!(unit.act, Act::Start(_) | Act::Record { .. } | Act::Save { .. } | Act::End { .. })
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

/// Writes a batch, in order, and answers each unit. Also says whether others may want to know.
pub(crate) async fn commit(
    session: &Session,
    tally: &parking_lot::Mutex<Tally>,
    node: Option<NodeId>,
    units: &[Unit],
) -> Result<(Answers, bool), Fault> {
    let empty = tally.lock().take_empty();
    let mut written = attempt(session, node, units, &empty, Care::Little).await;
    for care in [Care::Some, Care::Full] {
        if matches!(&written, Err(fault) if fault.is_of_data()) {
            // One of them cannot be written, or was written before: it must not take the others with it.
            written = attempt(session, node, units, &empty, care).await;
        }
    }
    let mut tally = tally.lock();
    let (answers, changes) = written.inspect_err(|_| tally.give_back(empty))?;
    let mut rows: HashMap<i64, Vec<(RunId, ClaimId)>> = HashMap::new();
    for begun in changes.begun {
        if let Some((claim, row)) = begun.held {
            rows.entry(row).or_default().push((begun.run, claim));
        }
    }
    for (row, runs) in rows {
        tally.add(row, runs);
    }
    for run in changes.gone {
        tally.remove(run);
    }
    Ok((answers, changes.stirred))
}

/// How much is taken for granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    /// That the node holds what it says, and that nothing was written before: as it nearly always is.
    Little,
    /// That every value can be written.
    Some,
    /// Nothing.
    Full,
}

async fn attempt(
    session: &Session,
    node: Option<NodeId>,
    units: &[Unit],
    empty: &[i64],
    care: Care,
) -> Result<(Answers, Changes), Fault> {
    let careful = care == Care::Full;
    let plan = Plan::of(units, careful);
    let mut together = Together { batch: Batch::forgetting(empty), ..Together::default() };
    for (unit, is_single) in units.iter().zip(&plan.is_single) {
        if !is_single {
            together.add(unit, node);
        }
    }
    let mut answers = vec![None; units.len()];
    if care == Care::Little && !plan.any_single {
        let outcome = together.batch.write(session, node, Frame::Own).await?;
        return Ok(together.answer(units, answers, outcome, Time::default(), Changes::default()));
    }
    let work = async |now: Time| {
        let mut single = Single { session, node, now, changes: Changes::default() };
        if plan.any_single {
            let singles = units.iter().zip(&plan.is_single).filter(|(_, is_single)| **is_single);
            single.lock(singles.map(|(unit, _)| unit)).await?;
            one_by_one(&mut single, units, &plan, &mut answers, careful).await?;
        }
        let outcome = together.batch.write(session, node, Frame::Begun).await?;
        Ok(together.answer(units, answers, outcome, now, single.changes))
    };
    session.transact(node, work).await
}

async fn one_by_one(
    single: &mut Single<'_>,
    units: &[Unit],
    plan: &Plan,
    answers: &mut [Option<Result<Written, Refusal>>],
    careful: bool,
) -> Result<(), Fault> {
    let mut refused = HashSet::new();
    for at in plan.order(units) {
        let (Unit { run, act }, answer) = (&units[at], &mut answers[at]);
        if refused.contains(run) {
            *answer = Some(Err(Refusal::Earlier));
            continue;
        }
        if careful {
            single.session.client().batch_execute("SAVEPOINT unit").await?;
        }
        let mut written = single.write(*run, act).await;
        if careful && matches!(&written, Err(Stop::Fault(fault)) if fault.is_taken()) {
            // Its first sending was still under way; now that is seen.
            single.session.client().batch_execute("ROLLBACK TO SAVEPOINT unit").await?;
            written = single.write(*run, act).await;
        }
        *answer = Some(match written {
            Ok(written) => Ok(written),
            Err(Stop::Refusal(refusal)) => Err(refusal),
            Err(Stop::Fault(fault)) if careful && fault.is_of_data() => {
                single.session.client().batch_execute("ROLLBACK TO SAVEPOINT unit").await?;
                let Fault::Sql(error) = fault else {
                    unreachable!("only the database finds fault with data")
                };
                Err(Refusal::Unfit(crate::error::describe(&error)))
            }
            Err(Stop::Fault(fault)) => return Err(fault),
        });
        if matches!(answer, Some(Err(_))) {
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
        mut answers: Vec<Option<Result<Written, Refusal>>>,
        outcome: Outcome,
        now: Time,
        mut changes: Changes,
    ) -> (Answers, Changes) {
        let Outcome { now: own, standings, begun, keys } = outcome;
        let now = own.unwrap_or(now);
        let keys: HashMap<RunId, KeyFact> = self.keyed.iter().copied().zip(keys).collect();
        let standings: HashMap<RunId, Standing> = self.held.iter().copied().zip(standings).collect();
        let owned: HashMap<RunId, bool> =
            begun.iter().map(|begun| (begun.run, begun.held.is_some())).collect();
        changes.stirred |= begun.iter().any(|begun| begun.held.is_none());
        changes.begun.extend(begun);
        let mut refused = HashSet::new();
        for (answer, Unit { run, act }) in answers.iter_mut().zip(units) {
            if answer.is_some() {
                continue;
            }
            *answer = Some(match (act, standings.get(run)) {
                (Act::Start(new), _) => match (owned.get(run), keys.get(run)) {
                    (None, Some(fact)) => fact.judge(*run, new),
                    (owned, _) => Ok(Written::Started { at: now, owned: owned == Some(&true) }),
                },
                (act, Some(Standing::Held)) => {
                    if let Act::End { claim, .. } = act {
                        changes.gone.push((*run, *claim));
                        changes.stirred = true;
                    }
                    Ok(Written::Done { at: now })
                }
                (Act::Record { claim, .. } | Act::End { claim, .. }, Some(Standing::Said(at))) => {
                    changes.gone.push((*run, *claim));
                    Ok(Written::Done { at: *at })
                }
                _ if refused.insert(*run) => Err(Refusal::NotYours),
                _ => Err(Refusal::Earlier),
            });
        }
        let answers = answers.into_iter().map(|answer| answer.unwrap_or(Err(Refusal::Earlier))).collect();
        (answers, changes)
    }

    fn add(&mut self, unit: &'a Unit, node: Option<NodeId>) {
        let run = unit.run;
        match &unit.act {
            Act::Start(new) => self.start(run, new, node),
            Act::Record { claim, steps, .. } => {
                self.hold(run, *claim);
                self.batch.record(run, *claim, steps);
            }
            Act::End { claim, steps, end } => {
                self.hold(run, *claim);
                self.batch.record(run, *claim, steps);
                self.batch.end(run, *claim, end);
            }
            _ => unreachable!("all else is written one by one"),
        }
    }

    fn hold(&mut self, run: RunId, claim: ClaimId) {
        if self.is_held.insert(run) {
            self.held.push(run);
            self.batch.hold(run, claim);
        }
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
