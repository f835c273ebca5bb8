//! Durable functions, in the laboratory's time.

mod attacks;
mod calls;
mod check;
mod children;
mod common;
mod determinism;
mod kept;
mod logs;
mod order;
mod replay;
mod steering;
