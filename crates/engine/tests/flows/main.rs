//! Durable functions, in the laboratory's time.

mod attacks;
mod calls;
mod children;
mod common;
mod determinism;
mod order;
mod replay;
mod steering;
