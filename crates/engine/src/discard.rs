//! Forgetting runs that have ended.

use std::{fmt, future::Future, sync::Arc};

use serde_json::Value;
use windlass_core::RunId;
use windlass_store::Refusal;

use crate::{
    Error, Failure,
    boxed::{Boxed, boxed},
    export,
    hub::Hub,
    node::Node,
};

/// What is done with a run before it is discarded.
type Keep = dyn Fn(Value) -> Boxed<'static, Result<(), Failure>> + Send + Sync;

/// Who gets runs before they are discarded, if anybody.
#[derive(Clone, Default)]
pub(crate) struct Archive(Option<Arc<Keep>>);

impl Archive {
    pub(crate) fn new<F, A>(keep: F) -> Self
    where
        F: Fn(Value) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Self(Some(Arc::new(move |run| boxed(keep(run)))))
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Archive" } else { "no Archive" })
    }
}

/// Discards runs that ended in these generations, each after the archive has it.
pub(crate) async fn discard(
    hub: &Hub,
    node: Option<&Arc<Node>>,
    runs: Vec<(RunId, u32)>,
) -> Result<Vec<(RunId, Outcome)>, Error> {
    let mut outcomes = Vec::with_capacity(runs.len());
    let mut ready = Vec::with_capacity(runs.len());
    for (run, generation) in runs {
        let kept = match node {
            Some(node) => archive(node, run, generation).await?,
            None => None,
        };
        match kept {
            None => ready.push((run, generation)),
            Some(kept) => outcomes.push((run, kept)),
        }
    }
    let acting = node.and_then(|node| node.id());
    let answers = hub.store.discard(acting, ready.clone()).await?;
    outcomes.extend(ready.into_iter().zip(answers).map(|((run, _), answer)| (run, answer.into())));
    Ok(outcomes)
}

/// What became of a run that was to be discarded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Gone,
    Kept(Refusal),
    NotArchived(String),
}

impl From<Result<(), Refusal>> for Outcome {
    fn from(answer: Result<(), Refusal>) -> Self {
        answer.map_or_else(Self::Kept, |()| Self::Gone)
    }
}

/// Hands a run to the archive, if there is one. Answers why it has to stay, if it has to.
async fn archive(node: &Node, run: RunId, generation: u32) -> Result<Option<Outcome>, Error> {
    let Some(keep) = &node.options.archive.0 else { return Ok(None) };
    let Some(image) = node.hub.store.load(run).await? else {
        return Ok(Some(Outcome::Kept(Refusal::Unknown)));
    };
    if image.standing.generation != generation || !image.standing.state().is_terminal() {
        return Ok(Some(Outcome::Kept(Refusal::Open)));
    }
    let workflow = Arc::clone(&image.run.workflow);
    let document = match export::export(&node.hub, image).await {
        Ok(document) => document,
        Err(error @ Error::Unavailable(_)) => return Err(error),
        Err(error) => return Ok(Some(stays(run, &workflow, error.to_string()))),
    };
    // It is the user's code: it runs on the user's threads, and a panic is its own.
    match node.user.spawn(keep(document)).await {
        Ok(Ok(())) => Ok(None),
        Ok(Err(failure)) => Ok(Some(stays(run, &workflow, failure.to_string()))),
        Err(panicked) => Ok(Some(stays(run, &workflow, panicked.to_string()))),
    }
}

fn stays(run: RunId, workflow: &str, why: String) -> Outcome {
    tracing::warn!(%run, workflow, why, "a run could not be archived, so it is not discarded; it is tried again");
    Outcome::NotArchived(why)
}
