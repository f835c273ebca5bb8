//! Results as the store keeps them.

use bytes::Bytes;
use windlass_core::{Detail, Failure, LaneId, StepKind};
use windlass_store::{Along, StepRow};

use super::{RunCell, mail::Recorded};
use crate::{Cx, Done};

impl RunCell {
    /// What the store keeps of a result, and how many elements it has where a `for_each` hands them out.
    pub(crate) fn keep(&self, lane: LaneId, done: &Done) -> Result<(Bytes, Option<u32>), Failure> {
        let plan = &self.subject.registered.plan;
        let name = &plan.definition.task(lane.task).name;
        let kept = self.node.hub.keep(format_args!("the result of `{name}`"), done.output.bytes().clone());
        let kept = kept.map_err(|error| Failure::permanent(Failure::from(error)))?;
        let items = if plan.hands_out(lane) { Some(count_items(name, done.output.bytes())?) } else { None };
        Ok((kept, items))
    }

    /// What the store keeps of the rest of a record.
    pub(crate) fn encode(&self, detail: &Detail) -> Result<Option<Bytes>, String> {
        if detail.is_empty() {
            return Ok(None);
        }
        let json = detail.to_json().map_err(|error| error.to_string())?;
        self.node.hub.codec.encode(json.into()).map(Some).map_err(|error| error.to_string())
    }

    /// The record of a completed attempt, to be written together with what the attempt wrote.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "sqlite")),
        allow(dead_code, reason = "without a database there are no transactions")
    )]
    pub(crate) fn record(
        &self,
        cx: &Cx,
        lane: LaneId,
        done: &Done,
        started_at: windlass_core::Time,
    ) -> Result<(Along, Recorded), Failure> {
        let (kept, items) = self.keep(lane, done)?;
        let detail = Detail::completed(done.changes.clone(), items);
        let detail = self.encode(&detail).map_err(Failure::permanent)?;
        let (subject, ended_at) = (&self.subject, self.node.hub.clock.now());
        let step = StepRow {
            generation: subject.generation,
            name: cx.step(),
            attempt: cx.attempt(),
            epoch: subject.epoch,
            kind: StepKind::Completed,
            started_at,
            ended_at,
            output: Some(kept.clone()),
            detail,
        };
        let along = Along { node: subject.holder, run: subject.run, claim: subject.claim, step };
        Ok((along, Recorded { started_at, ended_at, kept, items }))
    }
}

fn count_items(task: &str, json: &[u8]) -> Result<u32, Failure> {
    let items: Vec<serde::de::IgnoredAny> = serde_json::from_slice(json).map_err(|error| {
        Failure::permanent(format!(
            "the result of `{task}` is handed out by a for_each, but is not an array: {error}"
        ))
    })?;
    u32::try_from(items.len())
        .map_err(|_| Failure::permanent(format!("the result of `{task}` has too many elements")))
}
