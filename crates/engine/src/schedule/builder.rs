//! Declaring a schedule.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;
use serde_json::{Value, value::RawValue};
use windlass_core::{
    Failure, Fingerprint, RunId, Time,
    schedule::{Backoff, CatchUp, Overlap, ScheduleDraft},
};
use windlass_store::{Act, Place, Unit, Written};

use super::{
    declaration::{Declaration, StartSettings},
    keeper::{WORKFLOW, own_run},
    message::Message,
    schedules::{View, look_at},
};
use crate::{
    Client, Error, Slot, Workflow, committer::Lost, keeping::FORMAT, reserved::own_id, start::registered,
};

/// How often a declaration is tried that others get in the way of.
const TRIES: usize = 20;

/// What a declaration did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// There is a new schedule.
    Created,
    /// It was declared before, with the same settings. Nothing was written.
    Unchanged,
    /// It was declared before, with other settings, and has these from now on.
    Updated {
        /// What is different, in words.
        what: Vec<String>,
    },
}

/// A schedule that is being declared. Nothing happens before it is awaited; then everything is checked at once.
///
/// It is known by its name: a program declares it whenever it starts, and nothing is written while nothing has changed.
#[must_use = "a schedule is declared by awaiting this"]
pub struct ScheduleBuilder {
    client: Client,
    draft: ScheduleDraft,
    input: Option<Result<Slot, Failure>>,
    start: StartSettings,
    context: Option<Value>,
}

