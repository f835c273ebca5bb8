//! This machine.

use std::{env, fs};

/// What this machine calls itself, for the person who has to find it.
#[must_use]
pub fn host_name() -> String {
    let named = ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .iter()
        .find_map(|file| fs::read_to_string(file).ok())
        .or_else(|| env::var("COMPUTERNAME").or_else(|_| env::var("HOSTNAME")).ok());
    named
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".into())
}
