//! What the API answers.

mod app;
mod audit;
mod bounds;
mod bulk;
mod figures;
mod graphs;
mod health;
mod hooks;
mod keys;
mod living;
mod metrics;
mod mounting;
mod openapi;
mod page;
mod promised;
mod queues;
mod rubbish;
mod runs;
mod safety;
mod schedules;
mod steering;
mod watched;
mod watching;
