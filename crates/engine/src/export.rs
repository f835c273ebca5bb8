//! A run as one JSON document.

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_store::{Place, RunImage, StepRow};

use crate::{Error, hub::Hub, take_up};

/// Everything that is recorded of a run, payloads decoded. Times are those of the database, in UTC.
pub(crate) async fn export(hub: &Hub, image: RunImage) -> Result<Value, Error> {
    let version = match take_up::definition_of(hub, &image)? {
        Some(id) => hub.store.definition(id).await?.map(|definition| definition.version.to_string()),
        None => None,
    };
    let state = image.standing.state();
    let run = image.run;
    let mut document = json!({
        "id": run.id,
        "workflow": &*run.workflow,
        "version": version,
        "state": state.to_string(),
        "generation": image.standing.generation,
        "recoveries": image.standing.recoveries,
        "queue": &*run.queue,
        "priority": run.priority,
        "key": run.key,
        "tags": run.tags,
        "created_at": run.created_at.to_string(),
        "forked_from": run.forked_from,
        "parent": run.parent.map(|parent| parent.run),
        "input": payload(hub, "the input of a run", Some(run.input)),
        "context": payload(hub, "the context of a run", run.context),
        "steps": image.steps.into_iter().map(|row| step(hub, row)).collect::<Vec<_>>(),
    });
    if let Place::Ended(end) = image.standing.place {
        document["ended_at"] = end.at.to_string().into();
        document["output"] = payload(hub, "the output of a run", end.output);
        document["failure"] = payload(hub, "why the run ended", end.failure);
    }
    Ok(document)
}

fn step(hub: &Hub, row: StepRow) -> Value {
    json!({
        "name": &*row.name,
        "generation": row.generation,
        "attempt": row.attempt,
        "kind": format!("{:?}", row.kind),
        "started_at": row.started_at.to_string(),
        "ended_at": row.ended_at.to_string(),
        "output": payload(hub, "the result of a step", row.output),
        "detail": payload(hub, "the details of a step", row.detail),
    })
}

/// What was kept as JSON, or null when nothing was. What cannot be decoded is shown as it was kept, and says why.
fn payload(hub: &Hub, what: &str, kept: Option<Bytes>) -> Value {
    let Some(kept) = kept.filter(|kept| !kept.is_empty()) else { return Value::Null };
    let decoded = hub.read(what, kept.clone()).map_err(|error| error.to_string());
    let value = decoded.and_then(|json| serde_json::from_slice(&json).map_err(|error| error.to_string()));
    value.unwrap_or_else(|why| {
        let hex: String = kept.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({ "undecodable": why, "kept": hex })
    })
}
