//! Where the engine's own services run.

use std::{future::Future, thread};

use tokio::{runtime::Handle, sync::oneshot, task::JoinHandle};

use crate::{Error, boxed::boxed};

/// Where heartbeats, commits and claims run: never on a thread that user code can hold up.
#[derive(Debug)]
pub(crate) struct Backroom {
    handle: Handle,
    /// Dropping it ends the thread.
    _open: Option<oneshot::Sender<()>>,
}

impl Backroom {
    /// A thread of its own.
    pub(crate) fn thread() -> Result<Self, Error> {
        let (open, closed) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|error| Error::Store(format!("the engine's own thread cannot be set up: {error}")))?;
        let handle = runtime.handle().clone();
        thread::Builder::new()
            .name("windlass".into())
            .spawn(move || {
                runtime.block_on(async {
                    // Nothing is ever sent: the channel closes when the engine is dropped.
                    closed.await.ok();
                });
                runtime.shutdown_background();
            })
            .map_err(|error| Error::Store(format!("the engine's own thread cannot be started: {error}")))?;
        Ok(Self { handle, _open: Some(open) })
    }

    /// The runtime of the caller: for virtual time, where everything has to share one clock.
    pub(crate) fn here() -> Self {
        Self { handle: Handle::current(), _open: None }
    }

    /// For a service that runs elsewhere, and needs timers.
    pub(crate) fn timers(&self) -> Handle {
        self.handle.clone()
    }

    pub(crate) fn spawn(&self, service: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.handle.spawn(boxed(service))
    }
}
