//! Forgetting runs that have ended.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use windlass_core::{NodeId, RunId};
use windlass_store::{Discard, Keyed, Refusal};

use crate::{
    Error, Failure,
    boxed::{Boxed, boxed},
    export,
    hub::Hub,
    node::Node,
    reserved::is_reserved,
};

/// How long one transaction may take: others wait for it.
const BRIEF: Duration = Duration::from_millis(10);
/// So many times as long as it works it rests, so that it is never in the way.
const REST: u32 = 4;
/// How many runs the archive gets at once.
const AT_ONCE: usize = 8;
/// How long the archive may take for one of them.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// What became of a run that was to be discarded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Gone,
    Kept(Refusal),
    NotArchived(String),
}

/// Discards runs that ended in these generations as somebody says so, each after the archive has it.
pub(crate) async fn discard_by_hand(
    hub: &Hub,
    node: Option<&Arc<Node>>,
    runs: Vec<(RunId, u32)>,
) -> Result<Vec<(RunId, Outcome)>, Error> {
    let lost = || Error::Unavailable("the engine has lost its lease, and is about to join again".to_owned());
    let acting = node.map(|node| node.id().ok_or_else(lost)).transpose()?;
    discard(hub, node, acting, runs, Keyed::Goes).await
}

/// Discards runs that ended in these generations, each after the archive has it, a few at a time.
pub(crate) async fn discard(
    hub: &Hub,
    node: Option<&Arc<Node>>,
    acting: Option<NodeId>,
    runs: Vec<(RunId, u32)>,
    keyed: Keyed,
) -> Result<Vec<(RunId, Outcome)>, Error> {
    let (mut left, mut outcomes) = match node {
        Some(node) if node.options.archive.0.is_some() => archive_all(node, runs).await?,
        _ => (runs, Vec::new()),
    };
    while !left.is_empty() {
        let began = Instant::now();
        let request = Discard { node: acting, runs: left.clone(), keyed, within: BRIEF };
        let answers = hub.store.discard(request).await?;
        let (took, before) = (began.elapsed(), left.len());
        let (mut busy, mut goes_on) = (Vec::new(), false);
        for ((run, generation), answer) in left.into_iter().zip(answers) {
            match answer {
                Err(Refusal::Busy) => busy.push((run, generation)),
                Err(Refusal::Unfinished) => {
                    goes_on = true;
                    busy.push((run, generation));
                }
                Ok(()) => outcomes.push((run, Outcome::Gone)),
                Err(refusal) => outcomes.push((run, Outcome::Kept(refusal))),
            }
        }
        if busy.len() == before && !goes_on {
            outcomes.extend(busy.into_iter().map(|(run, _)| (run, Outcome::Kept(Refusal::Busy))));
            break;
        }
        left = busy;
        sleep(took * REST).await;
    }
    Ok(outcomes)
}

/// Goes on with what is left of runs that somebody has begun to discard, who may be dead.
pub(crate) async fn finish(hub: &Hub, acting: NodeId) -> Result<(), Error> {
    let request = Discard { node: Some(acting), runs: Vec::new(), keyed: Keyed::Stays, within: BRIEF };
    hub.store.discard(request).await?;
    Ok(())
}

/// Hands runs to the archive. Answers which may go, and why the others have to stay.
#[allow(clippy::type_complexity, reason = "it is a pair of lists")]
async fn archive_all(
    node: &Arc<Node>,
    runs: Vec<(RunId, u32)>,
) -> Result<(Vec<(RunId, u32)>, Vec<(RunId, Outcome)>), Error> {
    let (mut ready, mut stay) = (Vec::with_capacity(runs.len()), Vec::new());
    let mut waiting = runs.into_iter();
    let mut archiving = JoinSet::new();
    loop {
        while archiving.len() < AT_ONCE
            && let Some((run, generation)) = waiting.next()
        {
            let node = Arc::clone(node);
            archiving.spawn(async move { ((run, generation), archive(&node, run, generation).await) });
        }
        match archiving.join_next().await {
            None => return Ok((ready, stay)),
            Some(Ok((run, Ok(None)))) => ready.push(run),
            Some(Ok(((run, _), Ok(Some(outcome))))) => stay.push((run, outcome)),
            Some(Ok((_, Err(error)))) => return Err(error),
            Some(Err(panicked)) => {
                return Err(Error::Store(format!("a run could not be archived: {panicked}")));
            }
        }
    }
}

/// Hands a run to the archive. Answers why it has to stay, if it has to.
async fn archive(node: &Node, run: RunId, generation: u32) -> Result<Option<Outcome>, Error> {
    let Some(keep) = &node.options.archive.0 else { return Ok(None) };
    let Some(image) = node.hub.store.load(run).await? else {
        return Ok(Some(Outcome::Kept(Refusal::Unknown)));
    };
    if image.standing.generation != generation || !image.standing.state().is_terminal() {
        return Ok(Some(Outcome::Kept(Refusal::Open)));
    }
    let workflow = Arc::clone(&image.run.workflow);
    if is_reserved(&workflow) {
        // It is no run of the user's.
        return Ok(None);
    }
    let document = export::export(&node.hub, image).await?;
    // It is the user's code: it runs on the user's threads, and a panic is its own.
    let mut task = node.user.spawn(keep(document));
    let why = match timeout(PATIENCE, &mut task).await {
        Ok(Ok(Ok(()))) => return Ok(None),
        Ok(Ok(Err(failure))) => failure.to_string(),
        Ok(Err(panicked)) => panicked.to_string(),
        Err(_) => {
            task.abort();
            format!("it took longer than {} s", PATIENCE.as_secs())
        }
    };
    tracing::warn!(%run, workflow = &*workflow, why, "a run could not be archived, so it is not discarded; it is tried again");
    Ok(Some(Outcome::NotArchived(why)))
}
