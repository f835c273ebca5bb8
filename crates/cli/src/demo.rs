//! A shop to look at: an engine with sample workflows, and the page that shows them.

mod checkout;
mod delivery;
mod letters;
mod past;
mod prices;
mod progress;
mod report;
mod shop;
mod suppliers;
mod trickle;

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use serde_json::json;
use tracing_subscriber::{prelude::*, util::SubscriberInitExt};
use windlass::{Engine, EngineBuilder, Error};
use windlass_server::{ServeError, Served};

use crate::{
    Output,
    api::Api,
    serve::{measure, refused},
    trouble::Trouble,
    watch::Form,
};
use shop::Shop;

/// Where the page is, unless something else is there.
const PORT: u16 = 7070;

/// How much faster a fast demo is.
const FASTER: u32 = 5;

/// How the demo is given.
#[derive(Args)]
pub(crate) struct Demo {
    /// Where to listen on this machine; by default 7070, or another port if something else is there
    #[arg(long)]
    port: Option<u16>,
    /// Everything goes five times as fast
    #[arg(long)]
    fast: bool,
    /// Keep the runs in this database, in place of a file that is removed in the end
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Show the page in a browser
    #[arg(long)]
    open: bool,
}

impl Demo {
    /// Shows the demo until somebody interrupts it.
    pub(crate) async fn show(self, form: Form, output: &mut Output) -> Result<(), Trouble> {
        // What the samples log is kept with their runs, and is not for the terminal.
        tracing_subscriber::registry().with(windlass::log_layer()).try_init().ok();
        measure()?;
        let folder = tempfile::Builder::new().prefix("windlass-demo-").tempdir()?;
        let file = || format!("sqlite://{}", folder.path().join("shop.db").display());
        let url = self.database.clone().unwrap_or_else(file);
        let speed = if self.fast { FASTER } else { 1 };
        if self.database.is_none() {
            past::make(&url).await?;
        }
        let shop = Arc::new(Shop::new(1.0 / f64::from(speed)));
        let engine = engine(Engine::open(url), &shop).name("demo").launch().await?;
        let shown = self.run(&engine, &shop, speed, form, output).await;
        let stopped = stop(&engine).await;
        drop(engine);
        // A failure to tidy up is said, unless something worse is.
        shown.and(stopped).and(Ok(folder.close()?))
    }

    async fn run(
        &self,
        engine: &Engine,
        shop: &Arc<Shop>,
        speed: u32,
        form: Form,
        output: &mut Output,
    ) -> Result<(), Trouble> {
        declare(engine, speed).await?;
        let server = self.listen(engine).await?;
        let page = format!("http://{}/", server.address());
        match form {
            Form::Json => output.line(&json!({"url": page}).to_string())?,
            Form::ForPeople => welcome(&page).iter().try_for_each(|line| output.line(line))?,
        }
        if self.open {
            browse(&page);
        }
        let api = Api::over(engine.client());
        tokio::select! {
            served = server.into_future() => served.map_err(refused),
            failed = trickle::serve_customers(engine, shop, speed) => failed,
            failed = progress::tell(&api, form, output) => failed,
            stopped = tokio::signal::ctrl_c() => Ok(stopped?),
        }
    }

    async fn listen(&self, engine: &Engine) -> Result<Served, Trouble> {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let first = windlass_server::serve(engine.client(), at(self.port.unwrap_or(PORT))).await;
        let served = match first {
            Err(ServeError::Listen { .. }) if self.port.is_none() => {
                windlass_server::serve(engine.client(), at(0)).await
            }
            first => first,
        };
        served.map_err(refused)
    }
}

/// An engine that has all sample workflows.
fn engine(builder: EngineBuilder, shop: &Arc<Shop>) -> EngineBuilder {
    builder
        .shared(Arc::clone(shop))
        .resource(delivery::Courier)
        .workflow(checkout::checkout::workflow().input_schema(checkout::order_schema()))
        .workflow(delivery::Courier::workflow())
        .workflow(report::sales_report::workflow())
        .workflow(suppliers::payout::workflow().input_schema(suppliers::bill_schema()))
        .workflow(suppliers::bank_account::workflow().input_schema(suppliers::supplier_schema()))
        .workflow(letters::email::workflow())
        .workflow(letters::newsletter::workflow())
        .workflow(prices::price_list::workflow())
        .trigger(prices::inbox::trigger())
        .queue(letters::LETTERS, 8)
}

/// Says which schedules and limits there are.
async fn declare(engine: &Engine, speed: u32) -> Result<(), Error> {
    let letters = engine.queue(letters::LETTERS).concurrency(3).per_key(2);
    letters.rate(3 * speed, Duration::from_secs(1)).await?;
    let sales = engine.schedule("sales").every(Duration::from_secs(20) / speed);
    sales.workflow(report::sales_report::workflow(), ()).await?;
    let news = engine.schedule("newsletter").every(Duration::from_secs(60) / speed);
    news.workflow(letters::newsletter::workflow(), "The new harvest is here".to_owned()).await?;
    let year = engine.schedule("closing").cron("0 3 1 1 *").timezone("Europe/Lisbon");
    year.workflow(report::sales_report::workflow(), ()).await?;
    Ok(())
}

fn welcome(page: &str) -> Vec<String> {
    let stranger = suppliers::STRANGER;
    let lines = [
        "A shop for coffee has opened. See it at work:".to_owned(),
        String::new(),
        format!("    {page}"),
        String::new(),
        "What to try there:".to_owned(),
        "  - a `checkout` that waits for approval: send it the event `approved` with `true`, and it goes on;"
            .to_owned(),
        "    with `false`, or after ten minutes, its money and its goods go back".to_owned(),
        format!(
            "  - a `payout` that failed because of {stranger}: start the workflow `bank_account` with the input"
        ),
        format!("    \"{stranger}\", then retry the run"),
        "  - an `email` that failed because a mailbox is full: retry it".to_owned(),
        "  - the queue `letters`: pause it, and see a newsletter wait; other limits hold at once".to_owned(),
        "  - the schedule `sales`: pause it, or have it start a report now".to_owned(),
        String::new(),
        "Ctrl-C ends it, and leaves nothing behind.".to_owned(),
        String::new(),
    ];
    lines.into()
}

/// Stops gracefully, and at once when somebody interrupts that too.
async fn stop(engine: &Engine) -> Result<(), Trouble> {
    tokio::select! {
        stopped = engine.stop() => Ok(stopped?),
        again = tokio::signal::ctrl_c() => {
            again?;
            Ok(engine.stop_now().await?)
        }
    }
}

/// Tries to show a page in a browser. The address is printed in any case.
fn browse(page: &str) {
    let (program, arguments): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("cmd", &["/c", "start", ""]),
        _ => ("xdg-open", &[]),
    };
    let quiet =
        Command::new(program).args(arguments).arg(page).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(why) = quiet {
        eprintln!("windlass: no browser could be started ({program}: {why}): open the address above");
    }
}
