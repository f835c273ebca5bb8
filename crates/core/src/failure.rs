//! Why an attempt did not succeed, as data that outlives the process.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, error::Error, fmt, io, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::format_duration;

/// Why an attempt failed: what task bodies return, what records keep, and what people read.
///
/// Anything that is a standard error converts into it with `?`, and so do text and the errors of `anyhow`.
/// The conversion keeps the message and the chain of sources, and decides once whether the failure is
/// transient. A body may also decide for itself, with [`Failure::permanent`] or [`Failure::retry_after`].
///
/// A `Failure` is not a [`std::error::Error`] itself, since then it could not be made from every other one.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What sort of failure it is.
    #[serde(default, skip_serializing_if = "FailureKind::is_error")]
    pub kind: FailureKind,
    /// What happened, in the words of whoever said so first.
    pub message: String,
    /// The messages of the error's sources, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// Whether the failure itself says if another attempt follows. By default the task's policy decides.
    #[serde(default, skip_serializing_if = "Again::is_by_policy")]
    pub again: Again,
    /// Whether it is likely to go away by itself: I/O, timeouts, connections, rate limits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transient: bool,
    /// The error itself, where its type can be serialised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Box<Value>>,
    /// The name of the error's type, for people. It is a hint and may change with the compiler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_name: Option<Box<str>>,
}

/// What sort of failure it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailureKind {
    /// The body returned an error.
    #[default]
    Error,
    /// The body panicked.
    Panic,
    /// The attempt took longer than its timeout.
    TimedOut,
    /// The task took longer than its deadline, with all its attempts.
    DeadlineExceeded,
    /// The attempt sent no beat for longer than its beat timeout.
    BeatLost,
    /// The attempt was stopped because its run was.
    Cancelled,
    /// A stored value does not fit the type that the code expects.
    Decode,
    /// A value cannot be stored.
    Encode,
}

/// What a failure says about another attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Again {
    /// The task's retry policy decides.
    #[default]
    ByPolicy,
    /// Another attempt would be useless, whatever the policy says.
    Never,
    /// Another attempt is due after this long, as long as attempts are left.
    After(Duration),
}

impl FailureKind {
    fn is_error(&self) -> bool {
        *self == Self::Error
    }
}

impl Again {
    fn is_by_policy(&self) -> bool {
        *self == Self::ByPolicy
    }
}

impl Failure {
    /// A failure with this message. The task's policy decides whether another attempt follows.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        let transient = sounds_transient(&message);
        Self {
            kind: FailureKind::Error,
            message,
            chain: Vec::new(),
            again: Again::ByPolicy,
            transient,
            value: None,
            type_name: None,
        }
    }

    /// A failure that no further attempt would mend.
    #[must_use]
    pub fn permanent(error: impl Into<Self>) -> Self {
        Self { again: Again::Never, transient: false, ..error.into() }
    }

    /// A failure after which another attempt is due after exactly this long, whatever the policy's delays
    /// and conditions are. The number of attempts still holds.
    #[must_use]
    pub fn retry_after(error: impl Into<Self>, delay: Duration) -> Self {
        Self { again: Again::After(delay), ..error.into() }
    }

    /// A body that panicked with this message.
    #[must_use]
    pub fn panic(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Panic, transient: false, ..Self::new(message) }
    }

    /// An attempt that took longer than its timeout.
    #[must_use]
    pub fn timed_out(after: Duration) -> Self {
        let message = format!("the attempt took longer than its timeout of {}", format_duration(after));
        Self { kind: FailureKind::TimedOut, transient: true, ..Self::new(message) }
    }

    /// A task that took longer than its deadline, with all its attempts. No attempt follows.
    #[must_use]
    pub fn deadline_exceeded(after: Duration) -> Self {
        let message = format!("the task took longer than its deadline of {}", format_duration(after));
        Self {
            kind: FailureKind::DeadlineExceeded,
            again: Again::Never,
            transient: false,
            ..Self::new(message)
        }
    }

    /// An attempt that sent no beat for longer than its beat timeout.
    #[must_use]
    pub fn beat_lost(after: Duration) -> Self {
        let message = format!("the attempt sent no beat for {}", format_duration(after));
        Self { kind: FailureKind::BeatLost, transient: true, ..Self::new(message) }
    }

    /// An attempt that was stopped because its run was. No attempt follows.
    #[must_use]
    pub fn cancelled(reason: impl Into<String>) -> Self {
        Self { kind: FailureKind::Cancelled, again: Again::Never, transient: false, ..Self::new(reason) }
    }

    /// A stored value that does not fit the type that the code expects. No attempt follows, since the
    /// value will not change.
    #[must_use]
    pub fn decode(what: impl fmt::Display, error: impl Into<Self>) -> Self {
        Self::codec(FailureKind::Decode, format!("{what} does not fit its type"), error.into())
    }

    /// A value that cannot be stored. No attempt follows, since the work would be done again in vain.
    #[must_use]
    pub fn encode(what: impl fmt::Display, error: impl Into<Self>) -> Self {
        Self::codec(FailureKind::Encode, format!("{what} cannot be stored"), error.into())
    }

    fn codec(kind: FailureKind, message: String, cause: Self) -> Self {
        let mut chain = vec![cause.message];
        chain.extend(cause.chain);
        Self {
            kind,
            message,
            chain,
            again: Again::Never,
            transient: false,
            value: cause.value,
            type_name: cause.type_name,
        }
    }

    /// The same failure, marked as likely to go away by itself.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.transient = true;
        self
    }

    /// The same failure, with the error itself beside its message.
    ///
    /// When the value cannot be serialised, the chain says so: a failure about the failure would hide it.
    #[must_use]
    pub fn with_value(mut self, value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => self.value = Some(Box::new(value)),
            Err(error) => self.chain.push(format!("the error's value cannot be kept: {error}")),
        }
        self
    }

    /// The same failure, with the name of the error's type.
    #[must_use]
    pub fn with_type_name(mut self, name: impl Into<Box<str>>) -> Self {
        self.type_name = Some(name.into());
        self
    }

    /// The message and every source's message, outermost first.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.message.as_str()).chain(self.chain.iter().map(String::as_str))
    }
}

