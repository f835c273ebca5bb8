//! Connections that go dead without a word.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// A way to the server. What is on it when it is cut gets no answer, and no word of it either.
pub struct Way {
    port: u16,
    cuts: Arc<watch::Sender<u32>>,
}

impl Way {
    pub async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (cuts, server) = (Arc::new(watch::Sender::new(0)), server.to_owned());
        let heard = Arc::clone(&cuts);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let (mut forth, mut back) = (heard.subscribe(), heard.subscribe());
                tokio::spawn(async move { pass(&mut from_client, &mut to_server, &mut forth).await });
                tokio::spawn(async move { pass(&mut from_server, &mut to_client, &mut back).await });
            }
        });
        Self { port, cuts }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Swallows all that comes on the connections there are.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn pass(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    cuts: &mut watch::Receiver<u32>,
) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if !cuts.has_changed().unwrap_or(true) && to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
