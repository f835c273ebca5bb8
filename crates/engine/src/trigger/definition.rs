//! What a trigger is.

use std::{any::type_name, collections::HashMap, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use serde::Serialize;
use windlass_core::{
    Failure, Fingerprint, RunId,
    schedule::{Backoff, Firing, Schedule, ScheduleDraft},
};
use windlass_store::{NewRun, Parent};

use super::{Fire, keeper::PREFIX, ledger::ENDED};
use crate::{
    AnyWorkflow, Error, Res, Resources, Slot, Want, Workflow,
    hub::Hub,
    schedule::EVER,
    start::{Settings, new_run},
};

/// How long a question may take unless the trigger says otherwise.
const LIMIT: Duration = Duration::from_secs(60);

/// The triggers of an engine, by the names of their own workflows.
pub(crate) type Set = HashMap<Arc<str>, Arc<Trigger>>;

type Asking = Pin<Box<dyn Future<Output = Result<Option<Asked>, Failure>> + Send>>;

/// A condition that is asked again and again, and starts a run when it says so.
///
/// It is made by `#[trigger]`, or at run time with [`Trigger::new`], and given to an engine with
/// [`EngineBuilder::trigger`](crate::EngineBuilder::trigger).
#[must_use = "a trigger is asked once an engine has it"]
pub struct Trigger {
    name: String,
    draft: ScheduleDraft,
    target: Arc<str>,
    /// The longest that a run may take, as its workflow says.
    run_timeout: Option<Duration>,
    ask: Box<dyn Fn(TriggerCx) -> Asking + Send + Sync>,
    wants: Vec<Want>,
    limit: Duration,
    is_once: bool,
    is_concurrent: bool,
    settings: Settings,
}

/// What a trigger is asked with.
#[derive(Clone)]
pub struct TriggerCx {
    resources: Arc<Resources>,
}

/// What a trigger answered.
pub(super) struct Asked {
    input: Slot,
    key: Option<String>,
}

/// What a fired run is known by.
pub(super) enum Mark {
    /// By nothing: it is started whatever else runs.
    None,
    /// By this key, while it is under way.
    WhileLive(String),
    /// By this key, for as long as anybody asks.
    Once(String),
}

impl TriggerCx {
    pub(super) const fn new(resources: Arc<Resources>) -> Self {
        Self { resources }
    }

    /// A resource that was given to the engine.
    ///
    /// # Errors
    ///
    /// When there is none of this type. A trigger can say beforehand what it takes, with [`Trigger::wants`]: then a missing
    /// one is found at launch.
    pub fn res<T: Send + Sync + 'static>(&self) -> Result<Res<T>, Failure> {
        let missing = || format!("the engine was not given a resource of type `{}`", type_name::<T>());
        self.resources.get().ok_or_else(|| Failure::permanent(missing()))
    }
}

impl Trigger {
    /// A trigger that starts runs of a workflow. It has to say when it is asked: [`every`](Self::every) or
    /// [`cron`](Self::cron).
    pub fn new<I, O, F, A>(name: impl Into<String>, starts: Workflow<I, O>, ask: F) -> Self
    where
        I: Serialize + Send + Sync + 'static,
        F: Fn(TriggerCx) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Fire<I>, Failure>> + Send + 'static,
    {
        let (name, workflow) = (name.into(), AnyWorkflow::from(starts));
        let definition = workflow.definition();
        let asking = move |cx: TriggerCx| -> Asking {
            let answer = ask(cx);
            Box::pin(async move {
                Ok(match answer.await? {
                    Fire::Skip => None,
                    Fire::Run { input, key } => Some(Asked { input: Slot::new(input)?, key }),
                })
            })
        };
        Self {
            draft: ScheduleDraft::new(name.clone(), definition.name.to_string()),
            name,
            target: Arc::clone(&definition.name),
            run_timeout: definition.timeout,
            ask: Box::new(asking),
            wants: Vec::new(),
            limit: LIMIT,
            is_once: false,
            is_concurrent: false,
            settings: Settings::default(),
        }
    }

    /// Asks again and again, so long from one question to the next.
    pub fn every(mut self, period: Duration) -> Self {
        self.draft = self.draft.every(period);
        self
    }

    /// Asks whenever a cron expression says so.
    pub fn cron(mut self, expression: impl Into<String>) -> Self {
        self.draft = self.draft.cron(expression);
        self
    }

    /// Makes the cron expression go by the clocks of this zone. Default: UTC.
    pub fn timezone(mut self, name: impl Into<String>) -> Self {
        self.draft = self.draft.timezone(name);
        self
    }

