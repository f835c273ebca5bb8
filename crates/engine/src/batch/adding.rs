//! Items on their way to a batch.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
};

use bytes::Bytes;
use serde::Serialize;
use windlass_core::batch::{MOST_BYTES, Origin};
use windlass_store::{Act, Refusal, Unit};

use super::{
    Batch,
    handle::Address,
    message::{bell, item},
};
use crate::{Error, Slot, committer::Lost, hub::Hub};

/// How many items one transaction takes at most.
const PORTION: usize = 1_000;

/// The longest key that an item may have.
const LONGEST_KEY: usize = 500;

/// An item on its way to a batch. It is durable when this future is ready.
#[must_use = "nothing is added before this is awaited"]
pub struct Adding<T> {
    batch: Batch<T>,
    item: T,
    key: Option<String>,
}

/// Items on their way to a batch. They are durable when this future is ready.
#[must_use = "nothing is added before this is awaited"]
pub struct AddingMany<T> {
    batch: Batch<T>,
    items: Vec<(T, Option<String>)>,
}

impl<T: Serialize + Send + Sync + 'static> Adding<T> {
    pub(super) fn new(batch: Batch<T>, item: T) -> Self {
        Self { batch, item, key: None }
    }

    /// Makes a repeat harmless: of items with the same key the first is kept, and the others are answered as if they were.
    /// The batch remembers the key for as long as it is there, and until its items are
    /// [discarded](super::Leftover::Discard). Default: every item is one of its own.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl<T: Serialize + Send + Sync + 'static> AddingMany<T> {
    pub(super) fn new(batch: Batch<T>, items: Vec<T>) -> Self {
        Self { batch, items: items.into_iter().map(|item| (item, None)).collect() }
    }

    /// Gives each item a key of its own: see [`Adding::key`]. What was added in part before something failed is then added
    /// again without harm.
    pub fn keys(mut self, key: impl Fn(&T) -> String) -> Self {
        for (item, known_by) in &mut self.items {
            *known_by = Some(key(item));
        }
        self
    }
}

impl<T: Serialize + Send + Sync + 'static> IntoFuture for Adding<T> {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { batch, item, key } = self;
        Box::pin(add(batch, vec![(item, key)]))
    }
}

impl<T: Serialize + Send + Sync + 'static> IntoFuture for AddingMany<T> {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(add(self.batch, self.items))
    }
}

impl<T> fmt::Debug for Adding<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adding").field("batch", &self.batch).field("key", &self.key).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for AddingMany<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddingMany").field("batch", &self.batch).field("items", &self.items.len()).finish()
    }
}

/// Adds items, after all of them were found to be sound.
async fn add<T>(batch: Batch<T>, items: Vec<(T, Option<String>)>) -> Result<(), Error>
where
    T: Serialize + Send + Sync + 'static,
{
    let hub = batch.client().hub();
    let items = items.into_iter().map(|(item, key)| Ok((keep(hub, item, key.as_deref())?, key)));
    let mut items = items.collect::<Result<Vec<_>, Error>>()?;
    let address = batch.address().await?;
    while !items.is_empty() {
        let rest = items.split_off(portion(items.iter().map(|(kept, _)| kept.len())));
        write(&batch, address, std::mem::replace(&mut items, rest)).await?;
    }
    Ok(())
}

/// How many of these items, of which the lengths are given, one transaction takes.
fn portion(lengths: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fits = lengths.take(PORTION).take_while(|length| {
        bytes += length;
        bytes <= MOST_BYTES
    });
    fits.count().max(1)
}

/// Writes a portion of items in one transaction.
async fn write<T>(
    batch: &Batch<T>,
    address: Address,
    items: Vec<(Bytes, Option<String>)>,
) -> Result<(), Error> {
    let Address { run, discards } = address;
    let make = |origin: &mut dyn FnMut() -> Origin| {
        let messages = items.into_iter().map(|(kept, key)| {
            // The store knows for ever what was thrown away: a key counts since the last time that happened.
            let key = key.map(|key| format!("{discards}.{key}"));
            item(&kept, key, origin)
        });
        // The bell comes after the items: whoever hears it finds them.
        messages.chain([bell()]).map(|message| Unit { run, act: Act::Send(message) }).collect()
    };
    let fates = batch.client().hub().committer.write_items(make).await?;
    for fate in fates {
        match fate {
            Ok(_) => {}
            Err(Lost::Refused(Refusal::Ended(_) | Refusal::Unknown)) => return Err(batch.unknown()),
            Err(Lost::Refused(refusal)) => return Err(Error::refused(run, refusal)),
            Err(Lost::Failed(error)) => return Err(error.into()),
            Err(Lost::Fenced) => return Err(Error::Stopped),
        }
    }
    if let Some(node) = batch.client().node() {
        // A look is enough: in a stream the batch does not listen to each item.
        node.look.notify_one();
    }
    Ok(())
}

/// What is kept of an item that is sound.
fn keep<T>(hub: &Hub, item: T, key: Option<&str>) -> Result<Bytes, Error>
where
    T: Serialize + Send + Sync + 'static,
{
    let what = "an item";
    let is_odd = |key: &&str| key.is_empty() || key.len() > LONGEST_KEY || key.contains('\0');
    if let Some(key) = key.filter(is_odd) {
        return Err(Error::Invalid(format!(
            "an item cannot have a key of {} bytes: it has 1 to {LONGEST_KEY}, and no NUL",
            key.len()
        )));
    }
    let slot =
        Slot::new(item).map_err(|why| Error::Encode { what: what.to_owned(), why: why.to_string() })?;
    // Alone it has to be the input of a run, between two brackets.
    let (size, limit) = (slot.bytes().len() + 2, hub.payload_limit);
    if size > limit {
        return Err(Error::PayloadTooLarge { what: what.to_owned(), size, limit });
    }
    hub.keep(format_args!("{what}"), slot.bytes().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_takes_no_more_items_or_bytes_than_it_may_but_always_one() {
        assert_eq!(portion([1; 3].into_iter()), 3);
        assert_eq!(portion([1; 2_000].into_iter()), PORTION);
        assert_eq!(portion([4 << 20; 300].into_iter()), 4);
        assert_eq!(portion([MOST_BYTES + 1, 1].into_iter()), 1);
    }
}
