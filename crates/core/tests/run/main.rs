//! The run state machine, driven by an engine in a box.

mod away;
mod contexts;
mod dice;
mod fan;
mod model;
mod orders;
mod player;
mod properties;
mod readiness;
mod recovery;
mod script;
mod speed;
mod watch;
mod world;