impl<E> From<E> for Failure
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn from(error: E) -> Self {
        let error: Box<dyn Error + Send + Sync> = error.into();
        let mut failure = Self::new(error.to_string());
        let mut by_type = transient_by_type(&*error);
        let mut next = error.source();
        while let Some(source) = next {
            by_type = by_type.or_else(|| transient_by_type(source));
            failure.chain.push(source.to_string());
            next = source.source();
        }
        let by_message = failure.messages().any(sounds_transient);
        failure.transient = by_type.unwrap_or(by_message);
        failure.type_name = named_type::<E>();
        failure
    }
}

impl fmt::Debug for Failure {
    /// What a person wants to read when `main` returns one: the message, then each source on a line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.chain.is_empty() {
            f.write_str("\n\nCaused by:")?;
        }
        self.chain.iter().try_for_each(|source| write!(f, "\n    {source}"))
    }
}

impl fmt::Display for Failure {
    /// The message, then each source after a colon. A source that the message repeats is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut said = self.message.as_str();
        for source in &self.chain {
            if !said.contains(source.as_str()) {
                write!(f, ": {source}")?;
                said = source;
            }
        }
        Ok(())
    }
}

/// The type's name, unless it is only text or a box and tells nothing.
fn named_type<E>() -> Option<Box<str>> {
    let name = std::any::type_name::<E>();
    let says_nothing = name.starts_with('&')
        || name.starts_with("alloc::boxed::Box<dyn ")
        || name == std::any::type_name::<String>()
        || name == std::any::type_name::<Cow<'static, str>>();
    (!says_nothing).then(|| name.into())
}

/// What the error's type says about its being transient; nothing, for a type that is not known here.
fn transient_by_type(error: &(dyn Error + 'static)) -> Option<bool> {
    use io::ErrorKind as Kind;

    let kind = error.downcast_ref::<io::Error>()?.kind();
    match kind {
        Kind::ConnectionRefused
        | Kind::ConnectionReset
        | Kind::ConnectionAborted
        | Kind::NotConnected
        | Kind::HostUnreachable
        | Kind::NetworkUnreachable
        | Kind::NetworkDown
        | Kind::AddrInUse
        | Kind::BrokenPipe
        | Kind::TimedOut
        | Kind::WouldBlock
        | Kind::Interrupted
        | Kind::ResourceBusy
        | Kind::StaleNetworkFileHandle
        | Kind::Deadlock
        | Kind::UnexpectedEof
        | Kind::WriteZero => Some(true),
        // Nothing can be told from these: the cause or the message may know more.
        Kind::Other => None,
        _ => Some(false),
    }
}

/// Whether a message reads like one of the failures that go away by themselves.
fn sounds_transient(message: &str) -> bool {
    const PHRASES: [&str; 23] = [
        "timed out",
        "timeout",
        "time-out",
        "deadline has elapsed",
        "deadline exceeded",
        "connection refused",
        "connection reset",
        "connection aborted",
        "connection closed",
        "broken pipe",
        "network is unreachable",
        "host is unreachable",
        "no route to host",
        "temporarily unavailable",
        "temporary failure",
        "service unavailable",
        "bad gateway",
        "try again",
        "rate limit",
        "rate-limit",
        "too many requests",
        "database is locked",
        "throttl",
    ];
    const STATUSES: [&str; 5] = ["408", "429", "502", "503", "504"];

    let message = message.to_lowercase();
    let words: Vec<&str> =
        message.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    // A bare 503 may be a number of rows; after one of these words it is a status.
    let status = words
        .windows(2)
        .any(|pair| STATUSES.contains(&pair[1]) && ["status", "http", "code", "error"].contains(&pair[0]));
    status || PHRASES.iter().any(|phrase| message.contains(phrase))
}
