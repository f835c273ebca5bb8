//! Beginning attempts, and stopping them.

use std::{collections::HashMap, sync::Arc};

use windlass_core::{Attempt, Ended, Event, LaneId, TaskIx};
use windlass_store::StepRow;

use super::{Live, Mail, RunCell, RunLoop, cell::Stopped};
use crate::{
    Code, Cx, Slot, arguments,
    attempt::{self, Begun, Host, Over},
    boxed::boxed,
    flow::Scene,
};

impl RunLoop {
    /// Begins an attempt, unless a mail is there that stops everything.
    pub(super) fn start(&mut self, cell: &Arc<RunCell>, attempt: Attempt) -> bool {
        let lane = attempt.lane;
        let cx = Cx::of(Host::Home(Arc::clone(cell)), attempt, self.now);
        if !cell.enter(&cx) {
            return false;
        }
        if !self.saved.is_empty() {
            *cx.inner().saved.lock() = self.saved.get(&cx.step()).cloned();
        }
        cx.inner().set_times_undone(self.run.times_undone(lane));
        if let Some(room) = self.rooms.remove(&lane) {
            room.start_over();
            room.pause(self.pause.is_some());
            cx.inner().set_scene(room);
        }
        if cell.subject.task(lane.task).flow
            && let Err(why) = self.set_scene(cell, &cx, attempt)
        {
            self.block(cell, why);
            return true;
        }
        let mut call = arguments::call(&cell.subject, &mut self.run, &mut self.outputs, lane, cx.clone());
        if let Some(scene) = cx.inner().scene() {
            call.set_input(scene.input());
        }
        let begun = attempt::begin(cell, lane, &cx, call, self.now);
        let stopped = cell.exit();
        match begun {
            Begun::Over(Over { started_at, outcome, .. }) if stopped.is_some() => {
                // It ended because it was asked to, so the run has to hear of that first.
                let counts = outcome.is_ok() || stopped == Some(Stopped::ByOrder);
                self.keep(lane, &cx);
                let outcome = counts.then(|| Box::new(outcome));
                cell.leave_behind(Mail::Ended { lane, started_at, outcome });
            }
            Begun::Over(Over { started_at, ended, outcome }) => {
                self.set_now(cell, ended);
                self.keep(lane, &cx);
                self.attempt_ended(cell, lane, started_at, Some(outcome));
            }
            Begun::Waiting(task) => {
                let is_blocking = matches!(cell.code(lane.task).run, Code::Blocking(_));
                self.attempts.insert(lane, Live { cx, task, is_blocking });
            }
        }
        true
    }

    /// Gives a durable function what it left behind when it ran before.
    pub(super) fn set_scene(&mut self, cell: &Arc<RunCell>, cx: &Cx, attempt: Attempt) -> Result<(), String> {
        let (calls, opened_at) = (std::mem::take(&mut self.calls), self.run.opened_at());
        let scene = Scene::new(cell, attempt.lane, "".into(), opened_at, &calls, &self.saved);
        let scene = scene.map_err(|error| error.to_string())?;
        if self.pause.is_some() {
            scene.pause(true);
        }
        if let Some(verdict) = self.run.closing().filter(|_| attempt.closing) {
            scene.close(verdict);
            scene.note_undo_deaths(self.run.undo_deaths());
        }
        cx.inner().set_scene(Arc::new(scene));
        self.run.function_begins();
        Ok(())
    }

    /// Forgets what a task waited for that has completed, unless it can be undone, or leaves children behind.
    pub(super) fn clear(&mut self, cell: &RunCell, lane: LaneId) {
        let can_be_undone = cell.code(lane.task).undo.is_some();
        let is_bare = |room: &Arc<Scene>| !can_be_undone && room.unended_children().is_empty();
        if self.rooms.get(&lane).is_some_and(is_bare) {
            self.rooms.remove(&lane);
        }
    }

