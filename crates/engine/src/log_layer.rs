//! Keeping what tasks log.

use std::{
    cell::RefCell,
    fmt::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use serde_json::{Map, Value};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};
use windlass_core::RunId;
use windlass_store::LogLine;

use crate::{flow::current_step, hub::Hub, logs::seal};

/// The name of the span around an attempt.
pub(crate) const SPAN: &str = "windlass.attempt";
/// How many lines of an attempt are all kept.
const ALL: u32 = 200;
/// Until so many, one in ten is kept; later ones only if they are warnings or errors.
const SOME: u32 = 2_000;
const ONE_IN: u32 = 10;
/// How many lines of an attempt are kept, whatever they are.
const MOST: u32 = 500;
/// How long a message may be, and all that stands beside it, in bytes.
const LONGEST: usize = 4_096;

/// Whether there is a layer at all.
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The engine that is making the span of an attempt on this thread.
    static NEAR: RefCell<Option<Arc<Hub>>> = const { RefCell::new(None) };
}

/// Keeps what tasks log, with their runs: add it to the subscriber of the program. See [`log_layer`].
#[derive(Debug)]
pub struct LogLayer {
    level: Level,
}

/// A layer that keeps what tasks and steps log through `tracing` with their runs, to be read with
/// [`Run::logs`](crate::Run::logs).
///
/// It keeps what is at least as bad as `INFO`; see [`up_to`](LogLayer::up_to). Of an attempt that logs much some lines are
/// left out, and the next line that is kept says how many. Lines are written beside the steps and after them, at most a second
/// late: what a process has not written when it dies is lost. They go with their run.
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// tracing_subscriber::registry().with(windlass::log_layer()).init();
/// ```
#[must_use]
pub fn log_layer() -> LogLayer {
    IS_INSTALLED.store(true, Ordering::Relaxed);
    LogLayer { level: Level::INFO }
}

impl LogLayer {
    /// Keeps lines of this level, and those that are worse. Default: `INFO`.
    #[must_use]
    pub fn up_to(self, level: Level) -> Self {
        Self { level }
    }
}

/// Makes the span of an attempt. A layer that hears of it knows whose it is.
pub(crate) fn near<T>(hub: &Arc<Hub>, make: impl FnOnce() -> T) -> T {
    if !IS_INSTALLED.load(Ordering::Relaxed) {
        return make();
    }
    NEAR.set(Some(Arc::clone(hub)));
    let _away = Away;
    make()
}

/// Forgets the engine, also when a layer of somebody else panics.
struct Away;

impl Drop for Away {
    fn drop(&mut self) {
        NEAR.set(None);
    }
}

/// An attempt whose lines are kept.
struct Attempt {
    hub: Arc<Hub>,
    run: RunId,
    task: Arc<str>,
    number: u32,
    /// How many lines it logged, and how many of them were kept.
    seen: AtomicU32,
    kept: AtomicU32,
    /// How many were left out since the last that was kept.
    dropped: AtomicU32,
}

impl Attempt {
    fn is_kept(&self, level: Level) -> bool {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        let is_sampled = seen < ALL || seen < SOME && seen.is_multiple_of(ONE_IN);
        (is_sampled || level <= Level::WARN) && self.kept.load(Ordering::Relaxed) < MOST
    }

    fn log(&self, level: Level, said: Said) {
        let step = current_step().map(|step| Arc::from(step.trim_start_matches('/')));
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        let line = LogLine {
            run: self.run,
            at: self.hub.clock.now(),
            level: number(level),
            task: step.unwrap_or_else(|| Arc::clone(&self.task)),
            attempt: self.number,
            message: said.message,
            fields: (!said.fields.is_empty()).then(|| Value::Object(said.fields).to_string()),
            dropped,
        };
        if self.hub.scribe.log(seal(&*self.hub.codec, line)) {
            self.kept.fetch_add(1, Ordering::Relaxed);
        } else {
            self.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
        }
    }
}

/// How bad a line is, as stores keep it.
fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for LogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().name() != SPAN {
            return;
        }
        let Some(hub) = NEAR.with_borrow(Clone::clone) else { return };
        let mut named = Named::default();
        attributes.record(&mut named);
        let (Some(run), Some(span)) = (named.run, context.span(id)) else { return };
        let task = match named.item {
            Some(item) => format!("{}[{item}]", named.task).into(),
            None => named.task.into(),
        };
        let (seen, kept, dropped) = Default::default();
        // A second layer of this kind takes the place of the first: to insert twice would be a panic.
        span.extensions_mut().replace(Attempt { hub, run, task, number: named.attempt, seen, kept, dropped });
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let level = *event.metadata().level();
        if level > self.level {
            return;
        }
        let Some(scope) = context.event_scope(event) else { return };
        for span in scope {
            let extensions = span.extensions();
            let Some(attempt) = extensions.get::<Attempt>() else { continue };
            if attempt.is_kept(level) {
                let mut said = Said::default();
                event.record(&mut said);
                attempt.log(level, said);
            } else {
                attempt.dropped.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let extensions = span.extensions();
        let Some(attempt) = extensions.get::<Attempt>() else { return };
        let dropped = attempt.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            let message = format!("{dropped} lines before the end of this attempt were left out");
            attempt.log(Level::WARN, Said { message, ..Said::default() });
        }
    }
}

/// What the span of an attempt says.
#[derive(Default)]
struct Named {
    run: Option<RunId>,
    task: String,
    item: Option<u64>,
    attempt: u32,
}

impl Visit for Named {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "item" => self.item = Some(value),
            "attempt" => self.attempt = u32::try_from(value).unwrap_or(u32::MAX),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "run" => self.run = format!("{value:?}").parse().ok(),
            "task" => self.task = format!("{value:?}"),
            _ => {}
        }
    }
}

/// What an event says.
#[derive(Default)]
struct Said {
    message: String,
    fields: Map<String, Value>,
    /// How many bytes the texts of the fields have taken.
    taken: usize,
}

impl Said {
    fn keep(&mut self, field: &Field, value: Value) {
        if field.name() == "message" {
            self.message = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        } else {
            self.fields.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Said {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.keep(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let is_message = field.name() == "message";
        let room = if is_message { LONGEST } else { LONGEST - self.taken };
        let mut text = Short { text: String::new(), room };
        // What is too long ends where the room does.
        let is_whole = write!(text, "{value:?}").is_ok();
        if !is_message {
            self.taken += text.text.len();
        }
        // No database keeps this character.
        let text = text.text.replace('\0', "\u{fffd}");
        self.keep(field, if is_whole { text } else { text + "…" }.into());
    }
}

/// A text that takes no more than so much.
struct Short {
    text: String,
    room: usize,
}

impl Write for Short {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = self.room - self.text.len();
        let end = (0..=room.min(more.len())).rev().find(|end| more.is_char_boundary(*end)).unwrap_or(0);
        self.text.push_str(&more[..end]);
        if end == more.len() { Ok(()) } else { Err(fmt::Error) }
    }
}
