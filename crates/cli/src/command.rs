//! What can be said on the command line.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind, parser::ValueSource};
use clap_complete::Shell;
use serde_json::{Value, json};

use crate::{
    Output,
    api::{Api, is_server},
    demo::Demo,
    doctor::examine,
    graph::Graph,
    keys::Keys,
    migrate::Migrate,
    paint::Paint,
    queues::Queues,
    runs::Runs,
    schedules::Schedules,
    serve::Serve,
    show,
    top::top,
    triggers::Triggers,
    trouble::Trouble,
    watch::Form,
};

/// Sees and steers the runs of a Windlass database.
///
/// Exit codes: 0 done; 1 refused; 2 not understood; 3 not there; 4 the database or the server cannot be used; 5 a watched run
/// ended without completing; 6 `doctor` or `runs check` found something wrong.
#[derive(Parser)]
#[command(name = "windlass", version)]
pub(crate) struct Cli {
    /// The database, sqlite://app.db or postgres://…; or a server, http://host:7070 or https://…
    #[arg(long, env = "WINDLASS_URL", global = true, hide_env_values = true)]
    url: Option<String>,
    /// The key that a server knows you by
    #[arg(long, env = "WINDLASS_KEY", global = true, hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,
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
    /// Look at and steer triggers
    #[command(subcommand)]
    Triggers(Triggers),
    /// List the processes that run an engine
    Nodes,
    /// Draw a workflow
    Graph(Graph),
    /// Serve the HTTP API: to this machine, or, with keys, to others
    Serve(Serve),
    /// Make the database, or bring it to the version that this program knows
    Migrate(Migrate),
    /// Say what is wrong with the database and the processes that work on it, and what to do
    Doctor,
    /// See what happens, on the whole screen; `?` shows the keys
    Top,
    /// Print what a shell needs to complete commands
    Completions {
        /// The shell
        shell: Shell,
    },
}

impl Cli {
    /// What was typed; or the end of the program, which says what was not understood.
    pub(crate) fn typed() -> Self {
        let matches = Self::command().try_get_matches().unwrap_or_else(|error| exit(&error));
        let named = ["url", "api_key"]
            .into_iter()
            .any(|name| matches.value_source(name) == Some(ValueSource::CommandLine));
        if matches.subcommand_name() == Some("demo") && named {
            let words = "`demo` is an engine with a database of its own: --database names another";
            exit(&Self::command().error(ErrorKind::ArgumentConflict, words));
        }
        Self::from_arg_matches(&matches).unwrap_or_else(|error| exit(&error))
    }

    /// How what is found is printed, and why nothing is.
    pub(crate) const fn form(&self) -> Form {
        if self.json { Form::Json } else { Form::ForPeople }
    }

    pub(crate) async fn run(self, output: &mut Output) -> Result<(), Trouble> {
        let form = self.form();
        let url = || self.url.as_deref().ok_or(Trouble::NoUrl);
        let api = async || Api::open(url()?, self.api_key.as_deref()).await;
        // What no server does for others.
        let database = || match url()? {
            url if is_server(url) => Err(Trouble::Url(format!(
                "this needs the database itself, and {url} is a server: name the database with --url"
            ))),
            url => Ok(url),
        };
        let said = match self.command {
            Command::Completions { shell } => {
                clap_complete::generate(shell, &mut Self::command(), "windlass", &mut output.out);
                return Ok(());
            }
            Command::Demo(demo) => return demo.show(form, output).await,
            Command::Serve(serve) => return serve.listen(database()?, form, output).await,
            Command::Migrate(migrate) => match migrate.sql() {
                Some(sql) => sql,
                None => migrate.act(database()?).await?,
            },
            Command::Doctor => return examine(url()?, self.api_key.as_deref(), form, output).await,
            Command::Top => return top(&api().await?).await,
            Command::Runs(runs) => return runs.ask(&api().await?, form, output).await,
            Command::Schedules(schedules) => schedules.ask(&api().await?).await?,
            Command::Queues(queues) => queues.ask(&api().await?).await?,
            Command::Keys(keys) => keys.ask(&api().await?).await?,
            Command::Triggers(triggers) => triggers.ask(&api().await?).await?,
            Command::Nodes => Said::new(api().await?.get("/nodes").await?, show::nodes),
            Command::Graph(graph) => graph.ask(&api().await?).await?,
        };
        said.print(form, output)
    }
}

/// Says what was not understood, or the help that was asked for, and ends the program.
fn exit(error: &clap::Error) -> ! {
    if error.use_stderr() && std::env::args().any(|typed| typed == "--json") {
        let words = error.render().to_string();
        let detail = words.trim().trim_start_matches("error: ");
        eprintln!(
            "{}",
            json!({"code": "usage", "detail": detail, "hint": "`windlass help` lists what there is"})
        );
        std::process::exit(error.exit_code());
    }
    error.exit()
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

    pub(crate) fn print(&self, form: Form, output: &mut Output) -> Result<(), Trouble> {
        match form {
            Form::Json => output.line(&self.answer.to_string()),
            Form::ForPeople => {
                (self.show)(&self.answer, output.paint).iter().try_for_each(|line| output.line(line))
            }
        }
    }
}
