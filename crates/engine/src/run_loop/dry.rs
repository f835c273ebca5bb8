//! Looking at what the code of a run would do.

use std::sync::Arc;

use windlass_core::{Attempt, LaneId, Verdict};

use super::{RunCell, RunLoop};
use crate::{Code, Cx, arguments, attempt::Host, flow::Replayed};

impl RunLoop {
    /// How the run will end, if that is settled: its code only puts things in order.
    pub(crate) fn closing(&self) -> Option<Verdict> {
        self.run.closing().cloned()
    }

    /// Replays the durable function that the run is, and does nothing else. `None` if it is a graph.
    pub(crate) async fn replay(mut self, cell: &Arc<RunCell>) -> Result<Option<Replayed>, String> {
        let Some(task) = self.run.plan().flow() else { return Ok(None) };
        let lane = LaneId::of(task);
        let attempt = Attempt { lane, number: 1, deadline: None, closing: false };
        let cx = Cx::of(Host::Home(Arc::clone(cell)), attempt, self.now);
        self.set_scene(cell, &cx, attempt)?;
        let (Some(scene), Code::Async(body)) = (cx.inner().scene().cloned(), &cell.code(task).run) else {
            return Ok(None);
        };
        let mut call = arguments::call(&cell.subject, &mut self.run, &mut self.outputs, lane, cx);
        call.set_input(scene.input());
        match body(call).await {
            Err(failure) => Ok(Some(scene.take_replayed().unwrap_or(Replayed::Returned(Err(failure))))),
            Ok(_) => Ok(Some(Replayed::Returned(Ok(())))),
        }
    }
}
