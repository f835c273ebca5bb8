//! Where a batch stands, as the records of its run have it.

use std::{collections::HashSet, sync::Arc};

use serde::{Deserialize, Serialize};
use windlass_core::{
    StepKind, Time,
    batch::{Basket, Senders},
};
use windlass_store::{RunImage, StepRow};

use super::declaration::Declaration;
use crate::{
    Error,
    hub::Hub,
    keeping::{FORMAT, check_format, read_page},
};

/// What the names of a batch's records begin with. The number of the turn follows.
const PAGE: &str = "page.";

/// Where a batch stands. The items that wait are in the inbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ledger {
    /// What a program has to know to read it.
    format: u32,
    pub(super) declaration: Declaration,
    #[serde(default)]
    pub(super) basket: Basket,
    /// How far the items of each process were taken.
    #[serde(default)]
    pub(super) senders: Senders,
    /// The items that cannot be read, by their number in the inbox, in order. Later ones of the same process may have gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) stuck: Vec<i64>,
    /// How many times it was written down.
    #[serde(default)]
    pub(super) turn: u64,
}

impl Ledger {
    /// Reads where a batch stands.
    pub(super) fn read(hub: &Hub, image: &RunImage) -> Result<Self, Error> {
        let what = "where a batch stands";
        let page = image.steps.iter().rev().find(|row| row.name.starts_with(PAGE));
        let Some(kept) = page.and_then(|row| row.output.clone()) else {
            let declaration: Declaration = read_page(what, &hub.read(what, image.run.input.clone())?)?;
            declaration.check_format()?;
            let (basket, senders) = (Basket::default(), Senders::default());
            return Ok(Self { format: FORMAT, declaration, basket, senders, stuck: Vec::new(), turn: 0 });
        };
        let ledger: Self = read_page(what, &hub.read(what, kept)?)?;
        check_format(what, ledger.format)?;
        Ok(ledger)
    }

    /// Takes note of items that cannot be read. Those from before that were not taken in stay noted, also if they can be
    /// read now: others have passed them.
    pub(super) fn stay(&mut self, stuck: Vec<i64>, consumed: &[i64]) {
        if self.stuck.is_empty() && stuck.is_empty() {
            return;
        }
        let consumed: HashSet<i64> = consumed.iter().copied().collect();
        self.stuck.extend(stuck);
        self.stuck.retain(|seq| !consumed.contains(seq));
        self.stuck.sort_unstable();
        self.stuck.dedup();
    }

    /// The record of a turn, which takes the place of all before it.
    pub(super) fn write(&mut self, hub: &Hub, image: &RunImage, now: Time) -> Result<StepRow, Error> {
        self.turn += 1;
        self.format = FORMAT;
        let what = "where a batch stands";
        let encode = |why: String| Error::Encode { what: what.to_owned(), why };
        let json = serde_json::to_vec(self).map_err(|why| encode(why.to_string()))?;
        let output = hub.codec.encode(json.into()).map_err(|why| encode(why.to_string()))?;
        Ok(StepRow {
            generation: image.standing.generation,
            name: Arc::from(format!("{PAGE}{}", self.turn)),
            attempt: 1,
            epoch: image.standing.recoveries,
            kind: StepKind::Completed,
            started_at: now,
            ended_at: now,
            output: Some(output),
            detail: None,
        })
    }
}
