//! Making connections, and finding out whose they are.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::time::timeout;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};
use uuid::Uuid;

use crate::{error::Fault, tls::Tls, wire::Wire};

/// What stands between this program and the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooler {
    /// Found out with every connection, without asking more than is asked anyway. Where it cannot be told, as with a
    /// pooler in session mode, it is taken for one in transaction mode.
    #[default]
    Detect,
    /// A pooler that hands out a connection for one transaction at a time. Nothing is left on a connection that the
    /// next transaction could need, and other processes are not heard: they are looked for twice a second.
    Transaction,
    /// A pooler in session mode, or none: a connection is ours for as long as it lasts.
    Session,
}

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Ours for as long as it lasts: what is prepared or set on it stays.
    Own,
    /// Ours for one transaction at a time, and then somebody else's, who must find nothing of ours.
    Shared,
}

/// Makes connections to one place.
pub(crate) struct Connector {
    config: Config,
    /// The same with a mark. The server sets it on a connection that begins with it. A pooler that shares connections
    /// cannot let it through, for the next to use the connection would have it too.
    marked: Config,
    mark: String,
    tls: Tls,
    pooler: Pooler,
    /// Whether a pooler was found. It may turn up later, but never goes away.
    is_shared: AtomicBool,
    /// How long making one may take.
    patience: Duration,
}

/// A new connection.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) wire: Wire,
    pub(crate) way: Way,
}

impl Connector {
    pub(crate) fn new(config: Config, tls: Tls, pooler: Pooler, patience: Duration) -> Self {
        let mark = Uuid::now_v7().simple().to_string();
        let mut marked = config.clone();
        let options = config.get_options().map(|options| format!("{options} ")).unwrap_or_default();
        marked.options(format!("{options}-c windlass.mark={mark}"));
        Self { config, marked, mark, tls, pooler, is_shared: AtomicBool::new(false), patience }
    }

    pub(crate) async fn connect(&self) -> Result<Connected, Fault> {
        timeout(self.patience, self.reach()).await.unwrap_or(Err(Fault::Silent(self.patience)))
    }

    /// Asks the server to give up what it does for a connection.
    pub(crate) async fn cancel(&self, client: &Client) -> Result<(), tokio_postgres::Error> {
        match &self.tls {
            Tls::Plain => client.cancel_token().cancel_query(NoTls).await,
            #[cfg(feature = "tls")]
            Tls::Encrypted(tls) => client.cancel_token().cancel_query(tls.clone()).await,
        }
    }

    async fn reach(&self) -> Result<Connected, Fault> {
        let way = match self.pooler {
            Pooler::Detect if self.is_shared.load(Ordering::Relaxed) => Way::Shared,
            Pooler::Detect => return self.detect().await,
            Pooler::Transaction => Way::Shared,
            Pooler::Session => Way::Own,
        };
        let (client, wire) = self.reach_by(&self.config).await?;
        Ok(Connected { client, wire, way })
    }

    async fn detect(&self) -> Result<Connected, Fault> {
        let marked = match self.reach_by(&self.marked).await {
            Err(Fault::Unreached(error)) if refuses_options(&error) => None,
            reached => Some(reached?),
        };
        if let Some((client, mut wire)) = marked {
            let asked = tokio::select! {
                asked = self.has_mark(&client) => asked,
                closed = wire.carry() => Err(closed.err().map_or_else(Fault::closed, Fault::Unreached)),
            };
            if asked? {
                return Ok(Connected { client, wire, way: Way::Own });
            }
            self.is_shared.store(true, Ordering::Relaxed);
            return Ok(Connected { client, wire, way: Way::Shared });
        }
        let (client, wire) = self.reach_by(&self.config).await?;
        self.is_shared.store(true, Ordering::Relaxed);
        Ok(Connected { client, wire, way: Way::Shared })
    }

    async fn reach_by(&self, config: &Config) -> Result<(Client, Wire), Fault> {
        Wire::connect(config, &self.tls).await.map_err(Fault::Unreached)
    }

    async fn has_mark(&self, client: &Client) -> Result<bool, Fault> {
        let said = client.simple_query("SELECT current_setting('windlass.mark', true)").await;
        Ok(said.map_err(Fault::Unreached)?.iter().any(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0) == Some(&self.mark),
            _ => false,
        }))
    }
}

/// Whether a pooler does not want to hear of options. A server says nothing of the kind.
fn refuses_options(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|state| matches!(state.code(), "08P01" | "0A000"))
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("hosts", &self.config.get_hosts()).finish_non_exhaustive()
    }
}
