//! One task: its signature, its options and its code.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    GenericParam, Ident, ItemFn, LitStr, Path, ReturnType, Safety, Token, Type, ext::IdentExt,
    parse::ParseStream, spanned::Spanned, visit::Visit,
};

use crate::{
    complaint::Complaints,
    emit::{at, moved},
    fingerprint,
    graph::written,
    options,
    parameter::{Kind, Parameter, RESERVED, peel},
    retry::RetryOptions,
    rule::Rule,
};

const KNOWN: [&str; 14] = [
    "retry",
    "timeout",
    "deadline",
    "beat_timeout",
    "for_each",
    "limit",
    "when",
    "merge",
    "allow_failure",
    "queue",
    "isolation",
    "after",
    "name",
    "crate",
];

const ISOLATIONS: [&str; 3] = ["serializable", "repeatable_read", "read_committed"];

/// A function that was marked as a task.
pub(crate) struct TaskFn {
    pub(crate) ident: Ident,
    pub(crate) options: TaskOptions,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) runs: Runs,
    pub(crate) returns: Type,
    /// The fingerprint of its tokens.
    pub(crate) code: String,
}

/// Where a task's code runs.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Runs {
    /// An `async fn`, on the runtime.
    Async,
    /// A plain `fn`, on the blocking pool.
    Blocking,
}

/// What stands between the parentheses of `#[task(…)]`.
#[derive(Default)]
pub(crate) struct TaskOptions {
    pub(crate) name: Option<LitStr>,
    pub(crate) retry: RetryOptions,
    pub(crate) timeout: Option<Duration>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) beat_timeout: Option<Duration>,
    pub(crate) for_each: Option<Ident>,
    pub(crate) limit: Option<u32>,
    pub(crate) when: Option<Rule>,
    pub(crate) merge_deep: bool,
    pub(crate) allow_failure: bool,
    pub(crate) queue: Option<LitStr>,
    pub(crate) isolation: Option<Ident>,
    pub(crate) after: Vec<Ident>,
    pub(crate) krate: Option<Path>,
}

impl TaskOptions {
    /// Reads the options of a task.
    pub(crate) fn read(tokens: TokenStream, complaints: &mut Complaints) -> Self {
        let mut task = Self::default();
        options::read_all(tokens, &KNOWN, complaints, |name, input, complaints| {
            task.read_one(name, input, complaints)
        });
        task
    }

    fn read_one(&mut self, name: &Ident, input: ParseStream, complaints: &mut Complaints) -> syn::Result<()> {
        match name.to_string().as_str() {
            "retry" => self.retry = RetryOptions::read(name, input, complaints)?,
            "timeout" => self.timeout = Some(options::length(name, input)?),
            "deadline" => self.deadline = Some(options::length(name, input)?),
            "beat_timeout" => self.beat_timeout = Some(options::length(name, input)?),
            "for_each" => self.for_each = Some(options::task_name(name, input)?),
            "limit" => self.limit = Some(options::count(name, input)?),
            "when" => {
                options::equals(name, "failed(load)", input)?;
                self.when = Some(input.parse()?);
            }
            "merge" => {
                options::word(name, &["deep"], input)?;
                self.merge_deep = true;
            }
            "allow_failure" => self.allow_failure = true,
            "queue" => {
                let queue = options::text(name, "\"gpu\"", input)?;
                options::check_name(&queue, complaints);
                self.queue = Some(queue);
            }
            "isolation" => self.isolation = Some(options::word(name, &ISOLATIONS, input)?),
            "after" => self.after = options::task_names(name, input)?,
            "name" => {
                let text = options::text(name, "\"clean\"", input)?;
                options::check_name(&text, complaints);
                self.name = Some(text);
            }
            "crate" => {
                input.parse::<Token![=]>()?;
                self.krate = Some(input.call(Path::parse_mod_style)?);
            }
            other => unreachable!("`{other}` is not among the options of a task"),
        }
        Ok(())
    }
}

impl TaskFn {
    /// Reads a task from its function and the options of its attribute.
    ///
    /// Whatever can be read is read, so that one mistake does not hide the next.
    pub(crate) fn read(function: &ItemFn, options: TaskOptions, complaints: &mut Complaints) -> Self {
        let signature = &function.sig;
        let ident = signature.ident.clone();
        check_attributes(function, complaints);
        check_signature(function, "task", complaints);
        let parameters: Vec<_> =
            signature.inputs.iter().filter_map(|input| Parameter::read(&ident, input, complaints)).collect();
        let returns = return_type(function, "task", complaints);
        let runs = if signature.asyncness.is_some() { Runs::Async } else { Runs::Blocking };
        let task = Self { code: code(function), ident, options, parameters, runs, returns };
        task.check(complaints);
        task
    }

