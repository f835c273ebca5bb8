//! What can be said about a whole graph before it is compiled.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;

use crate::{
    complaint::{Complaints, listed},
    parameter::Kind,
    spelling::did_you_mean,
    task::{TaskFn, same},
};

/// Finds everything that is wrong between the tasks of one workflow.
pub(crate) fn check(tasks: &[TaskFn], complaints: &mut Complaints) {
    duplicates(tasks, complaints);
    for task in tasks {
        unknown_names(task, tasks, complaints);
        check_alone(task, complaints);
    }
    cycle(tasks, complaints);
    inputs(tasks, complaints);
}

/// What can be said about a task without its neighbours.
pub(crate) fn check_alone(task: &TaskFn, complaints: &mut Complaints) {
    strangers_in_rule(task, complaints);
    missing_options(task, complaints);
}

/// The task of this name.
pub(crate) fn find<'a>(tasks: &'a [TaskFn], name: &Ident) -> Option<&'a TaskFn> {
    tasks.iter().find(|task| same(&task.ident, name))
}

fn duplicates(tasks: &[TaskFn], complaints: &mut Complaints) {
    for (at, task) in tasks.iter().enumerate() {
        let Some(other) = tasks[..at].iter().find(|other| other.name() == task.name()) else { continue };
        let place = task.options.name.as_ref().map_or(task.ident.span(), syn::LitStr::span);
        let name = task.name();
        let message = if same(&other.ident, &task.ident) {
            format!("there are two tasks called `{name}`")
        } else {
            format!("`{}` and `{}` are both called `{name}`", other.ident, task.ident)
        };
        complaints.at(place, format!("{message}: records are found by the task's name"));
    }
}

fn unknown_names(task: &TaskFn, tasks: &[TaskFn], complaints: &mut Complaints) {
    let names: Vec<String> = tasks.iter().map(|task| task.ident.unraw().to_string()).collect();
    let known = || names.iter().map(String::as_str);
    let ident = &task.ident;
    for dependency in task.dependencies() {
        if find(tasks, dependency).is_some() {
            continue;
        }
        let wanted = dependency.unraw().to_string();
        let parameter = task.parameters.iter().any(|p| p.kind == Kind::Result && same(&p.name, dependency));
        let help = match wanted.strip_prefix('_').filter(|rest| known().any(|name| name == *rest)) {
            Some(rest) => {
                format!("\nhelp: to wait for `{rest}` without its result, write `#[task(after = [{rest}])]`")
            }
            None => {
                let others = known().filter(|name| *ident != *name);
                did_you_mean(
                    &wanted,
                    others.chain(["input", "context", "cx", "item"].into_iter().filter(|_| parameter)),
                )
            }
        };
        let also = if parameter {
            "\nnote: also allowed: input, context, cx, tx, item (in for_each), Res<T>"
        } else {
            ""
        };
        complaints.about(
            dependency,
            format!(
                "`{ident}` asks for `{wanted}`, but no task has that name{help}\nnote: tasks here: {}{also}",
                names.join(", ")
            ),
        );
    }
}

fn strangers_in_rule(task: &TaskFn, complaints: &mut Complaints) {
    let Some(rule) = &task.options.when else { return };
    let dependencies = task.dependencies();
    for name in rule.tasks() {
        if dependencies.iter().any(|dependency| same(dependency, name)) {
            continue;
        }
        let known: Vec<String> = dependencies.iter().map(|name| name.unraw().to_string()).collect();
        let near = did_you_mean(&name.unraw().to_string(), known.iter().map(String::as_str));
        let help = if near.is_empty() {
            format!("\nhelp: wait for it with `after = [{name}]`, or take its result as a parameter")
        } else {
            near
        };
        let depends = if known.is_empty() {
            "it depends on nothing".to_owned()
        } else {
            format!("it depends on {}", listed(known.iter().map(String::as_str)))
        };
        complaints.about(
            name,
            format!(
                "the rule of `{}` names `{name}`, which it does not depend on: {depends}{help}",
                task.ident
            ),
        );
    }
}

/// A rule that may hold without a dependency's value needs a parameter that can say so.
fn missing_options(task: &TaskFn, complaints: &mut Complaints) {
    let ident = &task.ident;
    for parameter in task.parameters.iter().filter(|parameter| parameter.kind == Kind::Result) {
        let name = &parameter.name;
        if parameter.shape.may_be_absent() || !task.may_run_without(name) {
            continue;
        }
        let ty = written(&parameter.ty);
        complaints.about(
            &parameter.ty,
            format!(
                "the rule of `{ident}` may let it run when `{name}` has no result\n\
                 help: write `{name}: Option<{ty}>`, or `Outcome<{ty}>` to see what happened\n\
                 help: or add `succeeded({name})` to the rule: `when = all(succeeded({name}), …)`"
            ),
        );
    }
    if let Some(source) = task.options.for_each.as_ref().filter(|source| task.may_run_without(source)) {
        complaints.about(
            source,
            format!(
                "the rule of `{ident}` may let it run when `{source}` has no result, and then `for_each` has no elements\n\
                 help: add `succeeded({source})` to the rule: `when = all(succeeded({source}), …)`"
            ),
        );
    }
}

