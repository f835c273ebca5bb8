//! Declaring a batch.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use windlass_core::{RunId, batch::Gathering};
use windlass_store::{Act, Unit, Written};

use super::{
    Declared,
    batches::{View, look_at},
    declaration::Declaration,
    keeper::WORKFLOW,
    message::Message,
};
use crate::{
    Client, Error,
    committer::Lost,
    keeping::FORMAT,
    reserved::own_id,
    schedule::{QUEUE, StartSettings, own_run},
    start::registered,
};

/// How often a declaration is tried that others get in the way of.
const TRIES: usize = 20;

/// A batch that is being declared. Nothing happens before it is awaited; then everything is checked at once.
///
/// It is known by its name: a program declares it whenever it starts, and nothing is written while nothing has changed.
#[must_use = "a batch is declared by awaiting this"]
pub struct BatchBuilder {
    client: Client,
    declaration: Declaration,
}

impl BatchBuilder {
    pub(crate) fn new(client: Client, name: &str, workflow: &str) -> Self {
        let declaration = Declaration {
            format: FORMAT,
            name: name.to_owned(),
            workflow: workflow.to_owned(),
            gathering: Gathering { size: 100, age: Duration::from_secs(5) },
            start: StartSettings::default(),
        };
        Self { client, declaration }
    }

    /// As soon as so many items wait, a run is started with them: from 1 to [`MOST_ITEMS`](super::MOST_ITEMS). It gets
    /// fewer when they are longer together than an input may be. Default: 100.
    pub fn size(mut self, items: usize) -> Self {
        self.declaration.gathering.size = items;
        self
    }

    /// As soon as the oldest item has waited for so long, a run is started with all that wait. Default: 5 s.
    pub fn age(mut self, age: Duration) -> Self {
        self.declaration.gathering.age = age;
        self
    }

    /// The queue that its runs wait in. Default: `default`.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.declaration.start.queue = Some(queue.into());
        self
    }

    /// How urgent its runs are, from 0 (most urgent) to 9. Default: 5.
    pub fn priority(mut self, priority: u8) -> Self {
        self.declaration.start.priority = Some(priority);
        self
    }

    /// The longest that a run may take. Default: the workflow's own.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.declaration.start.timeout = Some(timeout);
        self
    }

    /// A word to find its runs by. May be given several times.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.declaration.start.tags.push(tag.into());
        self
    }

    /// The declaration, if nothing is wrong with it.
    fn check(self) -> Result<(Client, Declaration), Error> {
        let Self { client, declaration } = self;
        let name = declaration.name.clone();
        let mut problems = declaration.gathering.problems(&name);
        problems.extend(unknown(&client, &declaration.workflow));
        problems.extend(declaration.start.problems(&name));
        problems.extend(odd_words(&declaration.start));
        problems.extend(own_queue(&declaration.start));
        if problems.is_empty() { Ok((client, declaration)) } else { Err(Error::Batch { name, problems }) }
    }
}

impl IntoFuture for BatchBuilder {
    type Output = Result<Declared, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (client, declaration) = self.check()?;
            declare(&client, declaration).await
        })
    }
}

impl fmt::Debug for BatchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchBuilder").field("declaration", &self.declaration).finish_non_exhaustive()
    }
}

/// Why this process cannot have the workflow, if it runs workflows.
fn unknown(client: &Client, workflow: &str) -> Option<String> {
    if crate::reserved::is_reserved(workflow) {
        return Some(format!("`{workflow}` is the engine's own: batches start workflows of yours"));
    }
    registered(client.node()?, &Arc::from(workflow)).err().map(|error| error.to_string())
}

/// Why its runs cannot wait in the queue, if that is the engine's own.
fn own_queue(start: &StartSettings) -> Option<String> {
    let own = start.queue.as_ref().filter(|queue| *queue == QUEUE)?;
    Some(format!("queue `{own}` is the engine's own: runs of yours wait in another"))
}

/// Words that some store does not keep. The runs of a batch must be refused by none: their items would be gone.
fn odd_words(start: &StartSettings) -> Option<String> {
    let mut words = start.queue.iter().chain(&start.tags);
    let odd = words.find(|word| word.is_empty() || word.len() > 500 || word.contains('\0'))?;
    Some(format!("{odd:?} cannot be a queue or a tag: it has 1 to 500 bytes, and no NUL"))
}

/// Makes the batch, or changes it, until it is as it is declared.
async fn declare(client: &Client, declaration: Declaration) -> Result<Declared, Error> {
    for _ in 0..TRIES {
        let found = look_at(client, &declaration.name).await?;
        if let Some(declared) = attempt(client, &declaration, found).await? {
            client.nudge().await;
            return Ok(declared);
        }
        // Somebody else makes or opens it right now.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(Error::Unavailable(format!("batch `{}` is changed by others all the time", declaration.name)))
}

/// Tries once. Answers nothing if it has to be tried again.
async fn attempt(
    client: &Client,
    declaration: &Declaration,
    found: Option<View>,
) -> Result<Option<Declared>, Error> {
    let Some(view) = found else { return start(client, declaration).await };
    let what = view.ledger.declaration.difference(declaration);
    if view.is_live() && what.is_empty() {
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
    Ok(Some(if view.is_live() { Declared::Updated { what } } else { Declared::Created }))
}

async fn start(client: &Client, declaration: &Declaration) -> Result<Option<Declared>, Error> {
    let (hub, what) = (client.hub(), "a batch");
    let json = serde_json::to_vec(declaration)
        .map_err(|why| Error::Encode { what: what.to_owned(), why: why.to_string() })?;
    let input = hub.keep(format_args!("{what}"), json.into())?;
    let new = own_run(WORKFLOW.into(), &declaration.name, Vec::new(), input);
    let run: RunId = own_id();
    match hub.committer.write(run, Act::Start(Box::new(new))).await? {
        Ok(Written::Existing { run: other }) if other != run => Ok(None),
        Ok(_) => Ok(Some(Declared::Created)),
        Err(refusal) => Err(Error::refused(run, refusal)),
    }
}
