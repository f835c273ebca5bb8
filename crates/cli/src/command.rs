//! What can be said on the command line.

use std::net::SocketAddr;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use serde_json::{Value, json};

use crate::{
    Output,
    api::{Api, as_it_is, connect, escape},
    demo::Demo,
    keys::Keys,
    paint::Paint,
    show,
    trouble::Trouble,
    watch::{Form, watch},
};

/// Sees and steers the runs of a Windlass database.
///
/// Exit codes: 0 done; 1 refused; 2 not understood; 3 not there; 4 the database cannot be used; 5 a watched run ended
/// without completing.
#[derive(Parser)]
#[command(name = "windlass", version)]
pub(crate) struct Cli {
    /// The database: sqlite://app.db or postgres://…
    #[arg(long, env = "WINDLASS_URL", global = true, hide_env_values = true)]
    url: Option<String>,
    /// Print JSON, as the HTTP API answers it
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show a small shop at work: an engine with sample workflows, and the page that shows them
    Demo(Demo),
    /// Find and steer runs
    #[command(subcommand)]
    Runs(Runs),
    /// Look at and steer schedules
    #[command(subcommand)]
    Schedules(Schedules),
    /// Look at and steer queues
    #[command(subcommand)]
    Queues(Queues),
    /// Make, list and revoke keys for the HTTP API
    #[command(subcommand)]
    Keys(Keys),
    /// List the processes that run an engine
    Nodes,
    /// Draw a workflow
    Graph {
        /// Its name
        workflow: String,
        /// How
        #[arg(long, value_enum, default_value_t = Format::Mermaid)]
        format: Format,
        /// The version; the newest by default
        #[arg(long)]
        version: Option<String>,
    },
    /// Serve the HTTP API: to this machine, or, with keys, to others
    Serve {
        /// Where to listen
        #[arg(long, default_value = "127.0.0.1:7070")]
        address: SocketAddr,
    },
    /// Make the database, or bring it to the version that this program knows
    Migrate,
    /// Print what a shell needs to complete commands
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Subcommand)]
enum Runs {
    /// List runs, newest first
    List(Box<Filter>),
    /// Say where a run stands
    Show { run: String },
    /// Follow a run until its end
    Watch { run: String },
    /// Cancel a run: it may tidy up, and what it has done is undone if it says how
    Cancel {
        run: String,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Open a failed, cancelled or abandoned run again
    Retry { run: String },
    /// Hold a run at the next boundary
    Pause { run: String },
    /// Let a paused run go on
    Resume { run: String },
    /// Start a new run with a copy of what a task depends on
    Fork { run: String, task: String },
}

#[derive(Args)]
struct Filter {
    /// Only runs of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// Only runs in this state; may be given several times
    #[arg(long)]
    state: Vec<String>,
    /// Only runs of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only runs with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only runs that were started under this key
    #[arg(long)]
    key: Option<String>,
    /// Only runs created at this time or after it, as 2026-03-01T12:30:00Z
    #[arg(long)]
    since: Option<String>,
    /// Only runs created before this time
    #[arg(long)]
    until: Option<String>,
    /// The page after the one that ended with this run
    #[arg(long)]
    after: Option<String>,
    /// How many, at most 500
    #[arg(long, default_value = "50")]
    limit: String,
}

#[derive(Subcommand)]
enum Schedules {
    /// List all schedules
    List,
    /// Show a schedule: what is next, and what was
    Show { name: String },
    /// Have a run started now
    Trigger {
        name: String,
        /// Makes a repeat harmless: the same id is one wish
        #[arg(long)]
        id: Option<String>,
    },
    /// Start nothing more by itself
    Pause {
        name: String,
        /// Why
        #[arg(long, default_value = "")]
        note: String,
    },
    /// Go on
    Resume { name: String },
}

#[derive(Subcommand)]
enum Queues {
    /// List the queues that were declared
    List,
    /// Let nothing of a queue begin
    Pause { name: String },
    /// Let the runs of a paused queue begin again
    Resume { name: String },
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Mermaid,
    Dot,
}

impl Cli {
    pub(crate) async fn run(self, output: &mut Output) -> Result<(), Trouble> {
        let form = if self.json { Form::Json } else { Form::ForPeople };
        let url = || self.url.as_deref().ok_or(Trouble::NoUrl);
        let api = async || Api::open(url()?).await;
        let said = match self.command {
            Command::Completions { shell } => {
                clap_complete::generate(shell, &mut Self::command(), "windlass", &mut output.out);
                return Ok(());
            }
            Command::Demo(demo) => return demo.show(form, output).await,
            Command::Serve { address } => return serve(url()?, address, form, output).await,
            Command::Migrate => {
                connect(url()?).await?;
                Said::words(json!({}), "the database is ready")
            }
            Command::Runs(runs) => return runs.ask(&api().await?, form, output).await,
            Command::Schedules(schedules) => schedules.ask(&api().await?).await?,
            Command::Queues(queues) => queues.ask(&api().await?).await?,
            Command::Keys(keys) => keys.ask(&api().await?).await?,
            Command::Nodes => Said::new(api().await?.get("/nodes").await?, show::nodes),
            Command::Graph { workflow, format, version } => {
                graph(&api().await?, &workflow, format, version).await?
            }
        };
        said.print(form, output)
    }
}

/// Makes lines for people of an answer.
type Show = dyn Fn(&Value, Paint) -> Vec<String>;

/// An answer, and how it is shown to people.
pub(crate) struct Said {
    answer: Value,
    show: Box<Show>,
}

impl Said {
    pub(crate) fn new(answer: Value, show: impl Fn(&Value, Paint) -> Vec<String> + 'static) -> Self {
        Self { answer, show: Box::new(show) }
    }