    fn check(&self, complaints: &mut Complaints) {
        let ident = &self.ident;
        let name = self.name();
        if RESERVED.contains(&name.as_str()) {
            let place = self.options.name.as_ref().map_or(ident.span(), LitStr::span);
            complaints.at(
                place,
                format!(
                    "a task cannot be called `{name}`, which means something else here\nnote: taken are {}",
                    RESERVED.join(", ")
                ),
            );
        }
        self.check_transaction(complaints);
        if self.options.for_each.is_none() {
            if let Some(item) = self.parameters.iter().find(|parameter| parameter.kind == Kind::Item) {
                let message = format!(
                    "`item` is one element of a `for_each`, and `{ident}` has none\nhelp: write `#[task(for_each = …)]` with \
                     the task whose result is a list"
                );
                complaints.about(&item.name, message);
            }
            if self.options.limit.is_some() {
                complaints.about(ident, format!("`limit` is for `for_each`, and `{ident}` has none"));
            }
        }
    }

    /// What a transaction asks of its task.
    fn check_transaction(&self, complaints: &mut Complaints) {
        let ident = &self.ident;
        let message = match (self.tx(), self.runs) {
            (Some(tx), Runs::Async) if tx.is_from("sqlite") => {
                "a transaction on SQLite is for a plain `fn`, which has the database for itself while it runs: leave \
                 `async` out"
            }
            (Some(tx), Runs::Blocking) if tx.is_from("postgres") => {
                "a transaction on PostgreSQL is for an `async fn`: write `async fn`, and `.await` its statements"
            }
            _ => "",
        };
        if let Some(tx) = self.tx().filter(|_| !message.is_empty()) {
            complaints.about(&tx.ty, message);
        }
        let Some(isolation) = &self.options.isolation else { return };
        match (self.tx(), self.runs) {
            (None, _) => complaints.about(
                isolation,
                format!("`isolation` is for a task with a transaction, and `{ident}` has no parameter `tx`"),
            ),
            (Some(_), Runs::Blocking) => complaints.about(
                isolation,
                "a transaction on SQLite has the database for itself: leave `isolation` out",
            ),
            (Some(_), Runs::Async) => {}
        }
    }

