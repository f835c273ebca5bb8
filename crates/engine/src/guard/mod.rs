//! What a task may put between itself and something that others depend on too: rate limits and circuit breakers.

mod breaker;
mod rate;
mod shared;

pub use breaker::CircuitBreaker;
pub(crate) use breaker::shut;
pub use rate::RateLimit;
pub(crate) use shared::Shared;
