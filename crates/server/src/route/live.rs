//! Word that something has changed.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::State,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures_core::Stream;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::sleep,
};
use windlass::{Client, Listener};

/// How often listeners hear of changes, at most.
const OFTEN: Duration = Duration::from_secs(1);
/// How often it is seen whether anybody still listens.
const LOOK: Duration = Duration::from_secs(15);

/// Tells everybody who listens that something has changed, whatever they are shown.
///
/// One task hears of changes for all of them, and only while there are any. It asks the database nothing.
pub(crate) struct Live {
    client: Client,
    listeners: Mutex<Vec<Sender<()>>>,
    /// How many words were sent.
    words: AtomicU64,
}

impl Live {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, listeners: Mutex::default(), words: AtomicU64::new(0) }
    }

    /// Another one with each word that is sent: what was looked at under the last one may have changed.
    pub(crate) fn word(&self) -> u64 {
        self.words.load(Ordering::Acquire)
    }

    /// Listens from now on. The first word comes at once: something may have changed since the listener looked.
    fn listen(self: &Arc<Self>) -> Receiver<()> {
        // One word waits for each: whoever is slow hears of many changes once.
        let (teller, listener) = channel(1);
        let is_first = {
            let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
            listeners.push(teller.clone());
            listeners.len() == 1
        };
        if is_first {
            tokio::spawn(Arc::clone(self).tell(self.client.listen()));
            // Nobody has heard of what changed before.
            self.words.fetch_add(1, Ordering::AcqRel);
        }
        // There is room for the first word.
        teller.try_send(()).ok();
        listener
    }

    /// Passes word on for as long as anybody listens.
    async fn tell(self: Arc<Self>, mut changes: Listener) {
        loop {
            let has_changed = tokio::select! {
                change = changes.next() => match change {
                    Some(()) => true,
                    None => return self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clear(),
                },
                () = sleep(LOOK) => false,
            };
            {
                let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
                listeners.retain(|listener| !listener.is_closed());
                if listeners.is_empty() {
                    return;
                }
                self.words.fetch_add(u64::from(has_changed), Ordering::AcqRel);
                for listener in listeners.iter().filter(|_| has_changed) {
                    // One that has not heard the last word yet will hear it, and needs no other.
                    listener.try_send(()).ok();
                }
            }
            if has_changed {
                sleep(OFTEN).await;
            }
        }
    }
}

/// What a listener is sent.
struct Words(Receiver<()>);

impl Stream for Words {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let word = self.0.poll_recv(cx);
        word.map(|word| word.map(|()| Ok(Event::default().event("changed").data("{}"))))
    }
}

/// Says `changed` whenever anything has changed in the database, at most once a second, as server-sent events. The first comes
/// at once. They say neither what nor how often: look again at what you show.
#[utoipa::path(
    get, path = "/api/v1/live", tag = "live", operation_id = "live",
    responses((status = 200, description = "Events", content((String = "text/event-stream")))),
)]
pub(crate) async fn live(State(live): State<Arc<Live>>) -> Response {
    Sse::new(Words(live.listen())).keep_alive(KeepAlive::default()).into_response()
}