    /// The transaction, where the task asks for one.
    pub(crate) fn tx(&self) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.kind == Kind::Tx)
    }

    /// The name that records know the task by.
    pub(crate) fn name(&self) -> String {
        self.options.name.as_ref().map_or_else(|| self.ident.unraw().to_string(), LitStr::value)
    }

    /// What the task waits for, in the order in which it is read: `for_each`, `after`, then the parameters.
    pub(crate) fn dependencies(&self) -> Vec<&Ident> {
        let results = self.parameters.iter().filter(|parameter| parameter.kind == Kind::Result);
        let named =
            self.options.for_each.iter().chain(&self.options.after).chain(results.map(|result| &result.name));
        let mut dependencies: Vec<&Ident> = Vec::new();
        for name in named {
            if !dependencies.iter().any(|known| same(known, name)) {
                dependencies.push(name);
            }
        }
        dependencies
    }

    /// Where a dependency stands among the task's dependencies.
    pub(crate) fn place_of(&self, dependency: &Ident) -> usize {
        let dependencies = self.dependencies();
        dependencies.iter().position(|known| same(known, dependency)).unwrap_or(dependencies.len())
    }

    /// The run's input, where the task asks for it.
    pub(crate) fn input(&self) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.kind == Kind::Input)
    }

    /// Whether the task may run although this dependency left no value.
    pub(crate) fn may_run_without(&self, dependency: &Ident) -> bool {
        self.options.when.as_ref().is_some_and(|rule| rule.may_run_without(dependency))
    }

    /// Whether nothing but its dependencies decides whether the task runs.
    pub(crate) fn is_unconditional(&self) -> bool {
        self.options.when.as_ref().is_none_or(Rule::is_always)
    }

    /// The type of what one execution gives.
    pub(crate) fn result(&self, krate: &TokenStream) -> TokenStream {
        let returns = &self.returns;
        let krate = &moved(krate, returns.span());
        quote_spanned! { at(returns.span()) => <#returns as #krate::__macro::Returns>::Value }
    }

    /// The type that the task's dependents see.
    pub(crate) fn value(&self, krate: &TokenStream) -> TokenStream {
        let value = self.result(krate);
        let krate = &moved(krate, self.returns.span());
        match (&self.options.for_each, self.options.allow_failure) {
            (None, _) => value,
            (Some(_), false) => quote! { ::std::vec::Vec<#value> },
            (Some(_), true) => quote! { ::std::vec::Vec<#krate::Outcome<#value>> },
        }
    }
}

/// Whether two names are the same, written raw or not.
pub(crate) fn same(left: &Ident, right: &Ident) -> bool {
    left.unraw() == right.unraw()
}

fn check_attributes(function: &ItemFn, complaints: &mut Complaints) {
    for attribute in function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")) {
        let message = "a task cannot depend on `cfg`: runs that are in flight would lose it\nhelp: put the `cfg` inside \
                       the body, or on the whole workflow";
        complaints.about(attribute, message);
    }
}

/// What neither a task nor a flow can be.
pub(crate) fn check_signature(function: &ItemFn, noun: &str, complaints: &mut Complaints) {
    let signature = &function.sig;
    for parameter in &signature.generics.params {
        if !matches!(parameter, GenericParam::Lifetime(_)) {
            complaints.about(parameter, format!("a {noun} cannot be generic: write the type itself"));
        }
    }
    if let Safety::Unsafe(token) = &signature.safety {
        complaints
            .about(token, format!("a {noun} cannot be `unsafe`: the engine calls it whenever it is due"));
    }
    if let Some(abi) = &signature.abi {
        complaints.about(abi, format!("a {noun} is an ordinary Rust function: leave `extern` out"));
    }
    if let Some(variadic) = &signature.variadic {
        complaints.about(variadic, format!("a {noun} has a fixed list of parameters"));
    }
}

/// The type that the function of a task or a flow returns, or one in place of it that is no trouble.
pub(crate) fn return_type(function: &ItemFn, noun: &str, complaints: &mut Complaints) -> Type {
    let name = &function.sig.ident;
    let ReturnType::Type(_, ty) = &function.sig.output else {
        complaints.about(
            name,
            format!("`{name}` returns nothing\nhelp: a {noun} returns a `Result`: write `-> Result<()>`"),
        );
        return stand_in();
    };
    if is_surely_no_result(ty) {
        let message = format!(
            "`{name}` does not return a `Result`\nhelp: write `-> Result<{}>`, and wrap the value: `Ok(…)`",
            written(ty)
        );
        complaints.about(ty, message);
        return stand_in();
    }
    let mut borrowed = Borrowed::default();
    borrowed.visit_type(ty);
    if let Some(place) = borrowed.reference {
        let message = format!(
            "what `{name}` returns is recorded, so it cannot borrow\nhelp: return an owned value, such as `String` or `Vec<T>`"
        );
        complaints.at(place, message);
        return stand_in();
    }
    if let Some(place) = borrowed.opaque {
        complaints.at(place, format!("what `{name}` returns is recorded, so its type must have a name"));
        return stand_in();
    }
    (**ty).clone()
}

/// Whether a type cannot be a `Result`, whatever has been imported. Of others the compiler decides.
fn is_surely_no_result(ty: &Type) -> bool {
    const PLAIN: [&str; 20] = [
        "bool", "char", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128",
        "isize", "f32", "f64", "String", "Vec", "Option", "Box",
    ];
    match peel(ty) {
        Type::Tuple(_) | Type::Array(_) | Type::Slice(_) => true,
        Type::Path(path) => {
            path.path.segments.last().is_some_and(|last| PLAIN.iter().any(|plain| last.ident == plain))
        }
        _ => false,
    }
}

/// A type in place of one that was refused, so that it is not complained about twice.
fn stand_in() -> Type {
    Type::Verbatim(quote! { ::core::result::Result<(), ::std::string::String> })
}

/// Finds what a recorded type cannot contain.
#[derive(Default)]
struct Borrowed {
    reference: Option<Span>,
    opaque: Option<Span>,
}

impl Visit<'_> for Borrowed {
    fn visit_type_reference(&mut self, reference: &syn::TypeReference) {
        self.reference.get_or_insert(reference.span());
    }

    fn visit_type_impl_trait(&mut self, opaque: &syn::TypeImplTrait) {
        self.opaque.get_or_insert(opaque.span());
    }
}

/// The fingerprint of the function, without the attribute that made it a task and without its visibility.
pub(crate) fn code(function: &ItemFn) -> String {
    let attributes =
        function.attrs.iter().filter(|attribute| !is_task(attribute)).map(ToTokens::to_token_stream);
    let (signature, block) = (&function.sig, &function.block);
    fingerprint::of(quote! { #(#attributes)* #signature #block })
}

/// Whether an attribute is `#[task]`, under whatever path.
pub(crate) fn is_task(attribute: &syn::Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "task")
}
