//! Forgetting runs that have ended.

use windlass_core::RunId;

use super::state::{Key, State};
use crate::{Aged, AgedRun, Discard, Keyed, Refusal, StoreError};

impl State {
    pub(super) fn aged(&self, request: &Aged) -> Vec<AgedRun> {
        let ended = self.runs.values().filter_map(|kept| {
            let (run, end) = (&kept.image.run, kept.end()?);
            let generation = kept.image.standing.generation;
            let workflow = run.workflow.clone();
            Some(AgedRun { workflow, run: run.id, generation, state: end.state, at: end.at })
        });
        let is_after = |aged: &AgedRun| {
            let place = (&*aged.workflow, aged.run);
            request.after.as_ref().is_none_or(|(workflow, run)| place > (&**workflow, *run))
        };
        let mut aged: Vec<_> = ended.filter(|aged| is_after(aged) && aged.run < request.before).collect();
        aged.sort_by(|a, b| (&a.workflow, a.run).cmp(&(&b.workflow, b.run)));
        aged.truncate(request.limit);
        aged
    }

    pub(super) fn discard(&mut self, request: &Discard) -> Result<Vec<Result<(), Refusal>>, StoreError> {
        if let Some(node) = request.node {
            self.fence(node)?;
        }
        let one = |(run, generation): &(RunId, u32)| self.discard_one(*run, *generation, request.keyed);
        Ok(request.runs.iter().map(one).collect())
    }

    fn discard_one(&mut self, run: RunId, generation: u32, keyed: Keyed) -> Result<(), Refusal> {
        let kept = self.runs.get(&run).ok_or(Refusal::Unknown)?;
        if kept.end().is_none() || kept.image.standing.generation != generation {
            return Err(Refusal::Open);
        }
        if let Some(parent) = &kept.image.run.parent
            && let Some(told) = self.runs.get(&parent.run)
        {
            let message = parent.message(run, generation);
            let seq = message.key.and_then(|key| told.messages.get(&(message.topic, key)));
            if told.image.inbox.iter().any(|row| Some(&row.seq) == seq) {
                return Err(Refusal::Awaited);
            }
        }
        let lives = |key: &Key| key.run == run && key.lapses_at.is_some_and(|at| self.now < at);
        if keyed == Keyed::Stays && self.keys.values().any(lives) {
            return Err(Refusal::Keyed);
        }
        self.runs.remove(&run);
        self.logs.remove(&run);
        self.keys.retain(|_, key| key.run != run);
        Ok(())
    }
}
