//! The code that hands a task what it asks for, and the data that describes it.
//!
//! Everything emitted is a call into `__macro`, by absolute path. Local names are hygienic, so nothing here can
//! capture a name of the author's, nor be captured by one.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::{Type, ext::IdentExt, spanned::Spanned};

use crate::{
    duration,
    parameter::{Kind, Parameter, Shape},
    task::{Runs, TaskFn},
};

/// What a task needs to know about its neighbours.
pub(crate) struct Surroundings<'a> {
    /// The path to the `windlass` crate.
    pub(crate) krate: &'a TokenStream,
    /// The type of the run's input.
    pub(crate) input: TokenStream,
    /// The type of a dependency's result.
    pub(crate) value: &'a dyn Fn(&Ident) -> TokenStream,
    /// The type of the list that a `for_each` goes through.
    pub(crate) items: TokenStream,
    /// The name that records know a task by.
    pub(crate) name: &'a dyn Fn(&Ident) -> String,
}

/// The expression for the task's description: a `TaskParts`.
pub(crate) fn parts(task: &TaskFn, around: &Surroundings<'_>) -> TokenStream {
    let krate = around.krate;
    let options = &task.options;
    let (name, code) = (task.name(), &task.code);
    let after = task.dependencies().into_iter().map(around.name);
    let retry = options.retry.emit(krate);
    let rule =
        option(options.when.as_ref().map(|rule| rule.to_json(&around.name)).map(|json| quote! { #json }));
    let length = |length: Option<_>| option(length.map(|length| duration::emit(krate, length)));
    let (timeout, deadline, beat) =
        (length(options.timeout), length(options.deadline), length(options.beat_timeout));
    let for_each = option(options.for_each.as_ref().map(around.name).map(|name| quote! { #name }));
    let limit = option(options.limit.map(|limit| quote! { #limit }));
    let queue = option(options.queue.as_ref().map(|queue| quote! { #queue }));
    let merge = if options.merge_deep {
        quote! { Deep }
    } else {
        quote! { LastWins }
    };
    let allow_failure = options.allow_failure;
    quote! {
        #krate::__macro::TaskParts {
            name: #name,
            code: #code,
            after: &[#(#after),*],
            rule: #rule,
            retry: #retry,
            timeout: #timeout,
            deadline: #deadline,
            beat_timeout: #beat,
            for_each: #for_each,
            limit: #limit,
            merge: #krate::__macro::Merge::#merge,
            allow_failure: #allow_failure,
            queue: #queue,
        }
    }
}

/// The expression for the task's code: a `TaskCode`.
pub(crate) fn code(task: &TaskFn, around: &Surroundings<'_>) -> TokenStream {
    let krate = around.krate;
    let call = local("call");
    let body = body(task, around, &call);
    let wants = task.parameters.iter().filter_map(Parameter::resource).map(|resource| {
        quote_spanned! { at(resource.span()) => .wanting::<#resource>() }
    });
    let predicates = task.options.retry.predicates().map(|path| {
        quote_spanned! { at(path.span()) => .retried_when(#path) }
    });
    // Errors about the whole future, such as one that is not `Send`, point at the task's name.
    let place = at(task.ident.span());
    let code = match task.runs {
        Runs::Async if let Some(tx) = task.tx() => in_transaction(task, tx, krate, &call, &body),
        Runs::Blocking if let Some(tx) = task.tx() => {
            let (ty, handed) = (tx.referent(), local("tx"));
            let code = moved(&quote! { #krate::__macro::on_sqlite(__windlass_run) }, ty.span());
            quote_spanned! { place => {
                fn __windlass_run(#call: #krate::__macro::Call, #handed: &#ty) -> #krate::__macro::Body { #body }
                #code
            } }
        }
        Runs::Async => quote_spanned! { place => {
            fn __windlass_run(#call: #krate::__macro::Call) -> #krate::__macro::BoxFuture {
                ::std::boxed::Box::pin(async move { #body })
            }
            #krate::__macro::TaskCode::asynchronous(__windlass_run)
        } },
        Runs::Blocking => quote_spanned! { place => {
            fn __windlass_run(#call: #krate::__macro::Call) -> #krate::__macro::Body { #body }
            #krate::__macro::TaskCode::blocking(__windlass_run)
        } },
    };
    quote! { #code #(#wants)* #(#predicates)* }
}

/// The code of a task whose record is written in its own transaction.
fn in_transaction(
    task: &TaskFn,
    tx: &Parameter,
    krate: &TokenStream,
    call: &Ident,
    body: &TokenStream,
) -> TokenStream {
    let (ty, handed, place) = (tx.referent(), local("tx"), at(task.ident.span()));
    let isolation = task.options.isolation.as_ref().map(|word| {
        let level = match word.to_string().as_str() {
            "serializable" => quote! { Serializable },
            "repeatable_read" => quote! { RepeatableRead },
            _ => quote! { ReadCommitted },
        };
        quote! { .isolated(#krate::__macro::Isolation::#level) }
    });
    let code = moved(&quote! { as #krate::__macro::AsyncTransaction>::code }, ty.span());
    quote_spanned! { place => {
        fn __windlass_run(
            #call: #krate::__macro::Call,
            #handed: ::std::sync::Arc<#ty>,
        ) -> #krate::__macro::BoxFuture {
            ::std::boxed::Box::pin(async move { #body })
        }
        <#ty #code(__windlass_run) #isolation
    } }
}

fn body(task: &TaskFn, around: &Surroundings<'_>, call: &Ident) -> TokenStream {
    let krate = around.krate;
    let (context, output) = (local("context"), local("output"));
    let arguments: Vec<Ident> = (0..task.parameters.len()).map(|n| local(&format!("argument_{n}"))).collect();
    let fetches = task.parameters.iter().zip(&arguments).enumerate().map(|(n, (parameter, argument))| {
        let source = local(&format!("source_{n}"));
        fetch(task, parameter, around, &Locals { call, context: &context, argument, source: &source })
    });
    let shares = task.parameters.iter().any(|parameter| parameter.kind == Kind::Context);
    let changes = task.parameters.iter().any(Parameter::changes_context);
    let open = shares.then(|| {
        let mutability = changes.then(|| quote! { mut });
        quote! { let #mutability #context = #call.context(); }
    });
    let changed = if changes {
        quote! { #context.into_changes() }
    } else {
        quote! { ::core::default::Default::default() }
    };
    let ident = &task.ident;
    let wait = (task.runs == Runs::Async).then(|| quote! { .await });
    let listed = listed(task, around);
    let ended = ended(krate, &task.returns, &output, &changed);
    quote! {
        #listed
        #open
        #(#fetches)*
        let #output = #ident(#(#arguments),*)#wait;
        #ended
    }
}

/// The expression for the `Body` that follows from what the author's function returned.
pub(crate) fn ended(
    krate: &TokenStream,
    returns: &Type,
    output: &Ident,
    changed: &TokenStream,
) -> TokenStream {
    let (value, error) = (local("value"), local("error"));
    // What is wrong with the result points at its type.
    let returned = |tokens: TokenStream| moved(&tokens, returns.span());
    let unpacked = returned(quote! { #krate::__macro::Returns::into_result(#output) });
    let done = returned(quote! { #krate::__macro::done(#value, #changed) });
    let caught = returned(quote! { (&&&#krate::__macro::Caught::of(&#error)).verdict().failure(#error) });
    quote! {
        match #unpacked {
            ::core::result::Result::Ok(#value) => #done,
            ::core::result::Result::Err(#error) => {
                #[allow(unused_imports)]
                use #krate::__macro::{CaughtError as _, CaughtFailure as _, CaughtValue as _};
                ::core::result::Result::Err(#caught)
            }
        }
    }
}

/// Asks the compiler whether a `for_each` goes through a list, where no element is asked for.
fn listed(task: &TaskFn, around: &Surroundings<'_>) -> Option<TokenStream> {
    let source = task.options.for_each.as_ref()?;
    let asked = task.parameters.iter().any(|parameter| parameter.kind == Kind::Item);
    let (krate, items) = (around.krate, &around.items);
    (!asked && !items.is_empty())
        .then(|| moved(&quote! { #krate::__macro::assert_list::<#items>(); }, source.span()))
}

/// The hygienic names that one parameter's code uses.
struct Locals<'a> {
    call: &'a Ident,
    context: &'a Ident,
    argument: &'a Ident,
    source: &'a Ident,
}

/// The statements that fetch one argument.
///
/// They are placed at the parameter's name, and the argument is given the author's type: so a wrong type is
/// reported at the parameter, with what was expected and what the task would have been given.
fn fetch(
    task: &TaskFn,
    parameter: &Parameter,
    around: &Surroundings<'_>,
    locals: &Locals<'_>,
) -> TokenStream {
    let Locals { call, context, argument, source } = locals;
    let (krate, ty, borrowed) = (around.krate, &parameter.ty, parameter.shape == Shape::Borrowed);
    // A copy has a name before it is handed over, so that its own type is compared with the author's.
    let handed = |get: TokenStream, given: TokenStream| match borrowed {
        true => (quote! { let #source = #get; }, quote! { &*#given }),
        false => (
            quote! { let #source = #get; let #source = #krate::__macro::copied(&*#given); },
            quote! { #source },
        ),
    };
    let nothing = TokenStream::new;
    let (get, value) = match parameter.kind {
        Kind::Resource => {
            let resource = parameter.resource();
            (nothing(), quote! { #krate::__macro::resource::<#resource>(&#call)? })
        }
        Kind::Cx if borrowed => (nothing(), quote! { #call.cx() }),
        Kind::Cx => (nothing(), quote! { ::core::clone::Clone::clone(#call.cx()) }),
        Kind::Tx => {
            let handed = local("tx");
            (
                nothing(),
                if task.runs == Runs::Async {
                    quote! { &*#handed }
                } else {
                    quote! { #handed }
                },
            )
        }
        Kind::Context if parameter.changes_context() => (nothing(), quote! { &mut #context }),
        Kind::Context => (nothing(), quote! { &#context }),
        Kind::Input => {
            let stored = &around.input;
            handed(quote! { #krate::__macro::input::<#stored>(&#call)? }, quote! { #source })
        }
        Kind::Item => {
            let stored = &around.items;
            let element = quote! { #krate::__macro::element(&*#source, &#call)? };
            handed(quote! { #krate::__macro::items::<#stored>(&#call)? }, element)
        }
        Kind::Result => {
            let (stored, n) = ((around.value)(&parameter.name), task.place_of(&parameter.name));
            let (get, value) = result(task, parameter, krate, source);
            let get = quote! { #krate::__macro::#get::<#stored>(&#call, #n)? };
            match value {
                Some(value) => (quote! { let #source = #get; }, value),
                None => handed(get, quote! { #source }),
            }
        }
    };
    let (get, value) = (moved(&get, parameter.name.span()), moved(&value, parameter.name.span()));
    quote! { #get let #argument: #ty = #value; }
}

/// How a dependency's result is fetched, and how it is handed over where that is not a plain copy or borrow.
fn result(
    task: &TaskFn,
    parameter: &Parameter,
    krate: &TokenStream,
    source: &Ident,
) -> (TokenStream, Option<TokenStream>) {
    let value = local("value");
    let borrowed = quote! { &**#value };
    let copied = quote! { #krate::__macro::copied(#borrowed) };
    match parameter.shape {
        Shape::Owned | Shape::Borrowed => (quote! { dependency }, None),
        // Without a rule that lets it be absent, the value is there, and may be an `Option` of its own.
        Shape::Optional if !task.may_run_without(&parameter.name) => {
            (quote! { dependency }, Some(quote! { #krate::__macro::Handed::handed(&#source) }))
        }
        Shape::Optional => (quote! { optional }, Some(optional(source, &value, &copied))),
        Shape::OptionalBorrowed => (quote! { optional }, Some(optional(source, &value, &borrowed))),
        Shape::Outcome => (quote! { outcome }, Some(outcome(krate, source, &value, &copied))),
        Shape::OutcomeBorrowed => (quote! { outcome }, Some(outcome(krate, source, &value, &borrowed))),
    }
}

fn optional(source: &Ident, value: &Ident, given: &TokenStream) -> TokenStream {
    quote! {
        match &#source {
            ::core::option::Option::Some(#value) => ::core::option::Option::Some(#given),
            ::core::option::Option::None => ::core::option::Option::None,
        }
    }
}

fn outcome(krate: &TokenStream, source: &Ident, value: &Ident, given: &TokenStream) -> TokenStream {
    let (failure, skip) = (local("failure"), local("skip"));
    quote! {
        match &#source {
            #krate::Outcome::Completed(#value) => #krate::Outcome::Completed(#given),
            #krate::Outcome::Failed(#failure) => #krate::Outcome::Failed(::core::clone::Clone::clone(#failure)),
            #krate::Outcome::Skipped(#skip) => #krate::Outcome::Skipped(::core::clone::Clone::clone(#skip)),
            #krate::Outcome::Cancelled => #krate::Outcome::Cancelled,
        }
    }
}

/// `Some(…)` or `None`, by absolute path.
pub(crate) fn option(value: Option<TokenStream>) -> TokenStream {
    match value {
        Some(value) => quote! { ::core::option::Option::Some(#value) },
        None => quote! { ::core::option::Option::None },
    }
}

/// A local name that only emitted code can see.
pub(crate) fn local(name: &str) -> Ident {
    Ident::new(&format!("__windlass_{name}"), Span::mixed_site())
}

/// The same tokens at another place, so that an error about them points there.
pub(crate) fn moved(tokens: &TokenStream, place: Span) -> TokenStream {
    let move_one = |mut token: TokenTree| {
        if let TokenTree::Group(group) = &token {
            token = TokenTree::Group(Group::new(group.delimiter(), moved(&group.stream(), place)));
        }
        token.set_span(token.span().located_at(place));
        token
    };
    tokens.clone().into_iter().map(move_one).collect()
}

/// The author's place, with the hygiene of emitted code.
pub(crate) fn at(place: Span) -> Span {
    Span::mixed_site().located_at(place)
}

/// The name that a standalone task's dependency goes by.
pub(crate) fn plain_name(task: &Ident) -> String {
    task.unraw().to_string()
}