impl ScheduleBuilder {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        let draft = ScheduleDraft::new(name, "");
        Self { client, draft, input: None, start: StartSettings::default(), context: None }
    }

    fn set(mut self, change: impl FnOnce(ScheduleDraft) -> ScheduleDraft) -> Self {
        self.draft = change(self.draft);
        self
    }

    /// The workflow whose runs it starts, and what they get. Every run gets the same input; what is different from one to
    /// the next, such as the time that it is for, is asked of [`Cx::fired`](crate::Cx::fired).
    ///
    /// An engine refuses a workflow that it does not have. A client cannot know which workflows there are: the runs then
    /// wait until an engine comes that has it.
    pub fn workflow<I, O>(mut self, workflow: Workflow<I, O>, input: I) -> Self
    where
        I: Serialize + Send + Sync + 'static,
    {
        self.draft.workflow = workflow.name().to_owned();
        self.input = Some(Slot::new(input));
        self
    }

    /// The same for a workflow that is known by name only, with its input as JSON.
    pub fn workflow_by_name(mut self, workflow: &str, input: Value) -> Self {
        self.draft.workflow = workflow.to_owned();
        self.input = Some(Slot::new(input));
        self
    }

    /// Starts a run again and again, so long from one to the next, whatever they do. The times begin with
    /// [`starting_at`](Self::starting_at), or else with 1970: every 15 minutes is every quarter of an hour.
    pub fn every(self, period: Duration) -> Self {
        self.set(|draft| draft.every(period))
    }

    /// Makes [`every`](Self::every) count from the end of a run.
    pub fn after_finish(self) -> Self {
        self.set(ScheduleDraft::after_finish)
    }

    /// Starts a run whenever a cron expression says so: five fields, or six with seconds first. Names, ranges, steps, `L`,
    /// `W` and `#` are understood, and Sunday is 0 or 7.
    pub fn cron(self, expression: impl Into<String>) -> Self {
        self.set(|draft| draft.cron(expression))
    }

    /// Makes the cron expression go by the clocks of this zone, such as `Europe/Paris`. Default: UTC.
    pub fn timezone(self, name: impl Into<String>) -> Self {
        self.set(|draft| draft.timezone(name))
    }

    /// Starts a run at an instant. Said several times, at each.
    pub fn at(self, instant: impl Into<Time>) -> Self {
        self.set(|draft| draft.at(instant))
    }

    /// Starts runs only when somebody says so.
    pub fn manual(self) -> Self {
        self.set(ScheduleDraft::manual)
    }

    /// What happens to a time that comes while a run is under way. Default: it is left out.
    pub fn overlap(self, overlap: Overlap) -> Self {
        self.set(|draft| draft.overlap(overlap))
    }

    /// What happens to times that were missed. Default: the latest is made up for.
    pub fn catch_up(self, catch_up: CatchUp) -> Self {
        self.set(|draft| draft.catch_up(catch_up))
    }

    /// Makes up only for times that are not longer ago than this. Default: however long ago.
    pub fn catch_up_within(self, window: Duration) -> Self {
        self.set(|draft| draft.catch_up_within(window))
    }

    /// Puts each time off by up to so much, but never to the next time or past it. Default: not at all.
    pub fn jitter(self, longest: Duration) -> Self {
        self.set(|draft| draft.jitter(longest))
    }

    /// Leaves out times before an instant. Default: none.
    pub fn starting_at(self, instant: impl Into<Time>) -> Self {
        self.set(|draft| draft.starting_at(instant))
    }

    /// Leaves out an instant and times after it. Default: none.
    pub fn ending_at(self, instant: impl Into<Time>) -> Self {
        self.set(|draft| draft.ending_at(instant))
    }

    /// Lets it start so many runs by itself, and then no more. Default: as many as there are times.
    pub fn count(self, runs: u64) -> Self {
        self.set(|draft| draft.count(runs))
    }

    /// How it is held back when its runs fail. Default: 1 s after the first failure, twice as long after each further one,
    /// at most 300 s, and never stopped.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.set(|draft| draft.backoff(backoff))
    }

    /// The queue that its runs wait in. Default: `default`.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.start.queue = Some(queue.into());
        self
    }

    /// How urgent its runs are, from 0 (most urgent) to 9. Default: 5.
    pub fn priority(mut self, priority: u8) -> Self {
        self.start.priority = Some(priority);
        self
    }

    /// The longest that a run may take. Default: the workflow's own.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.start.timeout = Some(timeout);
        self
    }

    /// A word to find its runs by. May be given several times.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.start.tags.push(tag.into());
        self
    }

    /// What the context of its runs starts with: a JSON object.
    pub fn context(mut self, context: Value) -> Self {
        self.context = Some(context);
        self
    }

    /// The declaration, if nothing is wrong with it.
    fn check(self) -> Result<(Client, Declaration), Error> {
        let Self { client, mut draft, input, mut start, context } = self;
        let (name, mut problems) = (draft.name.clone(), Vec::new());
        match context {
            None => {}
            Some(Value::Object(map)) => start.context = map,
            Some(other) => {
                problems.push(format!("the context of `{name}` must be a JSON object, not {other}"));
            }
        }
        problems.extend(start.problems(&name));
        problems.extend(start.queue.as_deref().and_then(crate::reserved::wrong_queue));
        let input = match input {
            None => {
                // A name that is never used, so that only what is missing is complained of.
                "missing".clone_into(&mut draft.workflow);
                problems.push(format!("`{name}` does not say what it starts: use `workflow`"));
                None
            }
            Some(input) => {
                problems.extend(unknown(&client, &draft.workflow));
                let input = input.and_then(|slot| raw(&slot));
                input.map_err(|why| problems.push(format!("the input cannot be written as JSON: {why}"))).ok()
            }
        };
        if let Some(input) = &input {
            draft = draft.input(fingerprint(input));
        }
        match (draft.check(), input) {
            (Ok(schedule), Some(input)) if problems.is_empty() => {
                Ok((client, Declaration { format: FORMAT, schedule, input, start }))
            }
            (checked, _) => {
                let found =
                    checked.err().into_iter().flat_map(|found| found.iter().cloned().collect::<Vec<_>>());
                problems.splice(0..0, found.map(|problem| problem.to_string()));
                Err(Error::Schedule { name, problems })
            }
        }
    }
}

impl IntoFuture for ScheduleBuilder {
    type Output = Result<Declared, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (client, declaration) = self.check()?;
            declare(&client, declaration).await
        })
    }
}

impl fmt::Debug for ScheduleBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleBuilder").field("draft", &self.draft).finish_non_exhaustive()
    }
}

