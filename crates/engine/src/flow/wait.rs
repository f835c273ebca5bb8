//! What a durable function waits for.

use std::{
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use serde::de::DeserializeOwned;
use windlass_core::{CallKind, Failure, Time};

use super::scene::{Outcome, Scene};

/// A call that waits for something.
#[derive(Debug)]
pub(super) struct Wait<'f> {
    pub(super) scene: &'f Arc<Scene>,
    pub(super) call: Result<u64, Failure>,
}

impl Wait<'_> {
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Outcome, Failure>> {
        match &self.call {
            Err(misuse) => Poll::Ready(Err(misuse.clone())),
            Ok(call) => {
                self.scene.ended(*call, cx.waker()).map_or(Poll::Pending, |outcome| Poll::Ready(Ok(outcome)))
            }
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Ok(call) = self.call {
            self.scene.forget(call);
        }
    }
}

/// A wait for a time.
#[derive(Debug)]
#[must_use = "a wait does nothing unless it is awaited"]
pub struct SleepWait<'f> {
    wait: Wait<'f>,
}

impl<'f> SleepWait<'f> {
    pub(super) fn after(scene: &'f Arc<Scene>, within: &str, span: Duration) -> Self {
        let wait = Self::new(scene, within, "sleep");
        if let Ok(call) = wait.wait.call {
            scene.set_due(call, span);
        }
        wait
    }

    pub(super) fn until(scene: &'f Arc<Scene>, within: &str, time: Time) -> Self {
        Self::pause(scene, within, "sleep", time)
    }

    pub(super) fn pause(scene: &'f Arc<Scene>, within: &str, name: &str, time: Time) -> Self {
        let wait = Self::new(scene, within, name);
        if let Ok(call) = wait.wait.call {
            scene.set_due_at(call, time);
        }
        wait
    }

    /// A wait of the engine's own, beside what the code waits for.
    pub(super) fn aside(scene: &'f Arc<Scene>, within: &str, name: &str, time: Time) -> Self {
        let wait = Self::new(scene, within, name);
        if let Ok(call) = wait.wait.call {
            scene.set_aside(call, time);
        }
        wait
    }

    fn new(scene: &'f Arc<Scene>, within: &str, name: &str) -> Self {
        Self { wait: Wait { scene, call: scene.call(within, name, CallKind::Sleep, None) } }
    }
}

impl Future for SleepWait<'_> {
    type Output = Result<(), Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.wait.poll(cx).map(|ended| ended.map(drop))
    }
}

/// A wait for an event.
#[derive(Debug)]
#[must_use = "a wait does nothing unless it is awaited"]
pub struct EventWait<'f, T> {
    wait: Wait<'f>,
    payload: PhantomData<fn() -> T>,
}

impl<'f, T> EventWait<'f, T> {
    pub(super) fn new(scene: &'f Arc<Scene>, within: &str, name: &str) -> Self {
        let call = scene.call(within, name, CallKind::Event, Some(name.into()));
        Self { wait: Wait { scene, call }, payload: PhantomData }
    }

    /// Waits for so long at most. The answer is `None` when nothing came; an event that comes later is kept for the
    /// next wait.
    pub fn timeout(self, span: Duration) -> TimedEventWait<'f, T> {
        if let Ok(call) = self.wait.call {
            self.wait.scene.set_due(call, span);
        }
        TimedEventWait { wait: self }
    }
}

impl<T: DeserializeOwned> Future for EventWait<'_, T> {
    type Output = Result<T, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.wait.poll(cx).map(|ended| ended?.decode())
    }
}

/// A wait for an event that has a time of its own.
#[derive(Debug)]
#[must_use = "a wait does nothing unless it is awaited"]
pub struct TimedEventWait<'f, T> {
    wait: EventWait<'f, T>,
}

impl<T: DeserializeOwned> Future for TimedEventWait<'_, T> {
    type Output = Result<Option<T>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.wait.wait.poll(cx).map(|ended| match ended? {
            Outcome::Nothing => Ok(None),
            outcome => outcome.decode().map(Some),
        })
    }
}
