//! State machines, in the laboratory's time.

mod again;
mod around;
mod guarded;
mod journeys;
mod kin;
mod kinds;
mod splits;
mod stress;
mod tally;
