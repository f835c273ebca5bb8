//! Making runs.

use std::time::Duration;

use windlass_core::{RunId, RunState};
use windlass_store::{KeyConflict, NewKey, NewRun, Refusal, Wait, Written};

use crate::{
    commit::{Batch, Stop, record},
    held::Held,
    key,
    place::Carried,
    run::{self, Core},
    waiting,
};

impl Batch<'_> {
    /// Makes a run, unless its id or its key stands for one.
    pub(crate) fn start(&mut self, id: RunId, new: &NewRun) -> Result<Written, Stop> {
        let core = Core {
            workflow: self.names.number(self.conn, &new.workflow)?,
            queue: self.names.number(self.conn, &new.queue)?,
            priority: new.priority,
            created_at: self.now,
        };
        if let Some(new) = &new.key {
            if run::core(self.conn, id)?.is_some() {
                return Ok(Written::Existing { run: id });
            }
            if let Some(run) = self.standing_for(core.workflow, new)? {
                return Ok(Written::Existing { run });
            }
        }
        if !run::add(&mut self.pens.add_run, id, &core, new)? {
            return Ok(Written::Existing { run: id });
        }
        if let Some(new) = &new.key {
            key::take(self.conn, core.workflow, new, id, self.now)?;
        }
        run::add_tags(self.conn, id, &new.tags)?;
        let owned = self.place(id, &core, new)?;
        Ok(Written::Started { at: self.now, owned })
    }

    /// Gives a new run its first place and its records. Answers whether the committing node holds it.
    fn place(&mut self, id: RunId, core: &Core, new: &NewRun) -> Result<bool, rusqlite::Error> {
        let opened_at = self.now + new.delay.unwrap_or(Duration::ZERO);
        let owner = if opened_at > self.now || self.mirror.is_none() { None } else { new.owner.as_ref() };
        let owner = match owner {
            Some(owner) if !self.is_any_ready(core)? => Some(owner),
            _ => None,
        };
        let mut carried = Carried::FRESH;
        carried.definition = owner.map(|owner| owner.definition.0);

        let claim = owner.map_or(windlass_core::ClaimId(0), |owner| owner.claim);
        let mut held = Held::fresh(claim, *core, carried);
        record(self.conn, &mut self.pens.add_step, id, &mut held, &new.steps)?;

        if opened_at > self.now {
            carried.opened_at = Some(opened_at.0);
            self.stirred = true;
            waiting::add(&mut self.pens.add_waiting, id, core, &carried, &delay(opened_at))?;
        } else if let (Some(_), Some(mirror)) = (owner, self.mirror.as_deref_mut()) {
            mirror.add(id, held);
            return Ok(true);
        } else {
            self.make_ready(id, core, &carried)?;
        }
        Ok(false)
    }

    /// The run that answers a start with this key, if the key is taken.
    fn standing_for(&self, workflow: i64, new: &NewKey) -> Result<Option<RunId>, Stop> {
        match key::read(self.conn, workflow, &new.key, self.now)? {
            Some((run, digest)) if digest != new.digest && new.conflict == KeyConflict::Refuse => {
                Err(Refusal::KeyTaken { run }.into())
            }
            taken => Ok(taken.map(|(run, _)| run)),
        }
    }
}

/// How a run waits for the end of its delay.
fn delay(until: windlass_core::Time) -> Wait {
    Wait { state: RunState::Pending, until: Some(until), topics: Vec::new(), reason: None, blocked_by: None }
}
