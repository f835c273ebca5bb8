//! What this process costs the machine, where the system tells.

use std::fs;

/// How many times the system counts in a second of a processor. Linux tells every program this one.
const TICKS: f64 = 100.0;

/// Seconds of processor time that all threads of this process have used.
pub(crate) fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name may hold spaces, and ends with the last parenthesis.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS)
}

/// The memory that this process has now, in megabytes.
pub(crate) fn megabytes() -> Option<f64> {
    status("VmRSS:")
}

/// Lets the most that this process ever had be what it has now, so that each measurement has a most of its own.
/// Where the system does not do that, the most is that of all measurements.
pub(crate) fn forget_peak() {
    drop(fs::write("/proc/self/clear_refs", "5"));
}

/// The most memory that this process ever had, in megabytes.
pub(crate) fn peak_megabytes() -> Option<f64> {
    status("VmHWM:")
}

fn status(field: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn work_and_memory_are_noticed() {
        let (cpu, peak) = (cpu_seconds().expect("it is told"), peak_megabytes().expect("it is told"));
        let mut memory = vec![0_u8; 64 << 20];
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(300) || cpu_seconds().is_some_and(|now| now <= cpu) {
            for byte in memory.iter_mut().step_by(4096) {
                *byte = byte.wrapping_add(1);
            }
        }
        assert!(peak_megabytes().is_some_and(|now| now >= peak.max(64.0)));
        assert!(megabytes().is_some_and(|now| now >= 64.0));
        drop(memory);
        forget_peak();
        assert!(peak_megabytes().is_some_and(|now| now < peak.max(64.0)));
    }
}
