//! Which tasks are executed elsewhere, and in which queue they wait for that.

use std::sync::Arc;

use windlass_core::{Definition, TaskIx};

/// A rule from the names of tasks to a queue.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) pattern: String,
    pub(crate) queue: Arc<str>,
}

impl Rule {
    /// Whether a task, as `workflow.task`, is meant: `*` stands for any text, `?` for one character.
    fn fits(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) =
            (self.pattern.chars().collect(), name.chars().collect());
        let (mut p, mut n) = (0, 0);
        // Where the last star stands, and up to where it has eaten.
        let mut star: Option<(usize, usize)> = None;
        while n < name.len() {
            match pattern.get(p) {
                Some('*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(c) if *c == '?' || *c == name[n] => {
                    p += 1;
                    n += 1;
                }
                _ => match star {
                    Some((at, eaten)) => {
                        star = Some((at, eaten + 1));
                        p = at + 1;
                        n = eaten + 1;
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|c| *c == '*')
    }
}

/// What becomes of the tasks of one workflow.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    /// For each task, whether any node may execute it; empty when none is so.
    spread: Arc<[bool]>,
    /// For each task, the queue that it waits in, unless that is the run's.
    queues: Vec<Option<Arc<str>>>,
}

impl Routes {
    /// The first rule that fits a task counts, else what the task says, else what its workflow says. A task that `stays`
    /// is executed where its run is, whatever they say.
    pub(crate) fn new(definition: &Definition, rules: &[Rule], stays: impl Fn(TaskIx) -> bool) -> Self {
        let queue = |(at, task): (TaskIx, &windlass_core::Task)| {
            let name = format!("{}.{}", definition.name, task.name);
            let rule = rules.iter().find(|rule| rule.fits(&name));
            let queue = rule.map(|rule| Arc::clone(&rule.queue)).or_else(|| task.queue.clone());
            queue.filter(|_| !stays(at))
        };
        let queues: Vec<_> = definition.indices().zip(&definition.tasks).map(queue).collect();
        let is_spread =
            |(at, queue): (TaskIx, &Option<_>)| definition.spread && !stays(at) || queue.is_some();
        let spread: Vec<bool> = definition.indices().zip(&queues).map(is_spread).collect();
        let any = spread.contains(&true);
        Self { spread: if any { spread.into() } else { Arc::default() }, queues }
    }

    /// For each task, whether any node may execute it; empty when none is so.
    pub(crate) fn spread(&self) -> &Arc<[bool]> {
        &self.spread
    }

    /// Whether any task may be executed by any node.
    pub(crate) fn any(&self) -> bool {
        !self.spread.is_empty()
    }

    /// The queue that a task waits in, if it is not that of its run.
    pub(crate) fn queue(&self, task: TaskIx) -> Option<&Arc<str>> {
        self.queues[task.get()].as_ref()
    }
}

/// The rules that no task of these workflows fits.
pub(crate) fn idle<'r>(rules: &'r [Rule], definitions: &[&Definition]) -> Vec<&'r Rule> {
    let names: Vec<String> = definitions
        .iter()
        .flat_map(|definition| {
            definition.tasks.iter().map(move |task| format!("{}.{}", definition.name, task.name))
        })
        .collect();
    rules.iter().filter(|rule| !names.iter().any(|name| rule.fits(name))).collect()
}

#[cfg(test)]
mod tests {
    use windlass_core::{Draft, Output, TaskDraft};

    use super::*;

    fn rule(pattern: &str, queue: &str) -> Rule {
        Rule { pattern: pattern.to_owned(), queue: queue.into() }
    }

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        for (pattern, name, fits) in [
            ("etl.load", "etl.load", true),
            ("etl.load", "etl.loader", false),
            ("etl.*", "etl.load", true),
            ("*", "", true),
            ("*_gpu", "etl.render_gpu", true),
            ("etl.*_gpu", "etl._gpu", true),
            ("etl.*_gpu", "etl.render_gpu_2", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("?tl.lo??", "etl.load", true),
            ("etl.load?", "etl.load", false),
            ("größe.*", "größe.ä", true),
            ("", "etl.load", false),
        ] {
            assert_eq!(rule(pattern, "q").fits(name), fits, "{pattern} and {name}");
        }
    }

    #[test]
    fn the_first_rule_counts_then_the_task_then_the_workflow() {
        let draft = || {
            Draft::new("etl")
                .task(TaskDraft { queue: Some("own".into()), ..TaskDraft::new("a") })
                .task(TaskDraft::new("b_gpu"))
                .task(TaskDraft::new("c"))
                .output(Output::Nothing)
        };
        let definition = draft().check().unwrap();
        let queues = |routes: &Routes| -> Vec<Option<String>> {
            let of = |at| routes.queue(at).map(ToString::to_string);
            definition.indices().map(of).collect()
        };
        let plain = Routes::new(&definition, &[], |_| false);
        assert_eq!(**plain.spread(), [true, false, false]);
        assert_eq!(queues(&plain), [Some("own".to_owned()), None, None]);

        let rules = [rule("etl.*_gpu", "gpu"), rule("*.b*", "late"), rule("etl.a", "other")];
        let routed = Routes::new(&definition, &rules, |_| false);
        assert_eq!(**routed.spread(), [true, true, false]);
        assert_eq!(queues(&routed), [Some("other".to_owned()), Some("gpu".to_owned()), None]);

        let spread = Draft { spread: true, ..draft() }.check().unwrap();
        assert_eq!(**Routes::new(&spread, &[], |_| false).spread(), [true, true, true]);
        let staying = Routes::new(&spread, &rules, |at| at.get() == 1);
        assert_eq!(**staying.spread(), [true, false, true], "not even a rule sends it elsewhere");
        assert_eq!(queues(&staying), [Some("other".to_owned()), None, None]);
        let local = Draft::new("w").task(TaskDraft::new("a")).check().unwrap();
        assert!(!Routes::new(&local, &[], |_| false).any());
        assert_eq!(idle(&[rule("nothing.*", "q"), rule("w.*", "q")], &[&local]).len(), 1);
    }
}
