//! What the API answers.

mod app;
mod audit;
mod bulk;
mod figures;
mod graphs;
mod health;
mod keys;
mod mounting;
mod openapi;
mod page;
mod queues;
mod rubbish;
mod runs;
mod safety;
mod schedules;
mod steering;
mod watching;
