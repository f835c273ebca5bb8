//! Many concurrent durable functions of ten steps in a row.

use windlass::prelude::*;

use super::chain3::Row;

/// The workflow of `steps`.
pub(crate) const STEPS: Row = Row { workflow: ten::workflow, tasks: TEN };

pub(crate) const TEN: usize = 10;

/// Ten steps that do nothing, one after the other.
#[flow]
async fn ten(cx: &Flow) -> Result<()> {
    do_nothing(cx, TEN).await
}

/// So many steps that do nothing, one after the other.
pub(crate) async fn do_nothing(cx: &Flow, steps: usize) -> Result<()> {
    for _ in 0..steps {
        cx.step("step", || async { Ok::<_, Failure>(()) }).await?;
    }
    Ok(())
}
