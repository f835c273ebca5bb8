//! A record that is written in a transaction of its own.
//!
//! A function hears of its records in the order in which they were written. The committer keeps that order; a
//! transaction of a step's own knows nothing of it. So it is committed when everything before it is durable, and while
//! nothing else is on its way. By that it is never committed before what it builds on, either.

use std::{
    sync::{Arc, atomic::Ordering},
    task::Waker,
};

use super::{super::waker, Scene, Status, Then};

/// A place in the line of records, held while nothing else is on its way.
pub(in crate::flow) struct Alone {
    scene: Arc<Scene>,
    place: u64,
    /// What follows from the record, once it is written.
    then: Option<Then>,
}

impl Scene {
    /// Waits until everything that was handed in is durable; what comes meanwhile has to wait. None if something before
    /// it was not written: then the run is not this node's any more. Not to be asked by the function itself: nobody may
    /// be there to ask again.
    pub(in crate::flow) async fn alone(self: Arc<Self>) -> Option<Alone> {
        self.state().awaiting += 1;
        let place = loop {
            let moved = self.moved.notified();
            {
                let mut line = self.line.lock();
                if !line.is_held {
                    line.is_held = true;
                    break self.state().take_place(None);
                }
            }
            moved.await;
        };
        let scene = Arc::clone(&self);
        let alone = Alone { scene: self, place, then: None };
        loop {
            let moved = scene.moved.notified();
            if let Some(is_first) = scene.stops_awaiting(place) {
                return is_first.then_some(alone);
            }
            moved.await;
        }
    }

    /// Whether the wait for what comes before this place is over, and with everything written.
    fn stops_awaiting(&self, place: u64) -> Option<bool> {
        let mut state = self.state();
        let is_first = state.taken_in == place;
        let is_over = is_first || self.is_lost.load(Ordering::Acquire);
        state.awaiting -= usize::from(is_over);
        is_over.then_some(is_first)
    }

    /// Notes that what a call did is being recorded.
    pub(in crate::flow) fn records(&self, number: u64) {
        let mut state = self.state();
        // From here on it counts, also before it has its place.
        state.in_flight += 1;
        if let Some(call) = state.open.get_mut(&number) {
            call.status = Status::Recording;
        }
    }

    /// Notes that what a call did is recorded, or not to be: then it goes on.
    pub(in crate::flow) fn has_recorded(&self, number: u64, goes_on: bool) {
        let mut state = self.state();
        state.in_flight -= 1;
        let mut woken = None;
        if goes_on && let Some(call) = state.open.get_mut(&number) {
            call.status = Status::Running;
            woken = call.waker.clone();
            if call.dropped {
                let id = Arc::clone(&call.id);
                state.close(number, &id);
            }
        }
        drop(state);
        waker::ours(|| woken.into_iter().for_each(Waker::wake));
        self.nudge();
    }
}

impl Alone {
    /// The record is durable.
    pub(in crate::flow) fn recorded(mut self, then: Then) {
        self.then = Some(then);
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let scene = &self.scene;
        scene.recorded(self.place, self.then.take());
        let mut line = scene.line.lock();
        line.is_held = false;
        for (unit, reply) in std::mem::take(&mut line.behind) {
            scene.cell.node.hub.committer.submit(scene.cell.subject.holder, unit, reply);
        }
        drop(line);
        scene.moved.notify_waiters();
    }
}
