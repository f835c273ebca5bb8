//! `compose! { name: "scoring", tasks: [fetch, score], output: score }`.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    LitStr, Path, Token, bracketed, parse::ParseStream, punctuated::Punctuated, spanned::Spanned, token,
};

use crate::{
    complaint::{Complaints, listed},
    duration,
    emit::{at, moved, option},
    options,
    spelling::did_you_mean,
    standalone::last_name,
    workflow::{self, Parts},
};

const KNOWN: [&str; 10] = [
    "name",
    "description",
    "tasks",
    "output",
    "version",
    "fail_fast",
    "durability",
    "timeout",
    "spread",
    "crate",
];

/// What stands between the braces.
#[derive(Default)]
struct Composition {
    name: Option<LitStr>,
    description: Option<LitStr>,
    version: Option<LitStr>,
    tasks: Vec<Path>,
    output: Option<Path>,
    fail_fast: bool,
    pipelined: bool,
    timeout: Option<Duration>,
    spread: bool,
    krate: Option<Path>,
}

impl Composition {
    fn read_one(&mut self, name: &Ident, input: ParseStream, complaints: &mut Complaints) -> syn::Result<()> {
        match name.to_string().as_str() {
            "name" => {
                let text = text(name, "\"scoring\"", input)?;
                options::check_name(&text, complaints);
                self.name = Some(text);
            }
            "description" => self.description = Some(text(name, "\"What it is for.\"", input)?),
            "version" => self.version = Some(text(name, "\"2\"", input)?),
            "tasks" => {
                let example = "[fetch, score]";
                colon(name, example, input)?;
                if !input.peek(token::Bracket) {
                    return Err(input.error(format!("`tasks` takes a list: `tasks: {example}`")));
                }
                let content;
                bracketed!(content in input);
                let paths =
                    Punctuated::<Path, Token![,]>::parse_terminated_with(&content, Path::parse_mod_style)?;
                self.tasks = paths.into_iter().collect();
            }
            "output" => {
                colon(name, "score", input)?;
                self.output = Some(input.call(Path::parse_mod_style)?);
            }
            "fail_fast" => self.fail_fast = true,
            "durability" => self.pipelined = workflow::pipelined(&text(name, "\"pipelined\"", input)?)?,
            "timeout" => self.timeout = Some(duration::parse(&text(name, "\"1h\"", input)?)?),
            "spread" => self.spread = true,
            "crate" => {
                colon(name, "windlass", input)?;
                self.krate = Some(input.call(Path::parse_mod_style)?);
            }
            other => unreachable!("`{other}` is not among the fields of a composition"),
        }
        Ok(())
    }

    fn check(&self, complaints: &mut Complaints) {
        let here = Span::call_site();
        if self.name.is_none() && complaints.is_empty() {
            complaints.at(here, "a workflow needs a name: `name: \"scoring\"`");
        }
        if self.tasks.is_empty() && complaints.is_empty() {
            complaints.at(here, "a workflow needs at least one task: `tasks: [fetch, score]`");
        }
        for (at, path) in self.tasks.iter().enumerate() {
            if self.tasks[..at].iter().any(|other| last_name(other) == last_name(path)) {
                let name = last_name(path).map(|name| name.to_string()).unwrap_or_default();
                complaints.about(
                    path,
                    format!("there are two tasks called `{name}`: records are found by the task's name"),
                );
            }
        }
        let Some(output) = &self.output else { return };
        if !self.tasks.iter().any(|path| last_name(path) == last_name(output)) {
            let names: Vec<String> =
                self.tasks.iter().filter_map(last_name).map(|name| name.to_string()).collect();
            let wanted = last_name(output).map(|name| name.to_string()).unwrap_or_default();
            let near = did_you_mean(&wanted, names.iter().map(String::as_str));
            let tasks = listed(names.iter().map(String::as_str));
            complaints.about(
                output,
                format!(
                    "`output` names `{wanted}`, which is not among the tasks{near}\nnote: tasks here: {tasks}"
                ),
            );
        }
    }

