//! Hearing of what others do.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Notify, broadcast};
use tokio_postgres::{AsyncMessage, Config, NoTls};
use windlass_store::Hint;

use crate::session::quoted;

/// How often others are told at most.
const PACE: Duration = Duration::from_millis(5);
/// How long to wait before the connection that listens is made again.
const PAUSE: Duration = Duration::from_secs(1);

/// The channel of a schema, and who speaks on it.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) config: Config,
    pub(crate) channel: Arc<str>,
    /// Tells this handle from every other.
    pub(crate) speaker: Arc<str>,
    pub(crate) place: Arc<str>,
    pub(crate) hints: broadcast::Sender<Hint>,
    /// Woken when others have to be told.
    pub(crate) stirred: Arc<Notify>,
}

impl Link {
    /// Listens and speaks until the store is gone. While there is no connection, everybody looks for themselves: each
    /// attempt is a hint.
    pub(crate) async fn run(self) {
        loop {
            match self.listen().await {
                Ok(()) => tracing::debug!(place = %self.place, "the connection that listens was closed"),
                Err(error) => {
                    let error = crate::error::describe(&error);
                    tracing::warn!(place = %self.place, error, "nobody listens for other processes; polling meanwhile");
                }
            }
            // Nobody may be listening.
            drop(self.hints.send(Hint::Changed));
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn listen(&self) -> Result<(), tokio_postgres::Error> {
        let (client, mut connection) = self.config.connect(NoTls).await?;
        let hear = async {
            loop {
                let message = std::future::poll_fn(|cx| connection.poll_message(cx)).await;
                match message {
                    Some(Ok(AsyncMessage::Notification(note))) => {
                        if note.payload() != &*self.speaker {
                            drop(self.hints.send(Hint::Changed));
                        }
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error),
                    None => return Ok(()),
                }
            }
        };
        let speak = async {
            client.batch_execute(&format!("LISTEN {}", quoted(&self.channel))).await?;
            // What was committed before anybody listened.
            drop(self.hints.send(Hint::Changed));
            let notify = client.prepare("SELECT pg_notify($1, $2)").await?;
            loop {
                self.stirred.notified().await;
                client.execute(&notify, &[&&*self.channel, &&*self.speaker]).await?;
                tokio::time::sleep(PACE).await;
            }
        };
        tokio::select! {
            heard = hear => heard,
            spoken = speak => spoken,
        }
    }
}
