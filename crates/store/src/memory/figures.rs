//! Counts and logs, for people.

use std::{collections::BTreeMap, sync::Arc};

use windlass_core::{RunId, RunState, Time};

use super::state::State;
use crate::{Backlog, Count, LogLine, Place, Query, QueueBacklog, StepRow, Tally};

impl State {
    pub(super) fn count(&self, query: Query, look: usize) -> Vec<Count> {
        let query = Query { after: None, ..query };
        let looked: Vec<_> = self.runs.values().rev().take(look).filter(|kept| kept.fits(&query)).collect();
        let count = |state| Count {
            state,
            count: looked.iter().filter(|kept| kept.image.standing.state() == state).count() as u64,
            whole: self.runs.len() <= look,
        };
        let wanted = |state: &RunState| query.states.is_empty() || query.states.contains(state);
        RunState::ALL.into_iter().filter(wanted).map(count).collect()
    }

    pub(super) fn backlog(&self) -> Backlog {
        let (mut queues, mut due) = (BTreeMap::<Arc<str>, QueueBacklog>::new(), None);
        for run in &self.open {
            let image = &self.runs[run].image;
            let name = &image.run.queue;
            let queue = || QueueBacklog::new(Arc::clone(name));
            match &image.standing.place {
                Place::Ready => {
                    let queue = queues.entry(Arc::clone(name)).or_insert_with(queue);
                    let opened_at = image.standing.opened_at;
                    queue.ready += 1;
                    queue.oldest = Some(queue.oldest.map_or(opened_at, |oldest| oldest.min(opened_at)));
                }
                Place::Owned { .. } => queues.entry(Arc::clone(name)).or_insert_with(queue).held += 1,
                Place::Waiting(wait) => due = due.into_iter().chain(wait.until).min(),
                Place::Ended(_) => {}
            }
        }
        Backlog { queues: queues.into_values().collect(), due }
    }

    pub(super) fn outlines(&self, runs: &[RunId], mut limit: usize) -> Vec<(RunId, Vec<StepRow>)> {
        let mut outlines = Vec::new();
        for run in runs {
            let Some(kept) = self.runs.get(run) else { continue };
            let bare = |step: &StepRow| StepRow { output: None, detail: None, ..step.clone() };
            let steps: Vec<_> = kept.image.steps.iter().take(limit).map(bare).collect();
            limit -= steps.len();
            outlines.push((*run, steps));
        }
        outlines
    }

    pub(super) fn tally(&mut self, add: Vec<Tally>) {
        for Tally { workflow, state, at, count } in add {
            if count > 0 {
                *self.tallies.entry((at, Arc::clone(&workflow), state)).or_default() += count;
            }
            *self.tallies.entry((Tally::EVER, workflow, state)).or_default() += count;
        }
        let first = self.now.0 - Tally::MINUTES as i64 * 60_000_000;
        self.tallies.retain(|(at, ..), _| *at == Tally::EVER || at.0 >= first);
    }

    pub(super) fn tallies(&self, since: Time) -> Vec<Tally> {
        let is_wanted = |at: Time| if since == Tally::EVER { at == since } else { at >= since };
        let wanted = self.tallies.iter().filter(|((at, ..), _)| is_wanted(*at));
        let tally = |((at, workflow, state), count): (&(Time, Arc<str>, RunState), &i64)| {
            let (workflow, state, at, count) = (Arc::clone(workflow), *state, *at, *count);
            Tally { workflow, state, at, count }
        };
        wanted.map(tally).collect()
    }

    pub(super) fn add_log(&mut self, lines: Vec<LogLine>) {
        for line in lines.into_iter().filter(|line| self.runs.contains_key(&line.run)) {
            let kept = self.logs.entry(line.run).or_default();
            let is_full = kept.len() >= LogLine::MOST;
            match kept.last_mut() {
                Some(last) if is_full => last.dropped += line.dropped + 1,
                _ => kept.push(line),
            }
        }
    }
}