    /// An answer that is shown in these words.
    pub(crate) fn words(answer: Value, words: impl Into<String>) -> Self {
        let words = words.into();
        Self::new(answer, move |_, _| vec![words.clone()])
    }

    fn print(&self, form: Form, output: &mut Output) -> Result<(), Trouble> {
        match form {
            Form::Json => output.line(&self.answer.to_string()),
            Form::ForPeople => {
                (self.show)(&self.answer, output.paint).iter().try_for_each(|line| output.line(line))
            }
        }
    }
}

impl Runs {
    async fn ask(self, api: &Api, form: Form, output: &mut Output) -> Result<(), Trouble> {
        let path = |run: &str, what: &str| format!("/runs/{}{what}", escape(run));
        let said = match self {
            Self::List(filter) => Said::new(api.get(&filter.path()).await?, show::runs),
            Self::Show { run } => Said::new(api.get(&path(&run, "")).await?, show::run),
            Self::Cancel { run, reason } => {
                let answer = api.post(&path(&run, "/cancel"), json!({"reason": reason})).await?;
                Said::new(answer, |answer, _| {
                    vec![match answer["state"].as_str() {
                        Some(state) => format!("it had ended already, as {state}"),
                        None => "it will end as cancelled, unless it ends by itself first".to_owned(),
                    }]
                })
            }
            Self::Retry { run } => {
                Said::words(api.post(&path(&run, "/retry"), json!({})).await?, "it runs again")
            }
            Self::Pause { run } => Said::words(
                api.post(&path(&run, "/pause"), json!({})).await?,
                "it stops at the next boundary",
            ),
            Self::Resume { run } => {
                Said::words(api.post(&path(&run, "/resume"), json!({})).await?, "it goes on")
            }
            Self::Fork { run, task } => {
                let answer = api.post(&path(&run, "/fork"), json!({"task": task})).await?;
                Said::new(answer, |answer, _| vec![show::text(&answer["id"])])
            }
            Self::Watch { run } => return watch(api, &run, form, output).await,
        };
        said.print(form, output)
    }
}

impl Filter {
    fn path(&self) -> String {
        let one = |name: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!("{name}={}", escape(value)))
        };
        let mut query = vec![format!("limit={}", escape(&self.limit))];
        query.extend(self.state.iter().map(|state| format!("state={}", escape(state))));
        let conditions = [
            one("workflow", &self.workflow),
            one("queue", &self.queue),
            one("tag", &self.tag),
            one("key", &self.key),
            one("since", &self.since),
            one("until", &self.until),
            one("after", &self.after),
        ];
        query.extend(conditions.into_iter().flatten());
        format!("/runs?{}", query.join("&"))
    }
}

impl Schedules {
    async fn ask(self, api: &Api) -> Result<Said, Trouble> {
        let path = |name: &str, what: &str| format!("/schedules/{}{what}", escape(name));
        Ok(match self {
            Self::List => Said::new(api.get("/schedules").await?, show::schedules),
            Self::Show { name } => Said::new(api.get(&path(&name, "")).await?, show::schedule),
            Self::Trigger { name, id } => {
                let wish = id.map_or_else(|| json!({}), |id| json!({"id": id}));
                let answer = api.post(&path(&name, "/trigger"), wish).await?;
                Said::new(answer, |answer, _| {
                    vec![format!("a run is started under the key {}", show::text(&answer["key"]))]
                })
            }
            Self::Pause { name, note } => {
                let answer = api.post(&path(&name, "/pause"), json!({"note": note})).await?;
                Said::words(answer, "it starts nothing more by itself")
            }
            Self::Resume { name } => {
                Said::words(api.post(&path(&name, "/resume"), json!({})).await?, "it goes on")
            }
        })
    }
}

impl Queues {
    async fn ask(self, api: &Api) -> Result<Said, Trouble> {
        let path = |name: &str, what: &str| format!("/queues/{}{what}", escape(name));
        Ok(match self {
            Self::List => Said::new(api.get("/queues").await?, show::queues),
            Self::Pause { name } => Said::words(
                api.post(&path(&name, "/pause"), json!({})).await?,
                "nothing of it begins until it is resumed",
            ),
            Self::Resume { name } => {
                Said::words(api.post(&path(&name, "/resume"), json!({})).await?, "its runs may begin")
            }
        })
    }
}

async fn graph(api: &Api, workflow: &str, format: Format, version: Option<String>) -> Result<Said, Trouble> {
    let version = version.map(|version| format!("?version={}", escape(&version))).unwrap_or_default();
    let answer = api.get(&format!("/workflows/{}{version}", escape(workflow))).await?;
    let field = match format {
        Format::Mermaid => "mermaid",
        Format::Dot => "dot",
    };
    Ok(Said::new(answer, move |answer, _| {
        answer[field].as_str().unwrap_or_default().lines().map(str::to_owned).collect()
    }))
}

async fn serve(url: &str, address: SocketAddr, form: Form, output: &mut Output) -> Result<(), Trouble> {
    let client = connect(&as_it_is(url)).await?;
    let refused = |why: windlass_server::ServeError| Trouble::Refused {
        code: "serve".to_owned(),
        detail: why.to_string(),
    };
    let server = windlass_server::serve(client, address).await.map_err(refused)?;
    let place = format!("http://{}/api/v1/", server.address());
    output.line(&match form {
        Form::Json => json!({"url": place}).to_string(),
        Form::ForPeople => place,
    })?;
    tokio::select! {
        served = server.into_future() => served.map_err(refused),
        stopped = tokio::signal::ctrl_c() => Ok(stopped?),
    }
}
