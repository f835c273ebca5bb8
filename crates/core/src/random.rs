//! Randomness for ids, fetched from the system in portions.

use std::{
    cell::RefCell,
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{SystemTime, UNIX_EPOCH},
};

use uuid::{Builder, Uuid};

/// How many ids one visit to the system serves.
const PORTION: usize = 64;

/// Random bytes that were fetched and not used yet.
struct Pool {
    bytes: [u8; PORTION * 16],
    used: usize,
    /// The process that fetched them: one that forks must not hand out the same ids twice.
    process: u32,
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { bytes: [0; PORTION * 16], used: PORTION * 16, process: 0 }) };
}

/// Sixteen random bytes that nobody else gets.
fn bytes() -> [u8; 16] {
    POOL.with_borrow_mut(|pool| {
        let process = process::id();
        if pool.used == pool.bytes.len() || pool.process != process {
            getrandom::fill(&mut pool.bytes).expect("the operating system gives random numbers");
            (pool.used, pool.process) = (0, process);
        }
        let mut taken = [0; 16];
        taken.copy_from_slice(&pool.bytes[pool.used..pool.used + 16]);
        pool.used += 16;
        taken
    })
}

/// Two random numbers.
pub(crate) fn numbers() -> [u64; 2] {
    let bytes = u128::from_ne_bytes(bytes());
    [bytes as u64, (bytes >> 64) as u64]
}

/// The last time and number that an id began with: milliseconds, and twelve bits that count within one.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A random uuid that begins with the time in milliseconds. Within one process each sorts after the one before.
pub(crate) fn time_ordered() -> Uuid {
    #[allow(
        clippy::disallowed_methods,
        reason = "the time in an id only sorts ids, and nothing is decided by it"
    )]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let earliest = u64::try_from(now.as_millis()).unwrap_or(0) << 12;
    // More than 4,096 ids in a millisecond borrow from the next one.
    let next = |last: u64| earliest.max(last + 1);
    let place = LAST.fetch_update(Relaxed, Relaxed, |last| Some(next(last))).map_or(earliest, next);
    let mut tail = [0; 10];
    tail.copy_from_slice(&bytes()[..10]);
    [tail[0], tail[1]] = ((place & 0xfff) as u16).to_be_bytes();
    Builder::from_unix_timestamp_millis(place >> 12, &tail).into_uuid()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_id_sorts_after_the_one_before_on_any_thread() {
        let make = || (0..10_000).map(|_| time_ordered()).collect::<Vec<Uuid>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(make)).collect();
        let lists: Vec<Vec<Uuid>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(lists.iter().all(|ids| ids.is_sorted()));
        assert!(lists.iter().flatten().all(|id| id.get_version_num() == 7));
        assert_eq!(lists.iter().flatten().collect::<HashSet<_>>().len(), 40_000);
        assert!(time_ordered() > lists.concat().into_iter().max().unwrap());
    }
}