/// Why this process cannot have the workflow, if it runs workflows.
fn unknown(client: &Client, workflow: &str) -> Option<String> {
    if crate::reserved::is_reserved(workflow) {
        return Some(format!("`{workflow}` is the engine's own: schedules start workflows of yours"));
    }
    registered(client.node()?, &Arc::from(workflow)).err().map(|error| error.to_string())
}

/// The same whatever the order of keys is in a map.
fn fingerprint(input: &RawValue) -> String {
    let fingerprint = Fingerprint::new();
    match serde_json::from_str(input.get()) {
        Ok(value) => fingerprint.json_part(&value).finish(),
        Err(_) => fingerprint.part(input.get()).finish(),
    }
}

fn raw(slot: &Slot) -> Result<Box<RawValue>, Failure> {
    let text = std::str::from_utf8(slot.bytes()).map_err(Failure::permanent)?;
    RawValue::from_string(text.to_owned()).map_err(Failure::permanent)
}

/// Makes the schedule, or changes it, until it is as it is declared.
async fn declare(client: &Client, declaration: Declaration) -> Result<Declared, Error> {
    let name = declaration.schedule.name().to_owned();
    for _ in 0..TRIES {
        let found = look_at(client, &name).await?;
        if let Some(declared) = attempt(client, &declaration, found).await? {
            client.nudge().await;
            return Ok(declared);
        }
        // Somebody else makes, removes or ends it right now.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(Error::Unavailable(format!("schedule `{name}` is changed by others all the time")))
}

/// Tries once. Answers nothing if it has to be tried again.
async fn attempt(
    client: &Client,
    declaration: &Declaration,
    found: Option<View>,
) -> Result<Option<Declared>, Error> {
    let Some(view) = found else { return start(client, declaration).await };
    let was_there = view.ended.is_none() && view.ledger.removed_at.is_none();
    let what = view.ledger.declaration.difference(declaration);
    if was_there && what.is_empty() {
        return Ok(Some(Declared::Unchanged));
    }
    let message = Message::Declare(Box::new(declaration.clone())).encode(client.hub())?;
    let mut units = vec![Unit { run: view.run, act: Act::Send(message) }];
    if let Some(after) = view.ended {
        units.insert(0, Unit { run: view.run, act: Act::Reopen { after } });
    }
    for fate in client.hub().committer.write_group(units).await? {
        match fate {
            Ok(_) => {}
            Err(Lost::Refused(_)) => return Ok(None),
            Err(Lost::Failed(error)) => return Err(error.into()),
            Err(Lost::Fenced) => return Err(Error::Stopped),
        }
    }
    if was_there {
        return Ok(Some(Declared::Updated { what }));
    }
    // Whoever ends the run of a removed schedule right now has not seen the message, and throws it away.
    let is_kept = is_settled(client, view.run).await?;
    Ok(is_kept.then_some(Declared::Created))
}

/// Waits until nobody holds the run. Answers whether it goes on.
async fn is_settled(client: &Client, run: RunId) -> Result<bool, Error> {
    client.nudge().await;
    for _ in 0..100 {
        match client.hub().store.load(run).await?.map(|image| image.standing.place) {
            Some(Place::Owned { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            place => return Ok(!matches!(place, None | Some(Place::Ended(_)))),
        }
    }
    // Whoever holds it so long does not end it.
    Ok(true)
}

async fn start(client: &Client, declaration: &Declaration) -> Result<Option<Declared>, Error> {
    let hub = client.hub();
    let what = "a schedule";
    let json = serde_json::to_vec(declaration)
        .map_err(|why| Error::Encode { what: what.to_owned(), why: why.to_string() })?;
    let input = hub.keep(format_args!("{what}"), json.into())?;
    let new = own_run(WORKFLOW.into(), declaration.schedule.name(), Vec::new(), input);
    let run = own_id();
    match hub.committer.write(run, Act::Start(Box::new(new))).await? {
        Ok(Written::Existing { run: other }) if other != run => Ok(None),
        Ok(_) => Ok(Some(Declared::Created)),
        Err(refusal) => Err(Error::refused(run, refusal)),
    }
}
