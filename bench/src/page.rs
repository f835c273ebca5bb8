//! Somebody who has the page open.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};
use windlass::{Engine, RunId};

use crate::Result;

/// What the overview asks for, each time that it hears of a change.
const OVERVIEW: [&str; 6] = [
    "/overview",
    "/runs?state=running&limit=8",
    "/runs?state=failed&state=abandoned&limit=8",
    "/runs?state=paused&state=blocked&limit=8",
    "/queues",
    "/nodes",
];

/// A server in this process, and what the overview and the page of a run ask of it for as long as this is there.
pub(crate) struct Page {
    looks: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Page {
    pub(crate) async fn open(engine: &Engine, run: RunId) -> Result<Self> {
        let server = windlass_server::serve(engine.client(), ([127, 0, 0, 1], 0).into()).await?;
        let address = server.address().to_string();
        let (looks, mut tasks) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
        tasks.spawn(async move { drop(server.await) });
        let of_run = ["", "/events", "/logs"].map(|part| format!("/runs/{run}{part}"));
        for paths in [OVERVIEW.map(str::to_owned).to_vec(), of_run.to_vec()] {
            let (address, looks) = (address.clone(), Arc::clone(&looks));
            tasks.spawn(async move {
                // Whoever measures sees that nobody has looked.
                if let Err(why) = look_on(&address, &paths, &looks).await {
                    eprintln!("the page was shut: {why}");
                }
            });
        }
        Ok(Self { looks, _tasks: tasks })
    }

    /// How often everything that is shown was asked for.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }
}

/// Hears of changes, and asks for everything again each time.
async fn look_on(address: &str, paths: &[String], looks: &AtomicU64) -> Result<()> {
    let mut live = ask(address, "/live").await?;
    let mut said = [0; 1_024];
    loop {
        let length = live.read(&mut said).await?;
        if length == 0 {
            return Err("the server says no more".into());
        }
        if !String::from_utf8_lossy(&said[..length]).contains("event: changed") {
            continue;
        }
        for path in paths {
            let mut answer = Vec::new();
            ask(address, path).await?.read_to_end(&mut answer).await?;
            if !answer.starts_with(b"HTTP/1.1 200") {
                return Err(format!("{path}: {}", String::from_utf8_lossy(&answer)).into());
            }
        }
        looks.fetch_add(1, Ordering::Relaxed);
    }
}

async fn ask(address: &str, path: &str) -> Result<TcpStream> {
    let mut wire = TcpStream::connect(address).await?;
    let request = format!(
        "GET /api/v1{path} HTTP/1.1\r\nhost: {address}\r\ncache-control: max-age=1\r\nconnection: close\r\n\r\n"
    );
    wire.write_all(request.as_bytes()).await?;
    Ok(wire)
}
