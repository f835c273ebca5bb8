//! A service that runs on whichever thread wakes it.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Wake, Waker},
};

use parking_lot::Mutex;
use tokio::{runtime::Handle, task::unconstrained};

/// Nobody is at it, and nothing is to be done.
const ASLEEP: u8 = 0;
/// A thread is at it.
const AWAKE: u8 = 1;
/// A thread is at it, and has to look again before it leaves.
const WOKEN: u8 = 2;

/// A future that is polled by whoever wakes it, on the spot, instead of by a thread that has to be woken first.
///
/// It is for a short service between threads that are awake anyway: a thread that only passes things on costs
/// two wake-ups each time, and a wake-up costs more than the work. It must not wait in its own code for longer than
/// wake-ups take, nor run anybody else's.
struct Driven {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    state: AtomicU8,
    /// Whose timers it uses.
    timers: Handle,
}

/// Begins a service, and lets it go on until it ends.
pub(crate) fn drive(timers: Handle, service: impl Future<Output = ()> + Send + 'static) {
    // It is polled within the tasks of others, whose budgets are not its own.
    let future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(unconstrained(service));
    let driven = Driven { future: Mutex::new(Some(future)), state: AtomicU8::new(ASLEEP), timers };
    Arc::new(driven).wake();
}

impl Wake for Driven {
    fn wake(self: Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) != ASLEEP {
            // Whoever is at it looks again.
            return;
        }
        let waker = Waker::from(Arc::clone(&self));
        loop {
            self.state.store(AWAKE, Ordering::Release);
            let _timers = self.timers.enter();
            let mut future = self.future.lock();
            let Some(service) = future.as_mut() else { return };
            if service.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                *future = None;
            }
            drop(future);
            let done = self.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
            if done.is_ok() {
                return;
            }
        }
    }
}
