//! A way to a server on which every statement can be stopped.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// Nothing that was asked is on its way for longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Just before the server gets this statement, counted from 1.
    Before(usize),
    /// Just before the server gets the next commit.
    BeforeCommit,
    /// Just before the client hears that a transaction was committed.
    Committed,
}

/// Forwards what a store says to the server one statement at a time, and stops where it is told to.
#[derive(Clone)]
pub struct Proxy {
    port: u16,
    gate: Arc<Gate>,
}

struct Gate {
    plan: Mutex<Plan>,
    /// Whether somebody stands at the gate, and whether it is open.
    state: watch::Sender<State>,
}

#[derive(Default)]
struct Plan {
    stop: Option<Stop>,
    seen: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Stopped,
}

impl Proxy {
    /// A proxy before the server at `host:port`.
    pub async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let gate = Arc::new(Gate { plan: Mutex::default(), state: watch::Sender::new(State::Open) });
        let proxy = Self { port, gate: Arc::clone(&gate) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                server.set_nodelay(true).unwrap();
                client.set_nodelay(true).unwrap();
                tokio::spawn(Arc::clone(&gate).serve(client, server));
            }
        });
        proxy
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Counts from now on, and stops once where it is said.
    pub fn stop_at(&self, stop: Stop) {
        *self.gate.plan.lock() = Plan { stop: Some(stop), seen: 0 };
    }

    /// Counts from now on, and stops nobody.
    pub fn count(&self) {
        *self.gate.plan.lock() = Plan::default();
    }

    /// How many statements there were.
    pub fn counted(&self) -> usize {
        self.gate.plan.lock().seen
    }

    /// Waits until somebody was stopped.
    pub async fn stopped(&self) {
        let mut state = self.gate.state.subscribe();
        let stopped = state.wait_for(|state| *state == State::Stopped);
        tokio::time::timeout(PATIENCE, stopped).await.expect("somebody comes here").unwrap();
    }

    /// Lets everybody through.
    pub fn go_on(&self) {
        *self.gate.plan.lock() = Plan::default();
        self.gate.state.send_replace(State::Open);
    }
}

impl Gate {
    async fn serve(self: Arc<Self>, client: TcpStream, server: TcpStream) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let answered = watch::Sender::new(0_usize);
        let mut answers = answered.subscribe();
        let forth = self.forth(&mut from_client, &mut to_server, &mut answers);
        let back = self.back(&mut from_server, &mut to_client, &answered);
        // Whichever side hangs up, the other one hears of it.
        tokio::select! {
            _ = forth => {}
            _ = back => {}
        }
    }

    /// What the client says. A statement follows only when the one before it is answered.
    async fn forth(
        &self,
        client: &mut OwnedReadHalf,
        server: &mut OwnedWriteHalf,
        answers: &mut watch::Receiver<usize>,
    ) -> std::io::Result<()> {
        let mut startup = vec![0; 4];
        client.read_exact(&mut startup).await?;
        let length = u32::from_be_bytes(startup[..4].try_into().expect("four bytes")) as usize;
        startup.resize(length, 0);
        client.read_exact(&mut startup[4..]).await?;
        server.write_all(&startup).await?;
        // The server says that it is ready once before it is asked anything.
        let mut asked = 1;
        let mut listens = false;
        while let Ok(statement) = Statement::read(client).await {
            listens |= statement.listens;
            if !listens {
                answers.wait_for(|answered| *answered >= asked).await.map_err(std::io::Error::other)?;
                if !statement.only_prepares {
                    self.pass(statement.commits).await;
                }
            }
            server.write_all(&statement.bytes).await?;
            asked += 1;
        }
        Ok(())
    }

    /// What the server says.
    async fn back(
        &self,
        server: &mut OwnedReadHalf,
        client: &mut OwnedWriteHalf,
        answered: &watch::Sender<usize>,
    ) -> std::io::Result<()> {
        loop {
            let (kind, bytes) = message(server).await?;
            if kind == b'C' && &bytes[5..] == b"COMMIT\0" {
                let stops = self.plan.lock().stop.take_if(|stop| *stop == Stop::Committed).is_some();
                if stops {
                    self.hold().await;
                }
            }
            client.write_all(&bytes).await?;
            if kind == b'Z' {
                answered.send_modify(|answered| *answered += 1);
            }
        }
    }

    async fn pass(&self, commits: bool) {
        let stops = {
            let mut plan = self.plan.lock();
            plan.seen += 1;
            let seen = plan.seen;
            let is_here =
                |stop: &mut Stop| *stop == Stop::Before(seen) || (commits && *stop == Stop::BeforeCommit);
            plan.stop.take_if(is_here).is_some()
        };
        if stops {
            self.hold().await;
        }
    }

    async fn hold(&self) {
        self.state.send_replace(State::Stopped);
        let mut state = self.state.subscribe();
        state.wait_for(|state| *state == State::Open).await.expect("the gate is there");
    }
}

/// All that belongs to one statement: a simple query, or everything up to a `Sync`.
struct Statement {
    bytes: Vec<u8>,
    only_prepares: bool,
    listens: bool,
    commits: bool,
}

impl Statement {
    async fn read(client: &mut OwnedReadHalf) -> std::io::Result<Self> {
        let mut statement = Self { bytes: Vec::new(), only_prepares: true, listens: false, commits: false };
        loop {
            let (kind, bytes) = message(client).await?;
            statement.only_prepares &= !matches!(kind, b'Q' | b'E');
            statement.listens |= kind == b'Q' && bytes[5..].starts_with(b"LISTEN");
            statement.commits |= kind == b'Q' && &bytes[5..] == b"COMMIT\0";
            statement.bytes.extend(bytes);
            if matches!(kind, b'Q' | b'S') {
                return Ok(statement);
            }
        }
    }
}

/// One message: its kind, and all of it.
async fn message(from: &mut OwnedReadHalf) -> std::io::Result<(u8, Vec<u8>)> {
    let mut bytes = vec![0; 5];
    from.read_exact(&mut bytes).await?;
    let length = u32::from_be_bytes(bytes[1..5].try_into().expect("four bytes")) as usize;
    bytes.resize(1 + length, 0);
    from.read_exact(&mut bytes[5..]).await?;
    Ok((bytes[0], bytes))
}
