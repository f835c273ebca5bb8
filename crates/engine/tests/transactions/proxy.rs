//! A way to the server on which the commit of a task's transaction can be lost.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Notify,
};

/// What happens to the next commit of a connection on which an entry was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server never gets it, and the connection is gone.
    Before,
    /// The server commits, and the connection is gone before it can say so.
    After,
    /// To the client the connection is gone at once; to the server only when it is told what becomes of the commit.
    Late,
    /// To both it is gone when it is told what becomes of the commit.
    Held,
}

#[derive(Default)]
struct Plan {
    next: Mutex<Option<Cut>>,
    /// Whether a commit that waits is delivered, and who waits for the word.
    deliver: Mutex<bool>,
    decided: Notify,
    /// Called when a commit waits.
    reached: Notify,
}

/// Forwards what is said, until the commit that is to be lost.
#[derive(Clone)]
pub struct Proxy {
    port: u16,
    plan: Arc<Plan>,
}

impl Proxy {
    pub async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, plan) = (listener.local_addr().unwrap().port(), Arc::new(Plan::default()));
        let proxy = Self { port, plan: Arc::clone(&plan) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                // Either side may hang up at any time.
                tokio::spawn(serve(client, server, Arc::clone(&plan)));
            }
        });
        proxy
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Loses the next commit of a task's transaction so.
    pub fn cut(&self, cut: Cut) {
        *self.plan.next.lock() = Some(cut);
    }

    /// Whether a commit was lost since it was asked for.
    pub fn has_cut(&self) -> bool {
        self.plan.next.lock().is_none()
    }

    /// Delivers the commit that waits.
    pub fn deliver(&self) {
        *self.plan.deliver.lock() = true;
        self.plan.decided.notify_one();
    }

    /// Loses the commit that waits.
    pub fn lose(&self) {
        *self.plan.deliver.lock() = false;
        self.plan.decided.notify_one();
    }

    /// Waits until a commit waits.
    pub async fn reached(&self) {
        self.plan.reached.notified().await;
    }
}

async fn serve(client: TcpStream, server: TcpStream, plan: Arc<Plan>) {
    let (from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    let back = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    // It ends with a commit that is lost, or when the client hangs up.
    forth(from_client, to_server, &plan, back.abort_handle()).await.ok();
    back.abort();
}

async fn forth(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    plan: &Plan,
    back: tokio::task::AbortHandle,
) -> std::io::Result<()> {
    let mut startup = vec![0; 4];
    client.read_exact(&mut startup).await?;
    let length = u32::from_be_bytes(startup[..4].try_into().expect("four bytes")) as usize;
    startup.resize(length, 0);
    client.read_exact(&mut startup[4..]).await?;
    server.write_all(&startup).await?;
    let mut is_tasks = false;
    loop {
        let mut bytes = vec![0; 5];
        client.read_exact(&mut bytes).await?;
        let length = u32::from_be_bytes(bytes[1..5].try_into().expect("four bytes")) as usize;
        bytes.resize(1 + length, 0);
        client.read_exact(&mut bytes[5..]).await?;
        is_tasks |= bytes[0] == b'P' && contains(&bytes, b".entry ");
        let is_commit = is_tasks && bytes[0] == b'Q' && &bytes[5..] == b"COMMIT\0";
        let cut = if is_commit { plan.next.lock().take() } else { None };
        match cut {
            None => server.write_all(&bytes).await?,
            Some(Cut::Before) => return Ok(()),
            Some(Cut::After) => {
                // Nothing that the server says from here on reaches the client.
                back.abort();
                server.write_all(&bytes).await?;
                return finish(server).await;
            }
            Some(cut) => {
                back.abort();
                let client = Some(client).filter(|_| cut == Cut::Held);
                plan.reached.notify_one();
                plan.decided.notified().await;
                drop(client);
                if !*plan.deliver.lock() {
                    return Ok(());
                }
                // The server may have ended the transaction meanwhile.
                server.write_all(&bytes).await?;
                return finish(server).await;
            }
        }
    }
}

/// Says good-bye, so that the server reads all that came before it.
async fn finish(mut server: OwnedWriteHalf) -> std::io::Result<()> {
    server.write_all(&[b'X', 0, 0, 0, 4]).await?;
    server.shutdown().await
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
