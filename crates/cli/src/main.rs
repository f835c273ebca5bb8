//! The command line of Windlass: sees and steers the runs of a database.

mod api;
mod bulk;
mod command;
mod demo;
mod doctor;
mod graph;
mod keys;
mod migrate;
mod paint;
mod queues;
mod remote;
mod runs;
mod schedules;
mod serve;
mod show;
mod sketch;
mod table;
mod top;
mod triggers;
mod trouble;
mod watch;

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use crate::{command::Cli, paint::Paint, trouble::Trouble, watch::Form};

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::typed();
    let form = cli.form();
    match cli.run(&mut Output::new()).await {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has seen enough: `windlass runs list | head`.
        Err(Trouble::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(trouble) => {
            match form {
                Form::Json => eprintln!("{}", trouble.to_json()),
                Form::ForPeople => eprintln!("windlass: {trouble}"),
            }
            ExitCode::from(trouble.code())
        }
    }
}

/// Where what is found goes.
struct Output {
    out: io::Stdout,
    paint: Paint,
}

impl Output {
    fn new() -> Self {
        let no_color = std::env::var_os("NO_COLOR");
        Self { out: io::stdout(), paint: Paint::chosen(io::stdout().is_terminal(), no_color.as_deref()) }
    }

    /// Writes a line, and has it seen at once.
    fn line(&mut self, text: &str) -> Result<(), Trouble> {
        writeln!(self.out, "{text}")?;
        Ok(self.out.flush()?)
    }
}
