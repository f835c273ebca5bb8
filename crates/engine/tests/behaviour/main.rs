//! What the engine does, in the laboratory's time.

mod by_name;
mod codec;
mod fan_out;
mod guards;
mod if_taken;
mod lab;
mod launch;
mod limits;
mod queues;
mod retention;
mod shared_values;
mod spread;
mod steering;
mod traps;
mod versions;
mod waiting;
