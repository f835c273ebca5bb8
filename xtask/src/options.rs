//! The options, calls and metrics that the code has, and the pages that say what they mean: none is left out.

use std::collections::BTreeSet;

use crate::workspace::Workspace;

/// Where options are declared.
enum Declared {
    /// The public methods of this `impl` block that take `self`: what is set.
    Methods(&'static str),
    /// All public methods of this `impl` block: what is asked and told.
    Calls(&'static str),
    /// The texts of the array constant of this name.
    Words(&'static str),
    /// The texts in quotation marks that begin so.
    Texts(&'static str),
    /// The flags of a command line, in all files of a folder.
    Flags,
}

use Declared::{Calls, Flags, Methods, Texts, Words};

/// A page, the file whose options it has to name, and where they stand there.
const OPTIONS: &[(&str, &str, Declared)] = &[
    ("limits", "crates/engine/src/engine.rs", Methods("impl EngineBuilder {")),
    ("limits", "crates/macros/src/workflow.rs", Words("KNOWN")),
    ("limits", "crates/macros/src/compose.rs", Words("KNOWN")),
    ("limits", "crates/engine/src/authoring/builder.rs", Methods("impl WorkflowBuilder {")),
    ("limits", "crates/macros/src/task.rs", Words("KNOWN")),
    ("limits", "crates/engine/src/authoring/task.rs", Methods("impl Task {")),
    ("limits", "crates/macros/src/flow.rs", Words("KNOWN")),
    ("limits", "crates/macros/src/machine.rs", Words("KNOWN")),
    ("limits", "crates/macros/src/on.rs", Words("KNOWN")),
    ("limits", "crates/macros/src/trigger.rs", Words("KNOWN")),
    ("limits", "crates/engine/src/trigger/definition.rs", Methods("impl Trigger {")),
    ("limits", "crates/engine/src/flow/child.rs", Methods("impl<'f, O> ChildWait<'f, O> {")),
    ("limits", "crates/sqlite/src/location.rs", Words("OPTIONS")),
    ("limits", "crates/sqlite/src/options.rs", Methods("impl SqliteOptions {")),
    ("limits", "crates/engine/src/guard/breaker.rs", Methods("impl CircuitBreaker {")),
    ("tasks", "crates/macros/src/retry.rs", Words("KNOWN")),
    ("tasks", "crates/macros/src/retry.rs", Words("CONDITIONS")),
    ("flows", "crates/engine/src/flow/step.rs", Methods("impl<'f, T> Step<'f, T> {")),
    ("starting", "crates/engine/src/start.rs", Methods("impl<O> Start<O> {")),
    ("starting", "crates/engine/src/runs.rs", Methods("impl Runs {")),
    ("schedules", "crates/engine/src/schedule/builder.rs", Methods("impl ScheduleBuilder {")),
    ("batches", "crates/engine/src/batch/builder.rs", Methods("impl BatchBuilder {")),
    ("queues", "crates/engine/src/queues.rs", Methods("impl QueueSetup {")),
    ("limits", "crates/core/src/retention.rs", Methods("impl Retention {")),
    ("postgres", "crates/postgres/src/options.rs", Methods("impl PostgresOptions {")),
    ("postgres", "crates/postgres/src/location.rs", Words("WAYS")),
    ("postgres", "crates/postgres/src/location.rs", Words("USES")),
    ("postgres", "crates/postgres/src/location.rs", Words("DRIVERS")),
    ("safety", "crates/server/src/api.rs", Methods("impl Api {")),
    ("tenants", "crates/engine/src/tenants.rs", Calls("impl Tenants {")),
    ("tenants", "crates/engine/src/tenants.rs", Methods("impl OpenTenants {")),
    ("testing", "crates/engine/src/testing.rs", Calls("impl Lab {")),
    ("flows", "crates/engine/src/flow/mod.rs", Calls("impl Flow {")),
    ("tasks", "crates/engine/src/cx.rs", Calls("impl Cx {")),
    ("schedules", "crates/engine/src/schedule/handle.rs", Calls("impl ScheduleHandle {")),
    ("schedules", "crates/core/src/schedule/backoff.rs", Methods("impl Backoff {")),
    ("observing", "crates/engine/src/metric.rs", Texts("windlass_")),
    ("command-line", "crates/cli/src", Flags),
];

/// Names every option that its page does not.
pub(crate) fn check(workspace: &Workspace) -> Result<(), String> {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (page, source, declared) in OPTIONS {
        let page = format!("docs/{page}.md");
        let text = workspace.text(&page)?;
        let named = named(&text);
        let mut options = Vec::new();
        let files =
            if source.ends_with(".rs") { vec![source.into()] } else { workspace.files(source, ".rs")? };
        for file in files {
            options.extend(declared.options(&workspace.text(file)?));
        }
        if options.is_empty() {
            wrong
                .push(format!("{source} has no options where they are looked for: see xtask/src/options.rs"));
        }
        count += options.len();
        let missing = options.iter().filter(|option| !named.contains(option.as_str()));
        wrong.extend(missing.map(|option| format!("{page} does not name `{option}` of {source}")));
    }
    if wrong.is_empty() {
        println!("{count} options, all of them on their pages");
        Ok(())
    } else {
        Err(wrong.join("; "))
    }
}

impl Declared {
    fn options(&self, source: &str) -> Vec<String> {
        match self {
            Methods(block) => methods(source, block, &["self", "mut self"]),
            Calls(block) => methods(source, block, &["self", "mut self", "&self", "&mut self"]),
            Words(name) => {
                let array = source.split_once(&format!("const {name}: [&str; ")).map_or("", |(_, rest)| rest);
                let array = array.split("];").next().unwrap_or_default();
                array.split('"').skip(1).step_by(2).map(str::to_owned).collect()
            }
            Texts(beginning) => {
                let texts = source.split('"').skip(1).step_by(2);
                texts.filter(|text| text.starts_with(beginning)).map(str::to_owned).collect()
            }
            Flags => {
                let flags = source.split("#[arg(long").skip(1).filter_map(|rest| {
                    let field = rest.lines().nth(1)?.trim().trim_start_matches("pub(crate) ");
                    Some(format!("--{}", field.split_once(':')?.0.replace('_', "-")))
                });
                flags.collect()
            }
        }
    }
}

/// The public methods of an `impl` block whose first argument is one of these.
fn methods(source: &str, block: &str, first: &[&str]) -> Vec<String> {
    let body = source.split_once(&format!("\n{block}")).map_or("", |(_, rest)| rest);
    let body = body.split("\n}\n").next().unwrap_or_default();
    let shown = body.split("\n    }\n").filter(|text| !text.contains("#[doc(hidden)]"));
    let methods = shown.filter_map(|text| {
        let rest = ["fn ", "const fn ", "async fn "]
            .iter()
            .find_map(|kind| Some(text.split_once(&format!("\n    pub {kind}"))?.1))?;
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let arguments = rest.get(name.len()..)?.split_once('(')?.1.trim_start();
        first.iter().any(|first| arguments.starts_with(first)).then_some(name)
    });
    methods.collect()
}

/// The names in a page's code spans.
fn named(page: &str) -> BTreeSet<&str> {
    let spans = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let names = spans.flat_map(|span| span.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')));
    names.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
const KNOWN: [&str; 2] =
    ["name", "crate"];
impl Builder {
    pub fn new() -> Self {
        Self
    }

    pub fn slots(mut self, slots: usize) -> Self {
        self
    }

    #[doc(hidden)]
    pub fn in_parts(mut self) -> Self {
        self
    }

    pub const fn wait<T: Into<Duration>>(self, wait: T) -> Self {
        self
    }

    pub async fn ask(&self) {
    }
}
struct Args {
    #[arg(long, default_value = "1")]
    dry_run: bool,
}
"#;

    #[test]
    fn options_are_found_where_they_are_declared() {
        assert_eq!(Methods("impl Builder {").options(SOURCE), ["slots", "wait"]);
        assert_eq!(Calls("impl Builder {").options(SOURCE), ["slots", "wait", "ask"]);
        assert_eq!(Words("KNOWN").options(SOURCE), ["name", "crate"]);
        assert_eq!(Texts("cra").options(SOURCE), ["crate"]);
        assert_eq!(Flags.options(SOURCE), ["--dry-run"]);
    }

    #[test]
    fn a_page_names_what_stands_in_its_code_spans() {
        let named = named("Says `slots(n)`, `?wait=10` and `--dry-run`, but not crate.");
        assert!(["slots", "wait", "--dry-run"].iter().all(|name| named.contains(name)));
        assert!(!named.contains("crate"));
    }
}
