//! `#[task]` on a function that stands alone, to be composed with others later.
//!
//! The function stays what it is. Beside it comes a struct of the same name, which lives in the namespace of
//! types: so a path to the function is also a path to what `compose!` needs to know about it, through any
//! import. What the task asks of its neighbours becomes bounds, which are checked where it is composed.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Item, ItemFn, ext::IdentExt};

use crate::{
    complaint::Complaints,
    emit::{self, Surroundings, at, moved, plain_name},
    graph,
    parameter::{Kind, Parameter, Shape},
    task::{TaskFn, TaskOptions, same},
    workflow,
};

/// Expands the attribute. The author's function is emitted whatever is wrong with it.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    if workflow::is_read(&arguments) {
        return item;
    }
    let mut complaints = Complaints::default();
    let options = TaskOptions::read(arguments, &mut complaints);
    let function = match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Fn(function)) => function,
        _ => {
            complaints.about(
                &item,
                "`#[task]` goes on a function: `#[task] async fn load(…) -> Result<usize> { … }`",
            );
            let errors = complaints.into_tokens();
            return quote! { #item #errors };
        }
    };
    if let Some(name) = &options.name {
        let message = "a task that stands alone is known by its function's name: leave `name` out";
        complaints.at(name.span(), message);
    }
    let krate = workflow::krate(options.krate.as_ref());
    let task = TaskFn::read(&function, options, &mut complaints);
    graph::check_alone(&task, &mut complaints);
    own_name(&task, &mut complaints);
    let companion =
        if complaints.is_empty() { companion(&function, &task, &krate) } else { TokenStream::new() };
    let errors = complaints.into_tokens();
    quote! { #item #companion #errors }
}

fn own_name(task: &TaskFn, complaints: &mut Complaints) {
    let ident = &task.ident;
    for name in task.dependencies().into_iter().filter(|name| same(name, ident)) {
        complaints.about(name, format!("`{ident}` would wait for itself"));
    }
}

fn companion(function: &ItemFn, task: &TaskFn, krate: &TokenStream) -> TokenStream {
    let (ident, visibility) = (&task.ident, &function.vis);
    let (name, key) = (task.name(), key(&task.name()));
    let after = task.dependencies().into_iter().map(plain_name);
    let unconditional = task.is_unconditional();
    let value = task.value(krate);
    let given = match task.input() {
        Some(parameter) => {
            let stored = parameter.stored();
            quote! { #krate::__macro::Given<#stored> }
        }
        None => quote! { #krate::__macro::Nothing },
    };
    let stored = |name: &Ident| {
        let parameter = task.parameters.iter().find(|p| p.kind == Kind::Result && same(&p.name, name));
        parameter.map_or_else(TokenStream::new, |parameter| expected(task, parameter))
    };
    let around = Surroundings {
        krate,
        input: task.input().map_or_else(|| quote! { () }, Parameter::stored),
        value: &stored,
        items: item(task).map_or_else(TokenStream::new, |item| quote! { ::std::vec::Vec<#item> }),
        name: &plain_name,
    };
    let (parts, code) = (emit::parts(task, &around), emit::code(task, &around));
    let bounds = bounds(task, krate);
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, missing_docs)]
        #visibility struct #ident {}

        #[allow(clippy::all, clippy::pedantic, clippy::nursery, private_interfaces, private_bounds)]
        const _: () = {
            impl #krate::__macro::TaskItem for #ident {
                const NAME: &'static str = #name;
                const KEY: u64 = #key;
                const AFTER: &'static [&'static str] = &[#(#after),*];
                const UNCONDITIONAL: bool = #unconditional;
                type Value = #value;
                type Input = #given;

                fn parts() -> #krate::__macro::TaskParts {
                    #parts
                }

                fn code() -> #krate::__macro::TaskCode {
                    #code
                }
            }

            impl<__WindlassGraph> #krate::__macro::FitsIn<__WindlassGraph> for #ident
            where
                #(#bounds,)*
            {
            }
        };
    }
}

/// What the task asks of the graph that it is composed into, each at the name that asks for it.
fn bounds(task: &TaskFn, krate: &TokenStream) -> Vec<TokenStream> {
    let mut bounds: Vec<TokenStream> = task
        .dependencies()
        .into_iter()
        .map(|name| {
            let key = key(&plain_name(name));
            let parameter = task.parameters.iter().find(|p| p.kind == Kind::Result && same(&p.name, name));
            let value = parameter.map(|parameter| {
                let expected = expected(task, parameter);
                quote! { , Value = #expected }
            });
            let krate = moved(krate, name.span());
            quote_spanned! { at(name.span()) => __WindlassGraph: #krate::__macro::Has<#key #value> }
        })
        .collect();
    if let Some(source) = &task.options.for_each {
        let key = key(&plain_name(source));
        let krate = moved(krate, source.span());
        let element = item(task).map(|item| quote! { <Element = #item> });
        bounds.push(quote_spanned! { at(source.span()) =>
            <__WindlassGraph as #krate::__macro::Has<#key>>::Value: #krate::__macro::Elements #element
        });
    }
    bounds
}

/// The type of the dependency's result. Where the value is always there, an `Option` is its own.
fn expected(task: &TaskFn, parameter: &Parameter) -> TokenStream {
    if parameter.shape == Shape::Optional && !task.may_run_without(&parameter.name) {
        let ty = &parameter.ty;
        return quote! { #ty };
    }
    parameter.stored()
}

fn item(task: &TaskFn) -> Option<TokenStream> {
    task.parameters.iter().find(|parameter| parameter.kind == Kind::Item).map(Parameter::stored)
}

/// A number for a name, since a bound cannot hold text (FNV-1a).
fn key(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The name by which `compose!` tells two tasks apart.
pub(crate) fn last_name(path: &syn::Path) -> Option<Ident> {
    path.segments.last().map(|last| last.ident.unraw())
}
