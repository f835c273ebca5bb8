//! Acts of those who do not hold the run.

use windlass_core::RunId;
use windlass_store::{Idle, NewEnd, NewMessage, Refusal, STOPS};

use crate::{
    commit::{Batch, Stop},
    ended::{self, NewEndedRow},
    inbox,
    place::{Carried, Spot, locate},
    ready,
    records::Records,
    run::{self, Core},
    saved,
    sheet::Sheet,
    spread, waiting,
};

impl<'a> Batch<'a> {
    /// Puts a message into the inbox of a run that has not ended, and wakes the run if it waits for it.
    pub(crate) fn send(&mut self, id: RunId, message: &NewMessage) -> Result<(), Stop> {
        self.settle()?;
        let core = self.known(id)?;
        if let Some(key) = &message.key
            && inbox::knows(self.conn, id, &message.topic, key)?
        {
            return Ok(());
        }
        let spot = locate(self.conn, id, &core)?;
        if let Spot::Ended(row) = &spot {
            return Err(Refusal::Ended(row.end.state).into());
        }
        inbox::add(self.conn, id, message, self.now)?;
        self.note_message();
        self.stirred = true;
        match spot {
            Spot::Waiting(carried, wait) if wait.is_for(&message.topic) => {
                waiting::remove(&mut self.pens.remove_waiting, id)?;
                self.make_ready(id, core, carried)?;
            }
            Spot::Ready(_) if STOPS.contains(&message.topic.as_str()) => ready::stop(self.conn, id, &core)?,
            _ => {}
        }
        Ok(())
    }

    /// Ends a run that nobody holds.
    pub(crate) fn end_idle(&mut self, id: RunId, only: Idle, end: &'a NewEnd) -> Result<(), Stop> {
        self.settle()?;
        let core = self.known(id)?;
        let spot = locate(self.conn, id, &core)?;
        let carried = match &spot {
            Spot::Ended(row) => return Err(Refusal::Ended(row.end.state).into()),
            Spot::Held => return Err(Refusal::Held.into()),
            Spot::Ready(carried) | Spot::Waiting(carried, _) => *carried,
        };
        if only == Idle::NeverClaimed && carried.definition.is_some() {
            return Err(Refusal::Begun.into());
        }
        if matches!(spot, Spot::Ready(_)) {
            ready::remove(&mut self.pens.remove_ready, id, &core)?;
            self.ask_ready_again(&core);
        } else {
            waiting::remove(&mut self.pens.remove_waiting, id)?;
        }
        self.clear_inbox(id)?;
        saved::clear(self.conn, id)?;
        spread::clear(self.conn, id)?;
        self.free_slot(id, core.queue)?;
        let (at, claim, step) = (self.now, None, None);
        self.sheets.ended.add(NewEndedRow { run: id, core, carried, end, at, claim, step });
        self.stirred = true;
        Ok(self.tell_parent(id, &core, &carried)?)
    }

    /// Tells the parent of a run that has just ended, if it has one.
    pub(crate) fn tell_parent(
        &mut self,
        id: RunId,
        core: &Core,
        carried: &Carried,
    ) -> Result<(), rusqlite::Error> {
        if !core.has_parent {
            return Ok(());
        }
        // The run itself may have been started by this very batch.
        self.settle()?;
        let Some(parent) = run::parent(self.conn, id)? else { return Ok(()) };
        match self.send(parent.run, &parent.message(id, carried.generation)) {
            // One that has ended, or is not there, need not know.
            Ok(()) | Err(Stop::Refusal(_)) => Ok(()),
            Err(Stop::Sql(error)) => Err(error),
        }
    }

    /// Opens the next generation of an ended run.
    pub(crate) fn reopen(&mut self, id: RunId, after: u32) -> Result<(), Stop> {
        self.settle()?;
        let core = self.known(id)?;
        let Some(row) = ended::read(self.conn, id, &core)? else { return Err(Refusal::Open.into()) };
        if row.carried.generation != after {
            return Err(Refusal::Open.into());
        }
        if let Some(folded) = &row.step {
            let mut sheet = Sheet::new(self.conn);
            Records::read(self.conn, id)?.record(&mut sheet, id, folded);
            sheet.write()?;
        }
        ended::reopen(self.conn, id, &core, &row)?;
        let carried = Carried {
            generation: after + 1,
            definition: row.carried.definition,
            opened_at: Some(self.now.0),
            recoveries: 0,
        };
        self.make_ready(id, core, carried)?;
        Ok(())
    }

    /// What a run's places are found by. What was gathered must have been written.
    fn known(&self, id: RunId) -> Result<Core, Stop> {
        run::core(self.conn, id)?.ok_or(Stop::Refusal(Refusal::Unknown))
    }
}
