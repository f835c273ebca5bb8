//! What the sample workflows work with: a small shop for coffee, whose world does not always do what it should.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use windlass::prelude::*;

/// The shop.
#[derive(Debug)]
pub(crate) struct Shop {
    /// What a moment of work is multiplied by.
    pace: f64,
    /// Whether things go wrong by chance.
    has_mishaps: bool,
    /// The suppliers whose bank account is known.
    accounts: Mutex<BTreeSet<String>>,
    /// The price lists that suppliers have sent, and that nobody has read yet.
    inbox: Mutex<Vec<String>>,
}

impl Shop {
    pub(crate) fn new(pace: f64) -> Self {
        let accounts = ["Cooperativa Sul", "Yirga Union", "Kona Estate"].map(str::to_owned);
        Self { pace, has_mishaps: true, accounts: Mutex::new(accounts.into()), inbox: Mutex::default() }
    }

    /// A shop in which nothing goes wrong by chance.
    #[cfg(test)]
    pub(crate) fn without_mishaps() -> Self {
        Self { has_mishaps: false, ..Self::new(1.0) }
    }

    /// Takes about so long.
    pub(crate) async fn work(&self, millis: u64) {
        let share = 0.5 + fastrand::f64();
        tokio::time::sleep(Duration::from_millis(millis).mul_f64(share * self.pace)).await;
    }

    /// Goes wrong once in so many times.
    pub(crate) fn mishap(&self, once_in: u32, what: &str) -> Result<()> {
        match self.has_mishaps && fastrand::u32(0..once_in) == 0 {
            true => {
                tracing::warn!("{what}");
                Err(what.into())
            }
            false => Ok(()),
        }
    }

    pub(crate) fn knows_account_of(&self, supplier: &str) -> bool {
        lock(&self.accounts).contains(supplier)
    }

    pub(crate) fn note_account_of(&self, supplier: &str) {
        lock(&self.accounts).insert(supplier.to_owned());
    }

    /// A supplier sends a price list.
    pub(crate) fn receive(&self, file: String) {
        lock(&self.inbox).push(file);
    }

    /// The price list that has been there for the longest.
    pub(crate) fn oldest_file(&self) -> Option<String> {
        lock(&self.inbox).first().cloned()
    }

    pub(crate) fn file_away(&self, file: &str) {
        lock(&self.inbox).retain(|other| other != file);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