    /// How long a question may take. Default: one minute.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// How it is held back when it fails or takes too long. Default: as a schedule whose runs fail.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.draft = self.draft.backoff(backoff);
        self
    }

    /// Starts one run for each key, ever: for ten years after it. The records of these runs are kept as long, whatever the
    /// retention says. Default: one at a time.
    pub fn once(mut self) -> Self {
        self.is_once = true;
        self
    }

    /// Lets runs with the same input be under way beside each other, if they have no key. Default: one at a time.
    pub fn concurrent(mut self) -> Self {
        self.is_concurrent = true;
        self
    }

    /// The queue that its runs wait in. Default: `default`.
    pub fn queue(mut self, queue: impl Into<Arc<str>>) -> Self {
        self.settings.queue = Some(queue.into());
        self
    }

    /// How urgent its runs are, from 0 (most urgent) to 9. Default: 5.
    pub fn priority(mut self, priority: u8) -> Self {
        self.settings.priority = Some(priority);
        self
    }

    /// A word to find its runs by. May be given several times.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.settings.tags.push(tag.into());
        self
    }

    /// Says that it takes a resource of this type: if the engine has none, launching it says so.
    pub fn wants<T: Send + Sync + 'static>(mut self) -> Self {
        self.wants.push(Want::of::<T>());
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn own_workflow(&self) -> Arc<str> {
        format!("{PREFIX}{}", self.name).into()
    }

    /// Why it cannot be used, with these workflows and resources.
    pub(crate) fn problems(&self, workflows: &[AnyWorkflow], resources: &Resources) -> Vec<String> {
        let name = &self.name;
        let mut problems: Vec<String> = match self.schedule() {
            Ok(_) => Vec::new(),
            Err(error) => vec![format!("trigger `{name}` cannot be used: {error}")],
        };
        if !workflows.iter().any(|workflow| workflow.definition().name == self.target) {
            let target = &self.target;
            problems.push(format!(
                "trigger `{name}` starts `{target}`, which the engine was not given: add `.workflow({target}::workflow())` before \
                 `.launch()`"
            ));
        }
        if self.settings.priority.is_some_and(|priority| priority > 9) {
            problems
                .push(format!("trigger `{name}` has a priority above 9: 0 is the most urgent, 9 the least"));
        }
        let queue = self.settings.queue.as_deref().and_then(crate::reserved::wrong_queue);
        problems.extend(queue.map(|why| format!("trigger `{name}`: {why}")));
        for want in resources.lacking(&self.wants) {
            problems.push(format!(
                "trigger `{name}` takes a resource of type `{}`, which the engine was not given: add `.resource(…)` before \
                 `.launch()`",
                want.type_name
            ));
        }
        problems
    }

    /// When it is asked.
    pub(super) fn schedule(&self) -> Result<Schedule, Error> {
        self.draft.clone().check().map_err(|problems| Error::Invalid(problems.to_string()))
    }

    pub(super) const fn limit(&self) -> Duration {
        self.limit
    }

    pub(super) fn ask(&self, cx: TriggerCx) -> Asking {
        (self.ask)(cx)
    }

    /// What the run is known by that this answer asks for.
    pub(super) fn mark(&self, asked: &Asked) -> Result<Mark, Failure> {
        let key = match &asked.key {
            Some(key) => key.clone(),
            None if self.is_concurrent && !self.is_once => return Ok(Mark::None),
            // The same whatever the order of keys is in a map.
            None => Fingerprint::new().json_part(&asked.input.decode()?).finish(),
        };
        let key = format!("{}#{key}", self.name);
        Ok(if self.is_once { Mark::Once(key) } else { Mark::WhileLive(key) })
    }

    /// The run that this answer asks for.
    pub(super) fn new_run(
        &self,
        hub: &Hub,
        trigger: RunId,
        asked: &Asked,
        mark: &Mark,
    ) -> Result<NewRun, Error> {
        let (key, key_life) = match mark {
            Mark::None => (None, None),
            // Who is under way is known to the trigger, and the key is only to find the run by.
            Mark::WhileLive(key) => (Some(key.clone()), Some(Duration::from_micros(1))),
            // Its record is kept as long, else the next question would find nothing and start it again.
            Mark::Once(key) => (Some(key.clone()), Some(EVER)),
        };
        let settings = Settings { key, key_life, or_existing: true, ..self.settings.clone() };
        let mut new = new_run(hub, &self.target, self.run_timeout, &asked.input, &settings)?;
        if let Mark::WhileLive(_) = mark {
            new.parent = Some(Parent { run: trigger, topic: ENDED.to_owned() });
        }
        Ok(new)
    }

    /// Whether there is a run of this key.
    pub(super) async fn has_run(&self, hub: &Hub, key: &str) -> Result<bool, Error> {
        Ok(hub.store.by_key(Arc::clone(&self.target), key.to_owned()).await?.is_some())
    }

    /// The id of the run that is fired in this turn.
    pub(super) fn run_id(&self, firing: &Firing, trigger: RunId, turn: u64) -> RunId {
        firing.run(trigger, turn)
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trigger")
            .field("name", &self.name)
            .field("starts", &self.target)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TriggerCx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TriggerCx").field("resources", &self.resources).finish()
    }
}
