//! A connection as the network has it.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, NoTls, Socket, tls::NoTlsStream};

use crate::tls::Tls;

#[cfg(feature = "tls")]
type TlsStream =
    <tokio_postgres_rustls::MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream;

/// What carries the words of a [`Client`], and hears what the server says unasked. It must be polled.
pub(crate) enum Wire {
    Plain(Box<Connection<Socket, NoTlsStream>>),
    #[cfg(feature = "tls")]
    Encrypted(Box<Connection<Socket, TlsStream>>),
}

impl Wire {
    pub(crate) async fn connect(config: &Config, tls: &Tls) -> Result<(Client, Self), Error> {
        match tls {
            Tls::Plain => {
                let (client, connection) = config.connect(NoTls).await?;
                Ok((client, Self::Plain(Box::new(connection))))
            }
            #[cfg(feature = "tls")]
            Tls::Encrypted(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                Ok((client, Self::Encrypted(Box::new(connection))))
            }
        }
    }

    /// What the server says next; `None` when the connection was closed.
    pub(crate) async fn next(&mut self) -> Option<Result<AsyncMessage, Error>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Carries words until the connection is closed.
    pub(crate) async fn carry(&mut self) -> Result<(), Error> {
        while let Some(message) = self.next().await {
            message?;
        }
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> {
        match self {
            Self::Plain(connection) => connection.poll_message(cx),
            #[cfg(feature = "tls")]
            Self::Encrypted(connection) => connection.poll_message(cx),
        }
    }
}
