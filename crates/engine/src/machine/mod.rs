//! State machines: a run that goes from state to state, each with a method that decides what comes next.
//!
//! `#[machine]` makes a workflow of an `impl` block. A method of it handles a state: it is the code of a durable
//! function, and what it returns is the next state. That, with the machine's data, is recorded; after a crash the
//! machine goes on in the state that it was in, and the states before it are not looked at again.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use windlass::{machine::MachineState, prelude::*};
//!
//! #[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
//! enum Order {
//!     New,
//!     Paid,
//!     Shipped,
//! }
//!
//! struct Shop;
//!
//! #[machine(state = Order, data = u32, initial = New, terminal = [Shipped])]
//! impl Shop {
//!     #[on(New, to = [Paid])]
//!     async fn pay(&self, cx: &Flow, data: &mut u32) -> Result<Order> {
//!         *data = cx.step("charge", || async { Ok::<_, Failure>(*data + 1) }).await?;
//!         Ok(Order::Paid)
//!     }
//!
//!     #[on(Paid, to = [Shipped])]
//!     async fn ship(&self, _cx: &Flow, _data: &mut u32) -> Result<Order> {
//!         Ok(Order::Shipped)
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     let engine = Engine::open("sqlite::memory:").resource(Shop).workflow(Shop::workflow()).launch().await?;
//!     let end = engine.start(Shop::workflow(), 41).await?.await?;
//!     assert_eq!((end.state, end.data), (Order::Shipped, 42));
//!     engine.stop().await?;
//!     Ok(())
//! }
//! ```

mod breaker;
mod drive;
mod guards;
mod join;
mod managed;
mod observer;
mod rate;
mod state;
mod table;

pub use breaker::BreakerState;
pub(crate) use guards::Guards;
pub use join::{Branch, Joined};
pub(crate) use managed::Wardens;
pub use managed::{Health, Managed};
pub(crate) use observer::Observers;
pub use observer::{Observer, Visited};
pub use state::{Finished, MachineState, Poll, Progress};
#[cfg(feature = "macros")]
pub use windlass_macros::MachineState;

/// What the macro emits calls to.
#[doc(hidden)]
pub mod parts {
    pub use super::{
        breaker::BreakerParts,
        join::{BranchWork, Join as Joining, each, joined, split},
        rate::RateParts,
        state::check_states,
        table::{Handled, Handler, MachineParts, Move, machine, policy, read_cursor, write_cursor},
    };
}
