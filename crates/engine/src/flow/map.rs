//! Many calls, so many at once.

use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use parking_lot::Mutex;
use windlass_core::Failure;

/// Many calls of a durable function, and their results in order.
#[must_use = "calls do nothing unless they are awaited"]
pub struct MapWait<C, T> {
    waiting: VecDeque<(usize, C)>,
    under_way: BTreeMap<usize, (C, Waker)>,
    woken: Arc<Mutex<Woken>>,
    results: Vec<Option<T>>,
    limit: usize,
}

/// Which calls were woken: only those are asked, so that the end of one of ten thousand costs no more than that of one
/// of ten.
#[derive(Default)]
struct Woken {
    places: Vec<usize>,
    map: Option<Waker>,
}

struct PlaceWaker {
    place: usize,
    woken: Arc<Mutex<Woken>>,
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut woken = self.woken.lock();
        woken.places.push(self.place);
        let map = woken.map.clone();
        drop(woken);
        map.into_iter().for_each(Waker::wake);
    }
}

impl<C, T> MapWait<C, T> {
    pub(super) fn new(calls: Vec<C>, limit: usize) -> Self {
        let results = calls.iter().map(|_| None).collect();
        let waiting = calls.into_iter().enumerate().collect();
        Self { waiting, under_way: BTreeMap::new(), woken: Arc::default(), results, limit: limit.max(1) }
    }

    /// The calls that were woken since they were last asked.
    fn take_woken(&self, map: &Waker) -> Vec<usize> {
        let mut woken = self.woken.lock();
        if woken.map.as_ref().is_none_or(|known| !known.will_wake(map)) {
            woken.map = Some(map.clone());
        }
        mem::take(&mut woken.places)
    }

    /// Lets as many begin as there is room for. They are asked next.
    fn begin(&mut self, turns: &mut Vec<usize>) {
        while self.under_way.len() < self.limit
            && let Some((place, call)) = self.waiting.pop_front()
        {
            let waker = Arc::new(PlaceWaker { place, woken: Arc::clone(&self.woken) });
            self.under_way.insert(place, (call, waker.into()));
            turns.push(place);
        }
    }
}

impl<C: Unpin, T> Unpin for MapWait<C, T> {}

impl<C, T> Future for MapWait<C, T>
where
    C: Future<Output = Result<T, Failure>> + Unpin,
{
    type Output = Result<Vec<T>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut turns = this.take_woken(cx.waker());
        this.begin(&mut turns);
        let mut at = 0;
        while let Some(&place) = turns.get(at) {
            at += 1;
            // One that was woken twice may have ended.
            let Some((call, waker)) = this.under_way.get_mut(&place) else { continue };
            match Pin::new(call).poll(&mut Context::from_waker(waker)) {
                Poll::Pending => {}
                Poll::Ready(Ok(value)) => {
                    this.results[place] = Some(value);
                    this.under_way.remove(&place);
                    this.begin(&mut turns);
                }
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
            }
        }
        match this.under_way.is_empty() {
            true => Poll::Ready(Ok(this.results.drain(..).flatten().collect())),
            false => Poll::Pending,
        }
    }
}

impl<C, T> std::fmt::Debug for MapWait<C, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MapWait").field("calls", &self.results.len()).finish_non_exhaustive()
    }
}
