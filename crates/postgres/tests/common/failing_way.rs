//! A way to the server on which commits fail.

use std::{io, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use windlass_store::{
    Store,
    conformance::{Failing, Fixture},
};

use super::{cluster, own_schema::OwnSchema};

/// A schema of its own that is reached on such a way.
pub struct Failable {
    schema: OwnSchema,
    next: Arc<Mutex<Option<Failing>>>,
}

impl Failable {
    pub async fn new() -> Self {
        let (front, place) = cluster().url().split_once('@').unwrap();
        let (server, database) = place.split_once('/').unwrap();
        let (listener, server) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), server.to_owned());
        let port = listener.local_addr().unwrap().port();
        let next = Arc::<Mutex<Option<Failing>>>::default();
        let plan = Arc::clone(&next);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                tokio::spawn(serve(client, server, Arc::clone(&plan)));
            }
        });
        // It has to be read, and every batch to have a commit of its own.
        let url = format!("{front}@127.0.0.1:{port}/{database}?sslmode=disable");
        let options = windlass_postgres::PostgresOptions::new().connections(2).in_parts();
        Self { schema: OwnSchema::of(options, &url).await, next }
    }
}

impl Fixture for Failable {
    fn store(&self) -> Arc<dyn Store> {
        self.schema.store()
    }

    fn advance(&self, span: Duration) {
        self.schema.advance(span);
    }

    fn fail_commit(&self, how: Option<Failing>) -> bool {
        *self.next.lock() = how;
        true
    }
}

/// Forwards what is said, until a commit fails. The client hears of that when all is over for the server: whoever asks
/// again meets nothing that is still under way.
async fn serve(client: TcpStream, server: TcpStream, next: Arc<Mutex<Option<Failing>>>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let failed = tokio::select! {
        failed = forth(&mut from_client, &mut to_server, &next) => failed,
        _ = tokio::io::copy(&mut from_server, &mut to_client) => return,
    };
    // Either side may hang up at any time.
    if failed.is_ok() && to_server.write_all(&GOOD_BYE).await.is_ok() {
        tokio::io::copy(&mut from_server, &mut tokio::io::sink()).await.ok();
    }
}

const GOOD_BYE: [u8; 5] = [b'X', 0, 0, 0, 4];

/// Returns when a commit fails: what the server said until then was forwarded, as it was waited for.
async fn forth(
    client: &mut OwnedReadHalf,
    server: &mut OwnedWriteHalf,
    next: &Mutex<Option<Failing>>,
) -> io::Result<()> {
    let mut startup = vec![0; 4];
    client.read_exact(&mut startup).await?;
    let length = u32::from_be_bytes(startup[..4].try_into().expect("four bytes")) as usize;
    startup.resize(length, 0);
    client.read_exact(&mut startup[4..]).await?;
    server.write_all(&startup).await?;
    let mut writes = false;
    loop {
        let mut bytes = vec![0; 5];
        client.read_exact(&mut bytes).await?;
        let length = u32::from_be_bytes(bytes[1..5].try_into().expect("four bytes")) as usize;
        bytes.resize(1 + length, 0);
        client.read_exact(&mut bytes[5..]).await?;
        let said = if bytes[0] == b'Q' { &bytes[5..] } else { &[] };
        if said.starts_with(b"BEGIN") {
            writes = !said.windows(9).any(|part| part == b"READ ONLY");
        }
        let fails = if writes && said == b"COMMIT\0" { next.lock().take() } else { None };
        if fails != Some(Failing::Lost) {
            server.write_all(&bytes).await?;
        }
        if fails.is_some() {
            return Ok(());
        }
    }
}
