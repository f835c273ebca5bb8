//! What the macros emit calls to. Nothing here is meant to be written by hand, and any of it may change.

pub use std::time::Duration;

pub use serde_json::Value;
pub use tokio::select;
pub use windlass_core::{Durability, Merge, OnFailure};
#[cfg(feature = "postgres")]
pub use windlass_postgres::Isolation;

#[cfg(feature = "sqlite")]
pub use crate::authoring::transaction::on_sqlite;
#[cfg(feature = "testing")]
pub use crate::testing::lab_test;
pub use crate::{
    Body, BoxFuture, Call, Dependency, Done, Slot, TaskCode, Want,
    authoring::{
        bind::{Handed, copied, dependency, done, element, input, items, optional, outcome, resource},
        caught::{Caught, CaughtError, CaughtFailure, CaughtValue, Returns, TaskError},
        compose::{
            At, FitsIn, Given, Has, Join, Node, Nothing, RunInput, TaskItem, check_nodes, fits, leaf, place,
        },
        element::{Elements, assert_list},
        parts::{On, RetryParts, Shape, TaskParts, WorkflowParts, build},
        transaction::AsyncTransaction,
    },
    flow::{FlowCode, FlowParts, flow, keep},
    machine::parts::*,
};
