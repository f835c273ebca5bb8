//! Answers that many who look at the same thing share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::{Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header::CACHE_CONTROL},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::{sync::OnceCell, time::Instant};

use crate::{route::live::Live, way::Way};

/// How old an answer may be, whatever is asked for. Words come a second apart, and so does what watchers hear of a run: each
/// look after the next one is a new one, though some come a little late.
const LONGEST: Duration = Duration::from_millis(700);

/// How many answers are kept.
const MOST: usize = 256;

/// What is answered alike to everybody who may ask for it.
const WAYS: [&str; 18] = [
    "overview",
    "health",
    "list_runs",
    "count_runs",
    "show_run",
    "pending_events",
    "run_logs",
    "list_workflows",
    "show_workflow",
    "workflow_statistics",
    "workflow_grid",
    "list_nodes",
    "list_queues",
    "show_queue",
    "list_schedules",
    "show_schedule",
    "list_triggers",
    "show_trigger",
];

/// Answers of the last second, for those who are content with one: they say `cache-control: max-age=1`.
///
/// Nobody who heard of a change gets an answer from before it: with each word of [`Live`] all are forgotten. So however many
/// listen, and look again at each word, the database is asked once.
pub(crate) struct Shared {
    live: Arc<Live>,
    kept: Mutex<HashMap<String, Arc<Kept>>>,
}

struct Kept {
    word: u64,
    begun: Instant,
    /// Whoever comes while it is on its way waits for it; if whoever asked goes away, the next one asks.
    answer: OnceCell<Whole>,
}

/// An answer, read to its end.
struct Whole {
    headers: HeaderMap,
    body: Bytes,
}

impl Shared {
    pub(crate) fn new(live: Arc<Live>) -> Arc<Self> {
        Arc::new(Self { live, kept: Mutex::default() })
    }

    /// The answer that is or will be the one to this request; `None` where nobody shares it.
    fn find(&self, path: &str, age: Duration) -> Option<Arc<Kept>> {
        let word = self.live.word();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good = |kept: &Kept, age| kept.word == word && kept.begun.elapsed() < age;
        match kept.get(path) {
            Some(known) if is_good(known, age) => return Some(Arc::clone(known)),
            // Whoever wants to know it exactly may have changed something: others are not to see less.
            Some(_) => {}
            None if age.is_zero() => return None,
            None => {}
        }
        kept.retain(|_, kept| is_good(kept, LONGEST));
        if kept.len() >= MOST {
            return None;
        }
        let new = Arc::new(Kept { word, begun: Instant::now(), answer: OnceCell::new() });
        kept.insert(path.to_owned(), Arc::clone(&new));
        Some(new)
    }
}

/// Answers with what somebody else was answered just now, if whoever asks is content with that.
pub(crate) async fn share(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let is_shared = request.method() == Method::GET
        && Way::of(&request).is_some_and(|way| WAYS.contains(&way.id.as_str()));
    let path = request.uri().path_and_query().map(|path| path.as_str().to_owned());
    let Some(path) = path.filter(|_| is_shared) else { return next.run(request).await };
    let Some(kept) = shared.find(&path, age(request.headers())) else { return next.run(request).await };
    match kept.answer.get_or_try_init(|| async { Whole::read(next.run(request).await).await }).await {
        Ok(whole) => whole.again(),
        Err(refused) => refused,
    }
}

/// How old an answer may be for whoever asks.
fn age(headers: &HeaderMap) -> Duration {
    let said = headers.get_all(CACHE_CONTROL).into_iter().filter_map(|value| value.to_str().ok());
    let mut orders = said.flat_map(|value| value.split(',')).map(str::trim);
    let seconds = orders.find_map(|order| order.strip_prefix("max-age=")?.parse().ok());
    seconds.map_or(Duration::ZERO, Duration::from_secs).min(LONGEST)
}

impl Whole {
    /// What is refused is refused to whoever asked, and to nobody else.
    async fn read(response: Response) -> Result<Self, Response> {
        if response.status() != StatusCode::OK {
            return Err(response);
        }
        let (parts, body) = response.into_parts();
        match to_bytes(body, usize::MAX).await {
            Ok(body) => Ok(Self { headers: parts.headers, body }),
            // Our own answers are there as a whole.
            Err(why) => {
                tracing::error!(%why, "an answer could not be read");
                Err(StatusCode::INTERNAL_SERVER_ERROR.into_response())
            }
        }
    }

    fn again(&self) -> Response {
        (self.headers.clone(), self.body.clone()).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn an_answer_is_as_old_as_is_asked_for_and_less_than_a_second() {
        let asked = |said: &'static str| {
            age(&HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::from_static(said))])).as_millis()
        };
        let said = ["max-age=1", "no-transform, max-age=60", "max-age=0", "no-cache", "max-age=soon", ""];
        assert_eq!(said.map(asked), [700, 700, 0, 0, 0, 0]);
    }

    #[test]
    fn every_way_that_is_shared_is_one() {
        let document = crate::openapi();
        for way in WAYS {
            assert!(document.contains(&format!("\"operationId\": \"{way}\"")), "{way}");
        }
    }
}
