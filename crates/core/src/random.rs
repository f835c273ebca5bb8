//! Randomness for ids, fetched from the system in portions.

use std::{
    cell::RefCell,
    process,
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

/// A random uuid that begins with the time, in milliseconds.
pub(crate) fn time_ordered() -> Uuid {
    #[allow(
        clippy::disallowed_methods,
        reason = "the time in an id only sorts ids, and nothing is decided by it"
    )]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let bytes = bytes();
    let mut random = [0; 10];
    random.copy_from_slice(&bytes[..10]);
    Builder::from_unix_timestamp_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX), &random)
        .into_uuid()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_different_and_sort_by_time() {
        let ids: Vec<Uuid> = (0..1000).map(|_| time_ordered()).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
        let moments: Vec<_> = ids.iter().map(|id| id.get_timestamp().map(|at| at.to_unix())).collect();
        assert!(moments.is_sorted());
    }
}
