//! The shape of a workflow: who waits for whom.

#[cfg(test)]
mod tests;

use crate::{Definition, TaskIx};

/// The edges of a graph of tasks, both ways, with everything that follows from them.
///
/// It is built in linear time, and nothing in it recurses: a chain of ten thousand tasks is nothing special.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    dependencies: Edges,
    dependents: Edges,
    topological: Vec<TaskIx>,
    by_level: Vec<TaskIx>,
    level: Vec<u32>,
}

impl Graph {
    /// The graph of a definition.
    ///
    /// # Panics
    ///
    /// When the definition has a cycle, or names a place that it does not have. A definition that comes
    /// from a [`Draft`](crate::Draft)'s check has neither.
    #[must_use]
    pub fn of(definition: &Definition) -> Self {
        let edges = definition.tasks.iter().map(|task| task.dependencies.as_slice());
        Self::from_edges(edges).expect("a checked definition has no cycle")
    }

    /// The graph in which each task waits for the tasks at the places listed for it.
    ///
    /// # Errors
    ///
    /// When there is a cycle: the tasks on it, each waiting for the next, and the last for the first.
    pub(crate) fn from_edges<'a>(
        lists: impl ExactSizeIterator<Item = &'a [TaskIx]>,
    ) -> Result<Self, Vec<TaskIx>> {
        let dependencies = Edges::new(lists);
        let dependents = dependencies.reversed();
        let count = dependencies.len();
        let mut waits: Vec<usize> = (0..count).map(|at| dependencies.of(at.into()).len()).collect();
        let mut level = vec![0; count];
        let mut by_level: Vec<TaskIx> = (0..count).filter(|at| waits[*at] == 0).map(TaskIx::from).collect();
        let mut next = 0;
        while let Some(&task) = by_level.get(next) {
            next += 1;
            for dependent in dependents.of(task) {
                let at = dependent.get();
                level[at] = level[at].max(level[task.get()] + 1);
                waits[at] -= 1;
                if waits[at] == 0 {
                    by_level.push(*dependent);
                }
            }
        }
        if by_level.len() < count {
            return Err(cycle(&dependencies, &waits));
        }
        by_level.sort_by_key(|task| (level[task.get()], *task));
        let leaves: Vec<TaskIx> =
            (0..count).map(TaskIx::from).filter(|task| dependents.of(*task).is_empty()).collect();
        let topological = post_order(&dependencies, &leaves);
        Ok(Self { dependencies, dependents, topological, by_level, level })
    }

    /// How many tasks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.level.len()
    }

    /// Whether there are no tasks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.level.is_empty()
    }

    /// What a task waits for, as declared.
    #[must_use]
    pub fn dependencies(&self, task: TaskIx) -> &[TaskIx] {
        self.dependencies.of(task)
    }

    /// What waits for a task, as declared.
    #[must_use]
    pub fn dependents(&self, task: TaskIx) -> &[TaskIx] {
        self.dependents.of(task)
    }

    /// Every task after all that it waits for, in the order in which the context changes of a whole run are
    /// merged: that of the ancestors of one more task that would wait for all leaves, as declared.
    #[must_use]
    pub fn topological(&self) -> &[TaskIx] {
        &self.topological
    }

    /// The number of edges on the longest way to a task from a task that waits for nothing.
    #[must_use]
    pub fn level(&self, task: TaskIx) -> u32 {
        self.level[task.get()]
    }

    /// The tasks by level, and as declared within it. Tasks of one level do not wait for each other.
    pub fn levels(&self) -> impl Iterator<Item = &[TaskIx]> {
        self.by_level.chunk_by(|a, b| self.level(*a) == self.level(*b))
    }

    /// The tasks that wait for nothing, as declared.
    pub fn roots(&self) -> impl Iterator<Item = TaskIx> {
        self.tasks().filter(|task| self.dependencies(*task).is_empty())
    }

    /// The tasks that nothing waits for, as declared.
    pub fn leaves(&self) -> impl Iterator<Item = TaskIx> {
        self.tasks().filter(|task| self.dependents(*task).is_empty())
    }

    /// All that a task waits for, directly or not, in the order in which contexts are merged: each one
    /// after its own ancestors, and the ancestors of a later-declared dependency later.
    #[must_use]
    pub fn ancestors(&self, task: TaskIx) -> Vec<TaskIx> {
        let mut order = self.upstream(&[task]);
        order.pop();
        order
    }

    /// These tasks and all that they wait for, each after its own ancestors.
    #[must_use]
    pub fn upstream(&self, targets: &[TaskIx]) -> Vec<TaskIx> {
        post_order(&self.dependencies, targets)
    }

    /// These tasks and all that waits for them, directly or not, each before what waits for it.
    #[must_use]
    pub fn downstream(&self, targets: &[TaskIx]) -> Vec<TaskIx> {
        let mut order = post_order(&self.dependents, targets);
        order.reverse();
        order
    }

    fn tasks(&self) -> impl Iterator<Item = TaskIx> + use<> {
        (0..self.level.len()).map(TaskIx::from)
    }
}

