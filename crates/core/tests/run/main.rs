//! The run state machine, driven by an engine in a box.

mod dice;
mod model;
mod player;
mod properties;
mod script;
mod watch;
mod world;
