//! Where a schedule stands, as the records of its run have it.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use windlass_core::{RunId, StepKind, Time, schedule::State};
use windlass_store::{RunImage, StepRow};

use super::{Happening, What, declaration::Declaration};
use crate::{
    Error,
    hub::Hub,
    keeping::{FORMAT, check_format, first_format, read_page},
};

/// What the names of a schedule's records begin with. The number of the turn follows.
const PAGE: &str = "page.";
/// After so many pages, or up to twice as many, a new one takes the place of all: loading stays short, and most turns
/// only add a row.
const PAGES: u8 = 16;
/// What is read and written here, for errors.
const WHAT: &str = "where a schedule stands";
/// So much of what happened is kept.
const PAST: usize = 100;

/// Where a schedule stands.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pub(super) declaration: Declaration,
    pub(super) state: State,
    /// Its runs that have not ended, as far as it knows.
    pub(super) runs: Vec<Known>,
    /// What happened, oldest first.
    pub(super) past: Vec<Happening>,
    /// When somebody removed it, if it was.
    pub(super) removed_at: Option<Time>,
    /// How many turns it has taken.
    pub(super) turn: u64,
    /// Whether nothing was written in this generation of its run.
    pub(super) is_new: bool,
    generation: u32,
    epoch: u32,
    pages: u8,
    /// How many pages there may be. Not all schedules that fire together begin a new book together.
    most: u8,
}

/// A run that a schedule has started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) key: String,
    pub(super) run: RunId,
    /// Whether it is known that it was started, and that no other run had its key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_sure: bool,
}

/// One turn of a schedule, as it is recorded.
#[derive(Serialize, Deserialize)]
struct Page {
    generation: u32,
    state: State,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    runs: Vec<Known>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    removed_at: Option<Time>,
}

/// What is taken from every page, not only from the last one.
#[derive(Serialize, Deserialize)]
struct Margin {
    /// What a program has to know to read the page.
    #[serde(default = "first_format")]
    format: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    past: Vec<Happening>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    declaration: Option<Box<Declaration>>,
}

/// What a turn leaves to be written.
pub(super) struct Written {
    pub(super) row: StepRow,
    /// Whether all that was recorded before goes.
    pub(super) is_whole: bool,
}

impl Ledger {
    /// Reads where a schedule stands.
    pub(super) fn read(hub: &Hub, image: &RunImage) -> Result<Self, Error> {
        let standing = &image.standing;
        let mut declaration: Declaration = decode(hub, &image.run.input)?;
        check_format(WHAT, declaration.format)?;
        let (mut past, mut pages, mut last) = (Vec::new(), 0_u8, None);
        for row in &image.steps {
            let (Some(turn), Some(kept)) = (number(&row.name), &row.output) else { continue };
            let margin: Margin = decode(hub, kept)?;
            check_format(WHAT, margin.format)?;
            past.extend(margin.past);
            if let Some(newer) = margin.declaration {
                declaration = *newer;
            }
            pages = pages.saturating_add(1);
            last = Some((turn, kept));
        }
        let turn = last.map_or(0, |(turn, _)| turn);
        let page = last.map(|(_, kept)| decode::<Page>(hub, kept)).transpose()?;
        let page = page.filter(|page| page.generation == standing.generation);
        let is_new = page.is_none();
        let page = page.unwrap_or_else(|| {
            past.push(Happening { at: standing.opened_at, what: What::Declared });
            Page {
                generation: standing.generation,
                state: declaration.schedule.begin(standing.opened_at).state,
                runs: Vec::new(),
                removed_at: None,
            }
        });
        let Page { generation, state, runs, removed_at } = page;
        let epoch = standing.recoveries;
        let most = PAGES + image.run.id.as_bytes()[15] % PAGES;
        Ok(Self { declaration, state, runs, past, removed_at, turn, is_new, generation, epoch, pages, most })
    }

    /// Forgets where it stood, and begins as it is declared.
    pub(super) fn begin(&mut self, declaration: Declaration, at: Time) {
        self.state = declaration.schedule.begin(at).state;
        (self.declaration, self.removed_at) = (declaration, None);
        self.runs.clear();
    }

    /// The run of a key, if it has not ended.
    pub(super) fn run_of(&self, key: &str) -> Option<RunId> {
        self.runs.iter().find(|known| known.key == key).map(|known| known.run)
    }

    /// The record of the turn that was just taken. What is new since the last one is at the end of the past.
    pub(super) fn write(
        &mut self,
        hub: &Hub,
        news: usize,
        is_declared: bool,
        now: Time,
    ) -> Result<Written, Error> {
        let is_whole = self.pages > self.most;
        let skipped = self.past.len().saturating_sub(if is_whole { PAST } else { news });
        let with_declaration = is_declared || is_whole;
        let margin = Margin {
            format: FORMAT,
            past: self.past[skipped..].to_vec(),
            declaration: with_declaration.then(|| Box::new(self.declaration.clone())),
        };
        let page = Page {
            generation: self.generation,
            state: self.state.clone(),
            runs: self.runs.clone(),
            removed_at: self.removed_at,
        };
        let row = StepRow {
            generation: self.generation,
            name: Arc::from(format!("{PAGE}{}", self.turn)),
            attempt: 1,
            epoch: self.epoch,
            kind: StepKind::Completed,
            started_at: now,
            ended_at: now,
            output: Some(encode(hub, &page, &margin)?),
            detail: None,
        };
        Ok(Written { row, is_whole })
    }
}

/// The turn that a record is of.
fn number(name: &str) -> Option<u64> {
    name.strip_prefix(PAGE)?.parse().ok()
}

fn encode(hub: &Hub, page: &Page, margin: &Margin) -> Result<Bytes, Error> {
    #[derive(Serialize)]
    struct Whole<'a> {
        #[serde(flatten)]
        page: &'a Page,
        #[serde(flatten)]
        margin: &'a Margin,
    }
    let what = WHAT;
    let encode = |why: serde_json::Error| Error::Encode { what: what.to_owned(), why: why.to_string() };
    let json = serde_json::to_vec(&Whole { page, margin }).map_err(encode)?;
    hub.codec.encode(json.into()).map_err(|why| Error::Encode { what: what.to_owned(), why: why.to_string() })
}

fn decode<T: DeserializeOwned>(hub: &Hub, kept: &Bytes) -> Result<T, Error> {
    read_page(WHAT, &hub.read(WHAT, kept.clone())?)
}
