//! Making runs.

use std::{sync::Arc, time::Duration};

use windlass_core::{RunId, RunState};
use windlass_store::{Idle, KeyConflict, NewKey, NewRun, Refusal, STOPS, Wait, Written, lane};

use crate::{
    column,
    commit::{Batch, Stop},
    held::Held,
    inbox, key,
    place::{Carried, Spot, locate},
    ready::{self, ReadyRow},
    remains,
    run::{self, Core, NewRunRow},
    waiting,
};

impl<'a> Batch<'a> {
    /// Makes a run, unless its id or its key stands for one.
    pub(crate) fn start(&mut self, id: RunId, new: &'a NewRun) -> Result<Written, Stop> {
        let core = self.core(new)?;
        if let Some(key) = &new.key
            && let Some(run) = self.standing_for(core.workflow, new, key, id)?
        {
            return Ok(Written::Existing { run });
        }
        if self.any_remains()? {
            remains::make_way(self.conn, id)?;
        }
        if !self.sheets.start(NewRunRow { id, core, new })? {
            return Ok(Written::Existing { run: id });
        }
        if let Some(new) = &new.key {
            key::take(self.conn, core.workflow, new, id, self.now)?;
        }
        run::add_tags(self.conn, id, &new.tags)?;
        let owned = self.place(id, &core, new)?;
        Ok(Written::Started { at: self.now, owned })
    }

    /// What the places of a new run are found by. Starts that come together are often alike.
    fn core(&mut self, new: &'a NewRun) -> Result<Core, rusqlite::Error> {
        let NewRun { workflow, queue, priority, parent, queue_key, .. } = new;
        let (workflow, queue) = match self.line {
            Some(line) if Arc::ptr_eq(line.0, workflow) && Arc::ptr_eq(line.1, queue) => (line.2, line.3),
            _ => {
                let numbers = (self.names.number(self.conn, workflow)?, self.names.number(self.conn, queue)?);
                self.line = Some((workflow, queue, numbers.0, numbers.1));
                numbers
            }
        };
        let (priority, has_parent, has_lane) = (*priority, parent.is_some(), queue_key.is_some());
        let timeout = new.timeout.map(column::micros);
        Ok(Core { workflow, queue, priority, created_at: self.now, has_parent, has_lane, timeout })
    }

    /// Gives a new run its first place and its records. Answers whether the committing node holds it.
    fn place(&mut self, id: RunId, core: &Core, new: &'a NewRun) -> Result<bool, rusqlite::Error> {
        if core.has_lane {
            self.declare(core.queue)?;
        }
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
        held.record(&mut self.sheets.steps, id, &new.steps)?;

        if opened_at > self.now {
            carried.opened_at = Some(opened_at.0);
            self.stirred = true;
            waiting::add(&mut self.pens.add_waiting, id, core, &carried, &delay(opened_at))?;
        } else if let (Some(_), Some(mirror)) = (owner, self.mirror.as_deref_mut()) {
            mirror.add(id, held);
            return Ok(true);
        } else {
            let lane = new.queue_key.as_deref().map(|key| lane(Some(key)));
            let stops_at = carried.over_at(core);
            self.make_ready_in(ReadyRow { run: id, core: *core, carried, lane, stops_at });
        }
        Ok(false)
    }

    /// The run that answers a start with this id and key, if the key is taken.
    fn standing_for(
        &mut self,
        workflow: i64,
        new: &'a NewRun,
        key: &'a NewKey,
        id: RunId,
    ) -> Result<Option<RunId>, Stop> {
        let Some((run, digest, has_life)) = key::read(self.conn, workflow, &key.key, self.now)? else {
            return Ok(None);
        };
        if run == id {
            return Ok(Some(id));
        }
        // The id counts before the key.
        self.settle()?;
        if run::core(self.conn, id)?.is_some() {
            return Ok(Some(id));
        }
        match &key.conflict {
            KeyConflict::Refuse if digest != key.digest => Err(Refusal::KeyTaken { run }.into()),
            KeyConflict::Refuse | KeyConflict::ReturnExisting => Ok(Some(run)),
            KeyConflict::Reject | KeyConflict::Replace(_) | KeyConflict::Debounce => {
                self.make_way(run, new, key, has_life)
            }
        }
    }

    /// Does to the run that has a key what the start says. Answers that run if it will do; else the key is free.
    fn make_way(
        &mut self,
        run: RunId,
        new: &'a NewRun,
        key: &'a NewKey,
        has_life: bool,
    ) -> Result<Option<RunId>, Stop> {
        let Some(core) = run::core(self.conn, run)? else { return Ok(None) };
        let spot = locate(self.conn, run, &core)?;
        let is_live = !matches!(spot, Spot::Ended(_));
        let idle = match &spot {
            Spot::Ready(carried) | Spot::Waiting(carried, _) => Some(*carried),
            Spot::Held | Spot::Ended(_) => None,
        };
        let never_claimed = idle.filter(|carried| carried.definition.is_none());
        match (&key.conflict, never_claimed) {
            (KeyConflict::Reject, _) if is_live || has_life => {
                return Err(Refusal::KeyTaken { run }.into());
            }
            (KeyConflict::Replace(how), Some(_)) => self.end_idle(run, Idle::NeverClaimed, &how.end)?,
            (KeyConflict::Replace(how), None) if is_live => self.send(run, &how.order)?,
            (KeyConflict::Debounce, Some(carried)) if !inbox::has_topic(self.conn, run, &STOPS)? => {
                if matches!(spot, Spot::Ready(_)) {
                    ready::remove(&mut self.pens.remove_ready, run, &core)?;
                    self.ask_ready_again(&core);
                } else {
                    waiting::remove(&mut self.pens.remove_waiting, run)?;
                }
                self.put_off(run, core, carried, new, key)?;
                return Ok(Some(run));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Has a run that was never claimed wait again, with another input.
    fn put_off(
        &mut self,
        run: RunId,
        core: Core,
        mut carried: Carried,
        new: &NewRun,
        key: &NewKey,
    ) -> Result<(), rusqlite::Error> {
        run::change(self.conn, run, &new.input, new.context.as_deref())?;
        key::change(self.conn, core.workflow, key)?;
        let opened_at = self.now + new.delay.unwrap_or(Duration::ZERO);
        carried.opened_at = Some(opened_at.0);
        self.stirred = true;
        if opened_at > self.now {
            return waiting::add(&mut self.pens.add_waiting, run, &core, &carried, &delay(opened_at));
        }
        self.make_ready(run, core, carried)
    }
}

/// How a run waits for the end of its delay.
fn delay(until: windlass_core::Time) -> Wait {
    Wait { state: RunState::Pending, until: Some(until), topics: Vec::new(), reason: None, blocked_by: None }
}
