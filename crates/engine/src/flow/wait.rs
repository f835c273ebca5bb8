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
    pub(super) call: Result<(&'f Arc<Scene>, u64), Failure>,
}

impl<'f> Wait<'f> {
    fn new(
        scene: Result<&'f Arc<Scene>, Failure>,
        within: &str,
        name: &str,
        kind: CallKind,
        topic: Option<Arc<str>>,
    ) -> Self {
        Self { call: scene.and_then(|scene| Ok((scene, scene.call(within, name, kind, topic)?))) }
    }

    fn set_due(&self, after: Duration) {
        if let Ok((scene, call)) = &self.call {
            scene.set_due(*call, after);
        }
    }

    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Outcome, Failure>> {
        match &self.call {
            Err(misuse) => Poll::Ready(Err(misuse.clone())),
            Ok((scene, call)) => {
                scene.ended(*call, cx.waker()).map_or(Poll::Pending, |outcome| Poll::Ready(Ok(outcome)))
            }
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Ok((scene, call)) = &self.call {
            scene.forget(*call);
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
    pub(super) fn after(scene: Result<&'f Arc<Scene>, Failure>, within: &str, span: Duration) -> Self {
        let sleep = Self::new(scene, within, "sleep");
        sleep.wait.set_due(span);
        sleep
    }

    pub(super) fn until(scene: Result<&'f Arc<Scene>, Failure>, within: &str, time: Time) -> Self {
        Self::pause(scene, within, "sleep", time)
    }

    pub(super) fn pause(
        scene: Result<&'f Arc<Scene>, Failure>,
        within: &str,
        name: &str,
        time: Time,
    ) -> Self {
        let sleep = Self::new(scene, within, name);
        if let Ok((scene, call)) = &sleep.wait.call {
            scene.set_due_at(*call, time);
        }
        sleep
    }

    /// A wait of the engine's own, beside what the code waits for.
    pub(super) fn aside(scene: &'f Arc<Scene>, within: &str, name: &str, time: Time) -> Self {
        let sleep = Self::new(Ok(scene), within, name);
        if let Ok((scene, call)) = &sleep.wait.call {
            scene.set_aside(*call, time);
        }
        sleep
    }

    fn new(scene: Result<&'f Arc<Scene>, Failure>, within: &str, name: &str) -> Self {
        Self { wait: Wait::new(scene, within, name, CallKind::Sleep, None) }
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
    pub(super) fn new(scene: Result<&'f Arc<Scene>, Failure>, within: &str, name: &str) -> Self {
        let wait = Wait::new(scene, within, name, CallKind::Event, Some(name.into()));
        Self { wait, payload: PhantomData }
    }

    /// Waits for so long at most. The answer is `None` when nothing came; an event that comes later is kept for the
    /// next wait.
    pub fn timeout(self, span: Duration) -> TimedEventWait<'f, T> {
        self.wait.set_due(span);
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
