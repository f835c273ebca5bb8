//! `#[undo(load, retry(attempts = 10))]`: how a task of a `#[workflow]` module is undone.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::{
    Item, Meta, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
};

use crate::{
    complaint::Complaints,
    emit::{self, Surroundings},
    graph, options,
    parameter::{Kind, Shape},
    retry::RetryOptions,
    spelling::did_you_mean,
    task::{Runs, TaskFn, TaskOptions, is_task, same},
    workflow,
};

const KNOWN: [&str; 1] = ["retry"];

/// A function that says how a task is undone.
pub(crate) struct UndoFn {
    /// The task.
    undoes: Ident,
    /// The function, read like a task that waits for that one.
    pub(crate) function: TaskFn,
}

/// Expands the attribute by itself: what the workflow around it has read stays as it is.
pub(crate) fn expand(arguments: &TokenStream, item: TokenStream) -> TokenStream {
    if workflow::is_read(arguments) {
        return item;
    }
    let mut complaints = Complaints::default();
    complaints.at(
        Span::call_site(),
        "`#[undo]` goes on a function in a `#[workflow]` module, beside the task that it undoes",
    );
    let errors = complaints.into_tokens();
    quote! { #item #errors }
}

/// Reads the undos of a module, and leaves a mark on each that stops `#[undo]` from expanding on its own.
pub(crate) fn read(items: &mut [Item], complaints: &mut Complaints) -> Vec<UndoFn> {
    let mut undos = Vec::new();
    for item in items {
        let Item::Fn(function) = item else { continue };
        let Some(at) = function.attrs.iter().position(is_undo) else { continue };
        if function.attrs.iter().any(is_task) {
            complaints.about(&function.sig.ident, "a function is a task or an undo, and not both");
        }
        let arguments = match &function.attrs[at].meta {
            Meta::List(list) => list.tokens.clone(),
            Meta::Path(_) | Meta::NameValue(_) => TokenStream::new(),
        };
        let first = |input: ParseStream| {
            let undoes = input.call(Ident::parse_any)?;
            input.parse::<Option<Token![,]>>()?;
            Ok((undoes, input.parse::<TokenStream>()?))
        };
        match first.parse2(arguments) {
            Ok((undoes, rest)) => {
                let mut retry = RetryOptions::default();
                options::read_all(rest, &KNOWN, complaints, |name, input, complaints| {
                    retry = RetryOptions::read(name, input, complaints)?;
                    Ok(())
                });
                let options = TaskOptions { retry, ..TaskOptions::default() };
                let function = TaskFn::read(function, options, complaints);
                undos.push(UndoFn { undoes, function });
            }
            Err(_) => complaints
                .about(&function.attrs[at], "an undo begins with the task that it undoes: `#[undo(load)]`"),
        }
        let path = function.attrs[at].path();
        function.attrs[at] = syn::parse_quote! { #[#path(__windlass_read)] };
    }
    undos
}

/// Finds everything that is wrong between the undos and the tasks of one workflow.
pub(crate) fn check(undos: &[UndoFn], tasks: &[TaskFn], complaints: &mut Complaints) {
    for (at, undo) in undos.iter().enumerate() {
        let (undoes, ident) = (&undo.undoes, &undo.function.ident);
        if graph::find(tasks, undoes).is_none() {
            let names: Vec<String> = tasks.iter().map(|task| task.ident.unraw().to_string()).collect();
            let near = did_you_mean(&undoes.unraw().to_string(), names.iter().map(String::as_str));
            complaints.about(
                undoes,
                format!(
                    "`{ident}` undoes `{undoes}`, but no task has that name{near}\nnote: tasks here: {}",
                    names.join(", ")
                ),
            );
        }
        if let Some(other) = undos[..at].iter().find(|other| same(&other.undoes, undoes)) {
            let other = &other.function.ident;
            complaints.about(undoes, format!("`{undoes}` is undone by `{other}` already: it has one undo"));
        }
        if undo.function.runs == Runs::Blocking {
            complaints.about(ident, "an undo is an `async fn`: what blocks its thread cannot be stopped");
        }
        undo.check_parameters(complaints);
    }
}

impl UndoFn {
    fn check_parameters(&self, complaints: &mut Complaints) {
        let undoes = &self.undoes;
        for parameter in &self.function.parameters {
            let is_given = match parameter.kind {
                Kind::Result => same(&parameter.name, undoes),
                Kind::Input | Kind::Cx | Kind::Resource => true,
                Kind::Item | Kind::Context | Kind::Tx => false,
            };
            let name = &parameter.name;
            if !is_given {
                complaints.about(
                    name,
                    format!(
                        "an undo of `{undoes}` is not given `{name}`\nnote: it may ask for {undoes}, input, cx, Res<T>"
                    ),
                );
            } else if matches!(
                parameter.shape,
                Shape::Outcome | Shape::OutcomeBorrowed | Shape::OptionalBorrowed
            ) {
                complaints.about(
                    &parameter.ty,
                    format!("only what has completed is undone: take `{name}` as it is, or borrow it"),
                );
            }
        }
    }

    /// Whether this is how a task is undone.
    pub(crate) fn is_for(&self, task: &TaskFn) -> bool {
        same(&self.undoes, &task.ident)
    }

    /// What makes the code of a task that of one that can be undone.
    pub(crate) fn emit(&self, task: &TaskFn, krate: &TokenStream, input: &TokenStream) -> TokenStream {
        let value = |_: &Ident| task.result(krate);
        let (items, name) = (TokenStream::new(), |_: &Ident| task.name());
        let around = Surroundings { krate, input: input.clone(), value: &value, items, name: &name };
        let (retry, code) = (self.function.options.retry.emit(krate), emit::code(&self.function, &around));
        quote! { .undone_by(&#retry, #code) }
    }
}

/// Whether an attribute is `#[undo]`, under whatever path.
fn is_undo(attribute: &syn::Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "undo")
}
