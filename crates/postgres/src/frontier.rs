//! How far each line was taken from its front.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use crate::error::Fault;

/// A claim that takes fewer of a line is not worth remembering: what it left behind is passed quickly.
const MANY: usize = 100;
/// How long claims may go on from where the last one was, while something more urgent, or older, comes behind them.
const FULL_LOOK: Duration = Duration::from_millis(100);

/// Where claims go on in lines of which much was taken just now.
///
/// What was taken stays in the index until it is cleaned, which may be long, while somebody else reads. Each claim would
/// go past all of it again.
#[derive(Default)]
pub(crate) struct Frontier {
    lines: HashMap<(Arc<str>, Arc<str>), (i16, Uuid)>,
    looked: Option<Instant>,
}

/// The same, as columns: queue, workflow, priority and run.
#[derive(Default)]
pub(crate) struct Bounds {
    queue: Vec<String>,
    workflow: Vec<String>,
    priority: Vec<i16>,
    run: Vec<Uuid>,
}

impl Frontier {
    /// From where a claim looks: now and then from the very front.
    pub(crate) fn begin(&mut self) -> Bounds {
        if self.looked.is_none_or(|looked| looked.elapsed() >= FULL_LOOK) {
            self.lines.clear();
            self.looked = Some(Instant::now());
        }
        self.bounds()
    }

    /// Notes what a claim took, rows that begin with a run, its workflow, its queue and its priority. Answers where there
    /// may be more.
    pub(crate) fn end(&mut self, runs: &[Row]) -> Result<Bounds, Fault> {
        if runs.len() >= MANY {
            let mut taken: HashMap<(&str, &str), (usize, _)> = HashMap::new();
            for row in runs {
                let (id, workflow, queue): (Uuid, _, _) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                let priority: i16 = row.try_get(3)?;
                let (count, last) = taken.entry((queue, workflow)).or_insert((0, (priority, id)));
                *count += 1;
                *last = (priority, id).max(*last);
            }
            let many = taken.into_iter().filter(|(_, (count, _))| *count >= MANY);
            self.lines
                .extend(many.map(|((queue, workflow), (_, last))| ((queue.into(), workflow.into()), last)));
        }
        Ok(self.bounds())
    }

    /// Has the next claim look from the very front.
    pub(crate) fn forget(&mut self) {
        self.looked = None;
    }

    fn bounds(&self) -> Bounds {
        let mut bounds = Bounds::default();
        for ((queue, workflow), (priority, run)) in &self.lines {
            bounds.queue.push(String::from(&**queue));
            bounds.workflow.push(String::from(&**workflow));
            bounds.priority.push(*priority);
            bounds.run.push(*run);
        }
        bounds
    }
}

impl Bounds {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn columns(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.queue, &self.workflow, &self.priority, &self.run]
    }
}