    /// Tells durable functions that their run's verdict stands.
    pub(super) fn close_scenes(&self) {
        if let Some(verdict) = self.run.closing() {
            self.scenes().for_each(|scene| scene.close(verdict));
        }
    }

    /// Gives tasks what they waited for when they ran before.
    pub(super) fn furnish(&mut self, cell: &Arc<RunCell>) -> Result<(), String> {
        if self.calls.is_empty() || self.run.plan().flow().is_some() {
            return Ok(());
        }
        let mut by_lane: HashMap<LaneId, Vec<StepRow>> = HashMap::new();
        for row in std::mem::take(&mut self.calls) {
            if let Some(lane) = self.run.plan().caller(&row.name) {
                by_lane.entry(lane).or_default().push(row);
            }
        }
        for (lane, rows) in by_lane {
            let room = Scene::of_task(cell, lane, self.run.step_name(lane), &rows, &self.saved);
            self.rooms.insert(lane, Arc::new(room.map_err(|error| error.to_string())?));
        }
        Ok(())
    }

    /// Keeps what an attempt saved and what it waited for, for the next one.
    pub(super) fn keep(&mut self, lane: LaneId, cx: &Cx) {
        if let Some(room) = cx.inner().scene().filter(|scene| scene.is_task()) {
            self.rooms.insert(lane, Arc::clone(room));
        }
        if let Some(saved) = cx.inner().saved.lock().take() {
            self.saved.insert(cx.step(), saved);
        }
    }

    /// The result of a completed task: an array of all instances' results, for a `for_each`.
    pub(super) fn result_of(&mut self, task: TaskIx) -> Option<Slot> {
        self.outputs.result(task, &self.run)
    }

    pub(super) fn stop(&mut self, cell: &RunCell, lane: LaneId) {
        if let Some(at) = self.starts.iter().position(|attempt| attempt.lane == lane) {
            // It has not begun, so there is nothing to stop.
            self.starts.remove(at);
            let started_at = self.at;
            self.apply(Event::Ended { lane, started_at, ended: Ended::Cut, dice: 0.0 });
        }
        if self.run.out(lane).is_some() {
            // Its row goes with the run's end, and whoever executes it is told then.
            let started_at = self.at;
            self.apply(Event::Ended { lane, started_at, ended: Ended::Cut, dice: 0.0 });
        }
        let Some(live) = self.attempts.get(&lane) else { return };
        live.cx.inner().end_with_run();
        if live.cx.inner().scene().is_some_and(|scene| !scene.is_task()) {
            // It gives its own steps their grace, and then puts things in order.
            return self.close_scenes();
        }
        let (abort, grace) = (live.task.abort_handle(), cell.node.options.cancel_grace);
        cell.node.user.spawn(boxed(async move {
            tokio::time::sleep(grace).await;
            abort.abort();
        }));
    }

    /// Drops what still executes, waits until it is gone, and gives the run's place back.
    pub(super) fn leave(mut self, cell: &Arc<RunCell>) {
        if let Some((_, alarm)) = self.alarm.take() {
            alarm.abort();
        }
        let closing = self.ending.take();
        if self.attempts.is_empty() && closing.is_none() {
            if self.gone {
                cell.forsake();
            }
            return;
        }
        let cell = Arc::clone(cell);
        cell.node.user.clone().spawn(boxed(async move {
            if let Some(closing) = closing {
                closing.abort().await.ok();
            }
            for (_, live) in self.attempts.drain() {
                live.cx.inner().stop.set();
                live.task.abort();
                // Its end says nothing new: it was aborted, or had just ended.
                live.task.await.ok();
            }
            if self.gone {
                // Only now is nothing of it left here.
                cell.forsake();
            }
        }));
    }
}

impl RunCell {
    /// Lets the run go on when others on this thread had their turn.
    pub(super) fn tell_later(self: &Arc<Self>, mail: Mail) {
        let cell = Arc::clone(self);
        self.node.user.spawn(async move { cell.deliver(mail) });
    }
}
