//! A piece of work with a name, a time, and a way out when it fails.

use std::time::{Duration, Instant};

use crate::workspace::Workspace;

/// How a chore went, when it did not fail.
pub(crate) enum Outcome {
    /// It was done, and all is well.
    Done,
    /// It could not be done here, and need not be; why.
    LeftOut(String),
}

type Work<'w> = Box<dyn Fn(&Workspace) -> Result<Outcome, String> + 'w>;

/// One piece of work.
pub(crate) struct Chore<'w> {
    name: &'static str,
    way_out: &'static str,
    work: Work<'w>,
}

impl<'w> Chore<'w> {
    /// A chore; `way_out` tells whoever sees it fail what to do next.
    pub(crate) fn new(
        name: &'static str,
        way_out: &'static str,
        work: impl Fn(&Workspace) -> Result<Outcome, String> + 'w,
    ) -> Self {
        Self { name, way_out, work: Box::new(work) }
    }

    /// A chore that is one cargo command.
    pub(crate) fn cargo(name: &'static str, way_out: &'static str, arguments: &'w [&'w str]) -> Self {
        Self::new(name, way_out, move |workspace| {
            workspace.run(&mut workspace.cargo(arguments))?;
            Ok(Outcome::Done)
        })
    }
}

/// Does the chores one after the other, stops at the first that fails, and ends with a list of what was done
/// and how long it took.
pub(crate) fn do_all(workspace: &Workspace, chores: &[Chore<'_>]) -> Result<(), String> {
    let begin = Instant::now();
    let mut lines = Vec::new();
    for (index, chore) in chores.iter().enumerate() {
        println!("\n── {}/{} {}", index + 1, chores.len(), chore.name);
        let start = Instant::now();
        match (chore.work)(workspace) {
            Ok(Outcome::Done) => lines.push(format!("{:>9}  {}", shown(start.elapsed()), chore.name)),
            Ok(Outcome::LeftOut(why)) => {
                println!("left out: {why}");
                lines.push(format!(" left out  {}: {why}", chore.name));
            }
            Err(why) => {
                let after = shown(start.elapsed());
                return Err(format!("{}: {why}\nxtask: way out ({after} in): {}", chore.name, chore.way_out));
            }
        }
    }
    println!("\n{}\n{:>9}  all in all; everything passed", lines.join("\n"), shown(begin.elapsed()));
    Ok(())
}

fn shown(span: Duration) -> String {
    let seconds = span.as_secs();
    if seconds < 60 {
        format!("{:.1} s", span.as_secs_f64())
    } else {
        format!("{}m {:02}s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_first_failure_stops_the_rest_and_says_the_way_out() {
        let reached = Cell::new(false);
        let chores = [
            Chore::new("good", "", |_| Ok(Outcome::LeftOut("not here".into()))),
            Chore::new("bad", "turn back", |_| Err("a wall".into())),
            Chore::new("later", "", |_| {
                reached.set(true);
                Ok(Outcome::Done)
            }),
        ];
        let why = do_all(&Workspace::here(), &chores).expect_err("one of them fails");
        assert!(why.contains("bad: a wall") && why.contains("turn back"), "{why}");
        assert!(!reached.get());
    }

    #[test]
    fn long_times_are_shown_in_minutes() {
        assert_eq!(shown(Duration::from_millis(1_240)), "1.2 s");
        assert_eq!(shown(Duration::from_secs(125)), "2m 05s");
    }
}