    fn emit(&self) -> TokenStream {
        let krate = workflow::krate(self.krate.as_ref());
        let tasks = &self.tasks;
        let places = 0..tasks.len();
        let graph = quote! { __WindlassComposed };
        let input = tasks.iter().fold(quote! { #krate::__macro::Nothing }, |joined, path| {
            let krate = moved(&krate, path.span());
            quote_spanned! { at(path.span()) =>
                <#joined as #krate::__macro::Join<<#path as #krate::__macro::TaskItem>::Input>>::Joined
            }
        });
        let output = match &self.output {
            Some(path) => {
                quote! { #krate::__macro::place(__WINDLASS_NODES, <#path as #krate::__macro::TaskItem>::NAME) }
            }
            None => quote! { #krate::__macro::leaf(__WINDLASS_NODES) },
        };
        let fits = tasks.iter().map(|path| {
            let krate = moved(&krate, path.span());
            quote_spanned! { at(path.span()) => #krate::__macro::fits::<#graph, #path>(); }
        });
        let parts = self.parts(&krate);
        quote! {{
            struct #graph;
            #(
                impl #krate::__macro::Has<{ <#tasks as #krate::__macro::TaskItem>::KEY }> for #graph {
                    type Value = <#tasks as #krate::__macro::TaskItem>::Value;
                }
                impl #krate::__macro::At<#places> for #graph {
                    type Value = <#tasks as #krate::__macro::TaskItem>::Value;
                }
            )*
            const __WINDLASS_NODES: &[#krate::__macro::Node] = &[#(#krate::__macro::Node::of::<#tasks>()),*];
            const _: () = #krate::__macro::check_nodes(__WINDLASS_NODES);
            const __WINDLASS_OUTPUT: usize = #output;
            type __WindlassInput = <#input as #krate::__macro::RunInput>::Input;
            type __WindlassOutput = <#graph as #krate::__macro::At<__WINDLASS_OUTPUT>>::Value;
            static __WINDLASS_WORKFLOW: ::std::sync::OnceLock<#krate::Workflow<__WindlassInput, __WindlassOutput>> =
                ::std::sync::OnceLock::new();
            ::core::clone::Clone::clone(__WINDLASS_WORKFLOW.get_or_init(|| {
                #(#fits)*
                #krate::__macro::build(
                    #parts,
                    ::std::vec![#((
                        <#tasks as #krate::__macro::TaskItem>::parts(),
                        <#tasks as #krate::__macro::TaskItem>::code(),
                    )),*],
                )
            }))
        }}
    }

    fn parts(&self, krate: &TokenStream) -> TokenStream {
        let name = self.name.as_ref().map(LitStr::value).unwrap_or_default();
        let parts = Parts {
            name: &name,
            description: self.description.as_ref(),
            version: self.version.as_ref(),
            output: Some(quote! { __WINDLASS_NODES[__WINDLASS_OUTPUT].name }),
            fail_fast: self.fail_fast,
            spread: self.spread,
            pipelined: self.pipelined,
            timeout: self.timeout,
        };
        parts.emit(krate)
    }
}

/// Expands the macro to an expression: a `Workflow` with the types of its tasks.
pub(crate) fn expand(tokens: TokenStream) -> TokenStream {
    let mut complaints = Complaints::default();
    let mut composition = Composition::default();
    options::read_all(tokens, &KNOWN, &mut complaints, |name, input, complaints| {
        composition.read_one(name, input, complaints)
    });
    composition.check(&mut complaints);
    if complaints.is_empty() {
        return composition.emit();
    }
    // The paths are used all the same, so that an editor still knows what they are.
    let tasks = &composition.tasks;
    let errors = complaints.into_tokens();
    let none = option(None);
    quote! {{
        #errors
        let _: ::core::option::Option<(#(#tasks,)*)> = #none;
        ::core::unreachable!()
    }}
}

fn colon(name: &Ident, example: &str, input: ParseStream) -> syn::Result<()> {
    let missing = || syn::Error::new(name.span(), format!("`{name}` needs a value: `{name}: {example}`"));
    if !input.peek(Token![:]) {
        return Err(missing());
    }
    input.parse::<Token![:]>()?;
    if input.is_empty() { Err(missing()) } else { Ok(()) }
}

fn text(name: &Ident, example: &str, input: ParseStream) -> syn::Result<LitStr> {
    colon(name, example, input)?;
    input.parse().map_err(|error| {
        syn::Error::new(error.span(), format!("`{name}` takes text in quotes: `{name}: {example}`"))
    })
}
