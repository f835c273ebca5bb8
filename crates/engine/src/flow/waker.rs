//! Who wakes a durable function, and whether that is anything that will be there when it is run again.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

use parking_lot::Mutex;

use super::Scene;

thread_local! {
    /// How many of our own wakes, and polls of the function, are under way on this thread.
    static OURS: Cell<u32> = const { Cell::new(0) };
    /// Whether the body of an attempt is running on this thread.
    static IN_BODY: Cell<bool> = const { Cell::new(false) };
    /// The step whose code is running on this thread.
    static STEP: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Does something that may wake the function by our own will.
pub(super) fn ours<T>(work: impl FnOnce() -> T) -> T {
    struct Less;
    impl Drop for Less {
        fn drop(&mut self) {
            OURS.set(OURS.get() - 1);
        }
    }
    OURS.set(OURS.get() + 1);
    let _less = Less;
    work()
}

/// Runs the body of an attempt.
pub(crate) fn in_body<T>(work: impl FnOnce() -> T) -> T {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            IN_BODY.set(self.0);
        }
    }
    let _back = Back(IN_BODY.replace(true));
    work()
}

/// Whether the body of an attempt is running on this thread, and not something that it spawned.
pub(super) fn is_in_body() -> bool {
    IN_BODY.get()
}

/// Runs code of a step.
pub(super) fn in_step<T>(id: &Arc<str>, work: impl FnOnce() -> T) -> T {
    struct Back(Option<Arc<str>>);
    impl Drop for Back {
        fn drop(&mut self) {
            STEP.set(self.0.take());
        }
    }
    let _back = Back(STEP.replace(Some(Arc::clone(id))));
    work()
}

/// The step whose code is running on this thread.
pub(crate) fn current_step() -> Option<Arc<str>> {
    STEP.with_borrow(Clone::clone)
}

/// Waits for something of our own that others wake.
pub(super) async fn for_ours<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut waker: Option<Arc<StepWaker>> = None;
    poll_fn(|cx| {
        let waker = waker.get_or_insert_with(|| StepWaker::new(cx.waker()));
        waker.set(cx.waker());
        work.as_mut().poll(&mut Context::from_waker(&Arc::clone(waker).into()))
    })
    .await
}

/// Wakes whoever drives a function, and knows when that was asked for by somebody else.
#[derive(Default)]
pub(super) struct FunctionWaker {
    driver: Mutex<Option<Waker>>,
    woken: AtomicBool,
    foreign: AtomicBool,
}

impl FunctionWaker {
    pub(super) fn set_driver(&self, waker: &Waker) {
        let mut driver = self.driver.lock();
        if driver.as_ref().is_none_or(|known| !known.will_wake(waker)) {
            *driver = Some(waker.clone());
        }
    }

    /// Whether the function was woken.
    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// Whether the function was woken since this was last taken.
    pub(super) fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

    /// Whether anything else than what it called has ever woken it.
    pub(super) fn is_foreign(&self) -> bool {
        self.foreign.load(Ordering::Acquire)
    }
}

impl Wake for FunctionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if OURS.get() == 0 {
            self.foreign.store(true, Ordering::Release);
        }
        self.woken.store(true, Ordering::Release);
        let driver = self.driver.lock().clone();
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

/// How a function is woken, and how it is by code of its steps.
pub(super) struct FunctionWakers {
    function: Waker,
    steps: Waker,
}

impl FunctionWakers {
    pub(super) fn new(function: &Waker) -> Self {
        Self { function: function.clone(), steps: StepWaker::new(function).into() }
    }
}

/// The waker of the code of one step. Where that is to wake the whole function, all steps share one.
#[derive(Default)]
pub(super) struct OwnWaker(Option<(Arc<StepWaker>, Waker)>);

impl OwnWaker {
    /// What wakes the step, which is woken like this itself.
    pub(super) fn of<'a>(&'a mut self, scene: &'a Scene, step: &Waker) -> &'a Waker {
        match scene.wakers() {
            Some(wakers) if wakers.function.will_wake(step) => &wakers.steps,
            _ => {
                let (waker, own) = self.0.get_or_insert_with(|| {
                    let waker = StepWaker::new(step);
                    (Arc::clone(&waker), waker.into())
                });
                waker.set(step);
                own
            }
        }
    }
}

/// Wakes the step that its code belongs to.
pub(super) struct StepWaker(Mutex<Waker>);

impl StepWaker {
    pub(super) fn new(step: &Waker) -> Arc<Self> {
        Arc::new(Self(Mutex::new(step.clone())))
    }

    pub(super) fn set(&self, step: &Waker) {
        let mut known = self.0.lock();
        if !known.will_wake(step) {
            known.clone_from(step);
        }
    }
}

impl Wake for StepWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let step = self.0.lock().clone();
        ours(|| step.wake());
    }
}
