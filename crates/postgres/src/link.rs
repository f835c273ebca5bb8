//! Hearing of what others do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, broadcast},
    time::{sleep, timeout},
};
use tokio_postgres::{AsyncMessage, Client};
use windlass_store::Hint;

use crate::{
    connector::{Connected, Connector, Way},
    error::describe,
    session::quoted,
    unsaid::{self, Unsaid},
    wire::Wire,
};

/// How often others are told at most.
const PACE: Duration = Duration::from_millis(5);
/// How often it is checked that what is said is heard.
const PROBE: Duration = Duration::from_secs(5);
/// How long to look for oneself before the connection that listens is made again, and how often.
const DEAF: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(500);

/// The channel of a schema, and who speaks on it.
pub(crate) struct Link {
    pub(crate) connector: Arc<Connector>,
    pub(crate) channel: Arc<str>,
    /// Tells this handle from every other.
    pub(crate) speaker: Arc<str>,
    pub(crate) place: Arc<str>,
    pub(crate) hints: broadcast::Sender<Hint>,
    pub(crate) unsaid: Arc<Unsaid>,
}

/// Why nobody listens.
enum Deaf {
    /// The connection failed or was closed.
    Lost(String),
    /// What this handle says itself does not come back: something stands between, or the connection is dead.
    NoEcho,
}

/// What somebody was told, and need not be told again.
#[derive(Default)]
struct Told {
    deaf: bool,
    pooler: bool,
}

impl From<tokio_postgres::Error> for Deaf {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Lost(describe(&error))
    }
}

/// What this handle has heard of itself.
#[derive(Default)]
struct Echo {
    count: AtomicU64,
    came: Notify,
}

impl Link {
    /// Listens and speaks until the store is gone. While that does not work, everybody looks for themselves.
    pub(crate) async fn run(self) {
        let mut told = Told::default();
        loop {
            let deaf = self.listen(&mut told).await;
            // What was about to be said may have gone with the connection.
            self.unsaid.lose();
            if !std::mem::replace(&mut told.deaf, true) {
                let why = match deaf {
                    Deaf::Lost(why) => why,
                    Deaf::NoEcho => "notifications do not arrive".to_owned(),
                };
                tracing::warn!(place = %self.place, why, "nobody listens for other processes; polling meanwhile");
            }
            // It ends when it is time to try again.
            let _: Result<(), _> = timeout(DEAF, self.look()).await;
        }
    }

    /// Answers when it does not work any more.
    async fn listen(&self, told: &mut Told) -> Deaf {
        let Connected { client, wire, way } = match self.connector.connect().await {
            Ok(connected) => connected,
            Err(fault) => return Deaf::Lost(fault.tell(&self.place).to_string()),
        };
        let echo = Echo::default();
        match way {
            Way::Own => tokio::select! {
                deaf = self.hear(wire, &echo) => deaf,
                deaf = self.speak(&client, &echo, told) => deaf,
            },
            Way::Shared => tokio::select! {
                deaf = self.hear(wire, &echo) => deaf,
                deaf = self.speak_only(&client, told) => deaf,
                () = self.look() => unreachable!("it goes on for ever"),
            },
        }
    }

    /// Has everybody look for themselves.
    async fn look(&self) {
        loop {
            self.hint();
            sleep(LOOK).await;
        }
    }

    async fn hear(&self, mut wire: Wire, echo: &Echo) -> Deaf {
        loop {
            match wire.next().await {
                Some(Ok(AsyncMessage::Notification(note))) if note.payload().starts_with(&*self.speaker) => {
                    echo.count.fetch_add(1, Ordering::Relaxed);
                    echo.came.notify_one();
                }
                Some(Ok(AsyncMessage::Notification(note))) => {
                    if let Some(hint) = unsaid::heard(note.payload()) {
                        // Nobody may be listening.
                        drop(self.hints.send(hint));
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return error.into(),
                None => return Deaf::Lost("the connection was closed".into()),
            }
        }
    }

    /// Tells others through a pooler. It would not let through what they say.
    async fn speak_only(&self, client: &Client, told: &mut Told) -> Deaf {
        told.deaf = false;
        if !std::mem::replace(&mut told.pooler, true) {
            tracing::warn!(
                place = %self.place,
                "a pooler hands out connections for one transaction at a time, so nobody can listen for other \
                 processes: looking twice a second instead; give `listen_url` a way around it, or say \
                 `pooler=session` if it is in session mode"
            );
        }
        loop {
            self.unsaid.comes().await;
            match timeout(PROBE, self.say_all(client)).await {
                Ok(Ok(())) => sleep(PACE).await,
                Ok(Err(deaf)) => return deaf,
                Err(_) => {
                    self.unsaid.lose();
                    return Deaf::Lost("the server does not answer".into());
                }
            }
        }
    }

    async fn speak(&self, client: &Client, echo: &Echo, told: &mut Told) -> Deaf {
        let listen = format!("LISTEN {}", quoted(&self.channel));
        match timeout(PROBE, client.batch_execute(&listen)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error.into(),
            Err(_) => return Deaf::Lost("the server does not answer".into()),
        }
        let mut is_new = true;
        loop {
            if let Err(deaf) = self.probe(client, echo).await {
                return deaf;
            }
            if std::mem::take(&mut told.deaf) {
                tracing::info!(place = %self.place, "other processes are heard again");
            }
            if std::mem::take(&mut is_new) {
                // What was committed before this handle listened.
                self.hint();
            }
            let spoken = timeout(PROBE, async {
                loop {
                    self.unsaid.comes().await;
                    self.say_all(client).await?;
                    sleep(PACE).await;
                }
            });
            if let Ok(Err::<(), _>(error)) = spoken.await {
                return error;
            }
        }
    }

    /// Says something, and waits to hear it.
    async fn probe(&self, client: &Client, echo: &Echo) -> Result<(), Deaf> {
        let before = echo.count.load(Ordering::Relaxed);
        let heard = async {
            self.say(client, &[unsaid::probe(&self.speaker)]).await?;
            while echo.count.load(Ordering::Relaxed) == before {
                echo.came.notified().await;
            }
            Ok(())
        };
        timeout(PROBE, heard).await.unwrap_or(Err(Deaf::NoEcho))
    }

    /// Says what was not said yet.
    async fn say_all(&self, client: &Client) -> Result<(), Deaf> {
        let notes = self.unsaid.take(&self.speaker);
        if notes.is_empty() {
            return Ok(());
        }
        self.say(client, &notes).await.inspect_err(|_| self.unsaid.lose())
    }

    async fn say(&self, client: &Client, notes: &[String]) -> Result<(), Deaf> {
        // All of it is ours: a name that was quoted, and words and ids. What was said is in nobody's way: it waits for no disk, because
        // a server that has forgotten it has also forgotten who listened. It is one statement, which a process without
        // anything to do makes with every heartbeat.
        let channel = self.channel.replace('\'', "''");
        let mut words = "SELECT pg_catalog.set_config('synchronous_commit', 'off', true)".to_owned();
        words.extend(notes.iter().map(|note| format!(", pg_catalog.pg_notify('{channel}', '{note}')")));
        Ok(client.batch_execute(&words).await?)
    }

    fn hint(&self) {
        // Nobody may be listening.
        drop(self.hints.send(Hint::Changed));
    }
}