impl Definition {
    /// The workflow that consists of these tasks and all that they wait for, under the same name.
    ///
    /// Its output is kept if the task is still there. Its version is the fingerprint of what is left.
    #[must_use]
    pub fn subgraph(&self, targets: &[TaskIx]) -> Self {
        let mut kept = Graph::of(self).upstream(targets);
        kept.sort_unstable();
        let mut place: Vec<Option<TaskIx>> = vec![None; self.tasks.len()];
        for (new, old) in kept.iter().enumerate() {
            place[old.get()] = Some(new.into());
        }
        let moved = |old: TaskIx| place[old.get()].expect("a dependency of a kept task is kept");
        let mut part = Self {
            tasks: kept.iter().map(|old| self.task(*old).clone()).collect(),
            output: self.output.and_then(|output| place[output.get()]),
            ..self.clone()
        };
        for task in &mut part.tasks {
            task.dependencies.iter_mut().for_each(|dependency| *dependency = moved(*dependency));
            if let Some(each) = &mut task.for_each {
                each.over = moved(each.over);
            }
        }
        part.version = part.fingerprint().into();
        part
    }
}

/// Lists of neighbours, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Edges {
    starts: Vec<usize>,
    ends: Vec<TaskIx>,
}

impl Edges {
    fn new<'a>(lists: impl ExactSizeIterator<Item = &'a [TaskIx]>) -> Self {
        let mut edges = Self { starts: Vec::with_capacity(lists.len() + 1), ends: Vec::new() };
        edges.starts.push(0);
        for list in lists {
            edges.ends.extend_from_slice(list);
            edges.starts.push(edges.ends.len());
        }
        edges
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn of(&self, task: TaskIx) -> &[TaskIx] {
        &self.ends[self.starts[task.get()]..self.starts[task.get() + 1]]
    }

    fn reversed(&self) -> Self {
        let mut starts = vec![0; self.starts.len()];
        for end in &self.ends {
            starts[end.get() + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut free = starts.clone();
        let mut ends = vec![TaskIx(0); self.ends.len()];
        for from in 0..self.len() {
            for end in self.of(from.into()) {
                ends[free[end.get()]] = from.into();
                free[end.get()] += 1;
            }
        }
        Self { starts, ends }
    }
}

/// The targets and all that can be reached from them, each after all that it reaches, first edges first.
fn post_order(edges: &Edges, targets: &[TaskIx]) -> Vec<TaskIx> {
    let mut seen = vec![false; edges.len()];
    let mut order = Vec::new();
    let mut stack: Vec<(TaskIx, usize)> = Vec::new();
    for target in targets {
        if !std::mem::replace(&mut seen[target.get()], true) {
            stack.push((*target, 0));
        }
        while let Some((task, tried)) = stack.last_mut() {
            match edges.of(*task).get(*tried) {
                Some(next) => {
                    *tried += 1;
                    if !std::mem::replace(&mut seen[next.get()], true) {
                        stack.push((*next, 0));
                    }
                }
                None => {
                    order.push(*task);
                    stack.pop();
                }
            }
        }
    }
    order
}

/// One cycle among the tasks that still wait. Each of those waits for another of them, so following any
/// of these edges comes round in the end.
fn cycle(dependencies: &Edges, waits: &[usize]) -> Vec<TaskIx> {
    let mut visited = vec![None; waits.len()];
    let mut path: Vec<TaskIx> = Vec::new();
    let mut at = TaskIx::from(waits.iter().position(|waits| *waits > 0).expect("some task still waits"));
    loop {
        if let Some(start) = visited[at.get()] {
            return path.split_off(start);
        }
        visited[at.get()] = Some(path.len());
        path.push(at);
        at = *dependencies
            .of(at)
            .iter()
            .find(|next| waits[next.get()] > 0)
            .expect("a task that waits for ever waits for another such task");
    }
}