/// Where the walk through the graph stands with a task.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    New,
    Open,
    Done,
}

/// Reports the first cycle, at the name that closes it.
fn cycle(tasks: &[TaskFn], complaints: &mut Complaints) {
    let place = |name: &Ident| tasks.iter().position(|task| same(&task.ident, name));
    let mut marks = vec![Mark::New; tasks.len()];
    for root in 0..tasks.len() {
        if marks[root] != Mark::New {
            continue;
        }
        marks[root] = Mark::Open;
        let mut path = vec![(root, 0)];
        while let Some((at, next)) = path.last_mut() {
            let Some(name) = tasks[*at].dependencies().get(*next).copied() else {
                marks[*at] = Mark::Done;
                path.pop();
                continue;
            };
            *next += 1;
            let Some(dependency) = place(name) else { continue };
            match marks[dependency] {
                Mark::Done => {}
                Mark::New => {
                    marks[dependency] = Mark::Open;
                    path.push((dependency, 0));
                }
                Mark::Open => {
                    let from = path.iter().position(|(at, _)| *at == dependency).unwrap_or(0);
                    let mut names: Vec<String> =
                        path[from..].iter().map(|(at, _)| tasks[*at].ident.to_string()).collect();
                    names.push(tasks[dependency].ident.to_string());
                    complaints.about(
                        name,
                        format!(
                            "`{}` would wait for itself: {}\nnote: an arrow reads \"waits for\"",
                            tasks[dependency].ident,
                            names.join(" → ")
                        ),
                    );
                    return;
                }
            }
        }
    }
}

/// All tasks see the same input, so they must agree on its type.
fn inputs(tasks: &[TaskFn], complaints: &mut Complaints) {
    let mut inputs = tasks.iter().filter_map(|task| Some((task, task.input()?)));
    let Some((first, wanted)) = inputs.next() else { return };
    for (task, parameter) in inputs {
        if unqualified(parameter.stored()) != unqualified(wanted.stored()) {
            complaints.about(
                &parameter.ty,
                format!(
                    "`{}` takes the run's input as `{}`, but `{}` takes it as `{}`\n\
                     help: a run has one input: write the same type in both",
                    task.ident,
                    written(&parameter.ty),
                    first.ident,
                    written(&wanted.ty)
                ),
            );
        }
    }
}

/// The task whose result is the run's.
pub(crate) fn output<'a>(
    tasks: &'a [TaskFn],
    named: Option<&Ident>,
    place: Span,
    complaints: &mut Complaints,
) -> Option<&'a TaskFn> {
    if let Some(name) = named {
        let found = find(tasks, name);
        if found.is_none() {
            let names: Vec<String> = tasks.iter().map(|task| task.ident.unraw().to_string()).collect();
            let near = did_you_mean(&name.unraw().to_string(), names.iter().map(String::as_str));
            let message = format!(
                "`output` names `{name}`, but no task has that name{near}\nnote: tasks here: {}",
                names.join(", ")
            );
            complaints.about(name, message);
        }
        return found;
    }
    let leaves: Vec<&TaskFn> = tasks
        .iter()
        .filter(|task| {
            !tasks.iter().any(|other| other.dependencies().iter().any(|name| same(name, &task.ident)))
        })
        .filter(|task| task.is_unconditional())
        .collect();
    match leaves.as_slice() {
        [one] => Some(one),
        [] => {
            let message = "no task's result can be the run's: the tasks that nothing waits for have rules, and may be skipped";
            complaints.at(place, format!("{message}\nhelp: name one: `output = …`"));
            None
        }
        [first, ..] => {
            let names: Vec<String> = leaves.iter().map(|task| task.ident.to_string()).collect();
            complaints.at(
                place,
                format!(
                    "which result is the run's? Nothing waits for {}\nhelp: name one: `output = {}`",
                    listed(names.iter().map(String::as_str)),
                    first.ident
                ),
            );
            None
        }
    }
}

/// A type without the paths that lead to its names: `super::Source` may well be `Source`. Where it is not, the
/// compiler says so.
fn unqualified(ty: TokenStream) -> String {
    let mut words: Vec<String> = Vec::new();
    for token in ty {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => {}
            TokenTree::Ident(ident) => {
                let qualified = words.last().is_some_and(|last| last.starts_with(char::is_alphabetic));
                if qualified {
                    words.pop();
                }
                words.push(ident.to_string());
            }
            TokenTree::Group(group) => words.push(format!("({})", unqualified(group.stream()))),
            other => words.push(other.to_string()),
        }
    }
    words.join(" ")
}

/// A type as the author would write it.
pub(crate) fn written(ty: &impl ToTokens) -> String {
    let tokens: TokenStream = ty.to_token_stream();
    let mut text = tokens.to_string();
    for (from, to) in [(" < ", "<"), (" >", ">"), ("& ", "&"), (" :: ", "::"), (":: ", "::"), (" ,", ",")] {
        text = text.replace(from, to);
    }
    text
}
