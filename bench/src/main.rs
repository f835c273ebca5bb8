//! Windlass beside the raw limit of its store.
//!
//! Absolute figures do not travel between machines. So every figure here is a ratio taken in one run on one
//! machine, and every measurement ends on a count that was read back from the database.

mod clock;
mod commits;
mod counter;
mod database;
mod ground;
mod latencies;
mod limit;
mod multiply;
mod options;
mod other;
mod page;
mod peers;
mod process;
mod report;
mod server;
mod slices;
mod workload;

use std::{env, process::ExitCode};

use ground::Ground;
use options::{HELP, Options, Store};
use peers::Peers;
use report::Line;
use server::Server;
use workload::{Bench, Workload};

/// What can go wrong here is told to a person, who reads it and looks.
type Error = Box<dyn std::error::Error + Send + Sync>;

type Result<T, E = Error> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let done = match env::var(other::PART) {
        Ok(part) => block_on(workload::play(&part)),
        Err(_) => Options::parse(env::args().skip(1)).and_then(|options| measure(&options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<()> {
    if options.help {
        print!("{HELP}");
        for workload in Workload::ALL {
            println!("  {:<18}{}", workload.name(), workload.about());
        }
        return Ok(());
    }
    let ground = Ground::find(options.directory.as_deref())?;
    let server = if options.stores.contains(&Store::Postgres) {
        Some(Server::find(options.url.as_deref(), &ground)?)
    } else {
        None
    };
    let peers = if options.peers { Some(Peers::find()?) } else { None };
    let mut lines = Vec::new();
    let mut workloads = options.workloads.clone();
    // What a workload gave back may still be the process's, so this one comes first.
    workloads.sort_by_key(|workload| *workload != Workload::Memory);
    for workload in workloads {
        // What has nothing to do with a store is measured once.
        let stores = if workload == Workload::Compile { &options.stores[..1] } else { &options.stores[..] };
        for &store in stores.iter().filter(|store| workload.knows(**store)) {
            if !options.json {
                eprintln!("{} on {} …", workload.name(), store.name());
            }
            let bench = Bench { workload, store, ground: &ground, server: server.as_ref(), options };
            // A runtime for each, so that none begins with what another left behind.
            let measured = block_on(async {
                let line = bench.measure().await?;
                let beside = match &peers {
                    Some(peers) => peers.measure(&bench).await?,
                    None => Vec::new(),
                };
                Ok([vec![beside.iter().fold(line, Line::beside)], beside].concat())
            });
            let measured = measured.map_err(|error| {
                format!("{} on {}: {}", workload.name(), store.name(), server::told(&*error))
            })?;
            for line in measured {
                if options.json {
                    println!("{}", line.json()?);
                }
                lines.push(line);
            }
        }
    }
    if !options.json {
        print!("{}", report::table(&lines));
    }
    Ok(())
}

fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
