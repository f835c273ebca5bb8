//! `#[flow] async fn checkout(cx: &Flow, order: Order) -> Result<Receipt> { … }`.
//!
//! The function stays what it is. Beside it comes a struct of the same name, which lives in the namespace of
//! types, so that a path to the function is also a path to its `workflow()`, through any import.

use std::time::Duration;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    Attribute, Expr, ExprLit, GenericParam, Item, ItemFn, Lit, LitStr, Meta, Path, Token, Type,
    ext::IdentExt, parse::ParseStream, spanned::Spanned,
};

use crate::{
    complaint::Complaints,
    duration,
    emit::{self, at, local, moved, option},
    flow_parameter::{Asks, FlowParameter},
    options,
    parameter::{RESERVED, owned},
    task, workflow,
};

const KNOWN: [&str; 5] = ["name", "version", "timeout", "keep", "crate"];

/// What stands between the parentheses of `#[flow(…)]`.
#[derive(Default)]
struct FlowOptions {
    name: Option<LitStr>,
    version: Option<LitStr>,
    timeout: Option<Duration>,
    /// Older versions of the function.
    keep: Vec<Path>,
    krate: Option<Path>,
}

impl FlowOptions {
    fn read(tokens: TokenStream, complaints: &mut Complaints) -> Self {
        let mut flow = Self::default();
        options::read_all(tokens, &KNOWN, complaints, |name, input, complaints| {
            flow.read_one(name, input, complaints)
        });
        flow
    }

    fn read_one(&mut self, name: &Ident, input: ParseStream, complaints: &mut Complaints) -> syn::Result<()> {
        match name.to_string().as_str() {
            "name" => {
                let text = options::text(name, "\"checkout\"", input)?;
                options::check_name(&text, complaints);
                self.name = Some(text);
            }
            "version" => self.version = Some(workflow::version(name, input)?),
            "timeout" => self.timeout = Some(options::length(name, input)?),
            "keep" => self.keep = options::paths(name, "[v1::checkout]", input)?,
            "crate" => {
                input.parse::<Token![=]>()?;
                self.krate = Some(input.call(Path::parse_mod_style)?);
            }
            other => unreachable!("`{other}` is not among the options of a flow"),
        }
        Ok(())
    }
}

/// Expands the attribute. The author's function is emitted whatever is wrong with it.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut complaints = Complaints::default();
    let options = FlowOptions::read(arguments, &mut complaints);
    let Ok(Item::Fn(function)) = syn::parse2::<Item>(item.clone()) else {
        complaints.about(
            &item,
            "`#[flow]` goes on a function: `#[flow] async fn checkout(cx: &Flow, …) -> Result<Receipt> { … }`",
        );
        let errors = complaints.into_tokens();
        return quote! { #item #errors };
    };
    let flow = FlowFn::read(&function, options, &mut complaints);
    // A type that is generic means nothing beside the function.
    let companion = function.sig.generics.params.is_empty().then(|| flow.companion(complaints.is_empty()));
    let errors = complaints.into_tokens();
    quote! { #item #companion #errors }
}

/// A function that was marked as durable.
struct FlowFn<'a> {
    function: &'a ItemFn,
    options: FlowOptions,
    parameters: Vec<FlowParameter<'a>>,
    returns: Type,
}

impl<'a> FlowFn<'a> {
    /// Reads the function. Whatever can be read is read, so that one mistake does not hide the next.
    fn read(function: &'a ItemFn, options: FlowOptions, complaints: &mut Complaints) -> Self {
        check_signature(function, complaints);
        let inputs = &function.sig.inputs;
        let parameters = inputs.iter().filter_map(|input| FlowParameter::read(input, complaints)).collect();
        let returns = task::return_type(function, "flow", complaints);
        let flow = Self { function, options, parameters, returns };
        flow.check_name(complaints);
        flow.check_parameters(complaints);
        flow
    }

    fn check_name(&self, complaints: &mut Complaints) {
        let name = self.name();
        if RESERVED.contains(&name.as_str()) {
            let place = self.options.name.as_ref().map_or(self.function.sig.ident.span(), LitStr::span);
            complaints.at(
                place,
                format!(
                    "a flow cannot be called `{name}`, which means something else\nnote: taken are {}",
                    RESERVED.join(", ")
                ),
            );
        }
    }

    fn check_parameters(&self, complaints: &mut Complaints) {
        let ident = &self.function.sig.ident;
        let mut flows = self.parameters.iter().filter(|parameter| parameter.asks == Asks::Flow);
        // One that was refused may have been meant to be it.
        if flows.next().is_none() && self.parameters.len() == self.function.sig.inputs.len() {
            let message = format!(
                "`{ident}` takes no `&Flow`\nhelp: write `cx: &Flow`: what it calls on `cx` is what lasts"
            );
            complaints.about(ident, message);
        }
        for second in flows {
            complaints.about(second.ty, format!("`{ident}` takes `&Flow` twice: once is enough"));
        }
        let mut inputs = self.parameters.iter().filter(|parameter| parameter.asks == Asks::Input);
        let Some(first) = inputs.next() else { return };
        for second in inputs {
            let message = format!(
                "`{ident}` has two inputs, `{}` and `{}`, and a run has one\nhelp: put them into one struct or a tuple; a \
                 resource is taken as `Res<T>`",
                first.name(),
                second.name()
            );
            complaints.about(second.pat, message);
        }
    }

    /// The name that runs are found by.
    fn name(&self) -> String {
        self.options.name.as_ref().map_or_else(|| self.function.sig.ident.unraw().to_string(), LitStr::value)
    }

    /// The type of the run's input.
    fn input(&self) -> TokenStream {
        let input = self.parameters.iter().find(|parameter| parameter.asks == Asks::Input);
        input.map_or_else(|| quote! { () }, |input| owned(input.ty))
    }

    /// What stands beside the function.
    ///
    /// When something is wrong, only the signature is real: the editor still knows the type at every use.
    fn companion(&self, sound: bool) -> TokenStream {
        let krate = &workflow::krate(self.options.krate.as_ref());
        let (ident, visibility, input) = (&self.function.sig.ident, &self.function.vis, self.input());
        let output = {
            let (returns, krate) = (&self.returns, moved(krate, self.returns.span()));
            quote_spanned! { at(returns.span()) => <#returns as #krate::__macro::Returns>::Value }
        };
        let body = if sound {
            self.body(krate, &input, &output)
        } else {
            quote! { ::core::unreachable!() }
        };
        let doc = format!("The durable function `{ident}`, as what an engine runs.");
        let made = format!("The workflow `{}`. It is made once; a copy is cheap.", self.name());
        quote! {
            #[doc = #doc]
            #[allow(non_camel_case_types, dead_code)]
            #visibility struct #ident {}

            #[allow(clippy::all, clippy::pedantic, clippy::nursery, dead_code, private_interfaces)]
            impl #ident {
                #[doc = #made]
                pub fn workflow() -> #krate::Workflow<#input, #output> { #body }
            }
        }
    }

    /// Makes the workflow.
    fn body(&self, krate: &TokenStream, input: &TokenStream, output: &TokenStream) -> TokenStream {
        let (parts, code) = (self.parts(krate), self.code(krate));
        let wants = self
            .parameters
            .iter()
            .filter_map(FlowParameter::resource)
            .map(|resource| moved(&quote! { #krate::__macro::Want::of::<#resource>() }, resource.span()));
        let kept = self.options.keep.iter().map(|old| {
            let old = quote_spanned! { at(old.span()) => <#old>::workflow() };
            quote! { ::core::convert::From::from(#old) }
        });
        let mut made = quote! { #krate::__macro::flow(#parts, ::std::vec![#(#wants),*], #code) };
        if !self.options.keep.is_empty() {
            made = quote! { #krate::__macro::keep(#made, ::std::vec![#(#kept),*]) };
        }
        quote! {
            static __WINDLASS_WORKFLOW: ::std::sync::OnceLock<#krate::Workflow<#input, #output>> =
                ::std::sync::OnceLock::new();
            ::core::clone::Clone::clone(__WINDLASS_WORKFLOW.get_or_init(|| #made))
        }
    }

    /// The expression for a `FlowParts`.
    fn parts(&self, krate: &TokenStream) -> TokenStream {
        let (name, code) = (self.name(), task::code(self.function));
        let description = option(description(&self.function.attrs).map(ToTokens::into_token_stream));
        let version = option(self.options.version.as_ref().map(ToTokens::to_token_stream));
        let timeout = option(self.options.timeout.map(|timeout| duration::emit(krate, timeout)));
        quote! {
            #krate::__macro::FlowParts {
                name: #name,
                description: #description,
                version: #version,
                timeout: #timeout,
                code: #code,
            }
        }
    }

    /// The expression for a `FlowCode`. The future owns the flow and lends it to the function.
    fn code(&self, krate: &TokenStream) -> TokenStream {
        let (call, flow, output) = (local("call"), local("flow"), local("output"));
        let arguments: Vec<Ident> =
            (0..self.parameters.len()).map(|n| local(&format!("argument_{n}"))).collect();
        let fetches = self.parameters.iter().zip(&arguments).map(|(parameter, argument)| {
            // The argument has the author's type and the parameter's place, where a mistake is then reported.
            let (ty, place) = (parameter.ty, parameter.pat.span());
            let (get, value) = match parameter.asks {
                Asks::Flow => (TokenStream::new(), quote! { &#flow }),
                Asks::Resource => {
                    let resource = parameter.resource();
                    (TokenStream::new(), quote! { #krate::__macro::resource::<#resource>(&#call)? })
                }
                Asks::Input => {
                    let (source, stored) = (local("input"), self.input());
                    let value = match ty {
                        Type::Reference(_) => quote! { &*#source },
                        _ => quote! { #krate::__macro::copied(&*#source) },
                    };
                    (quote! { let #source = #krate::__macro::input::<#stored>(&#call)?; }, value)
                }
            };
            let (get, value) = (moved(&get, place), moved(&value, place));
            quote! { #get let #argument: #ty = #value; }
        });
        let ident = &self.function.sig.ident;
        let ended =
            emit::ended(krate, &self.returns, &output, &quote! { ::core::default::Default::default() });
        // Errors about the whole future, such as one that is not `Send`, point at the function's name.
        quote_spanned! { at(ident.span()) => {
            fn __windlass_run(
                #call: #krate::__macro::Call,
                #flow: #krate::Flow,
            ) -> #krate::__macro::BoxFuture {
                ::std::boxed::Box::pin(async move {
                    #(#fetches)*
                    let #output = #ident(#(#arguments),*).await;
                    #ended
                })
            }
            ::std::sync::Arc::new(__windlass_run)
        } }
    }
}

fn check_signature(function: &ItemFn, complaints: &mut Complaints) {
    let signature = &function.sig;
    task::check_signature(function, "flow", complaints);
    for parameter in &signature.generics.params {
        if let GenericParam::Lifetime(lifetime) = parameter {
            complaints
                .about(lifetime, "a flow needs no lifetime of its own, since nothing it returns may borrow");
        }
    }
    if let Some(token) = &signature.constness {
        complaints.about(token, "a flow runs in an engine, never in the compiler: leave `const` out");
    }
    if signature.asyncness.is_none() {
        complaints.about(signature.fn_token, "write `async fn`: a flow awaits its steps");
    }
}

/// The first paragraph of the doc comment.
fn description(attributes: &[Attribute]) -> Option<String> {
    let texts = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let lines: Vec<String> = texts
        .flat_map(|text| text.split('\n').map(|line| line.trim().to_owned()).collect::<Vec<_>>())
        .collect();
    let paragraph = lines.split(String::is_empty).find(|lines| !lines.is_empty())?;
    Some(paragraph.join(" "))
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn complaints(arguments: TokenStream, function: &ItemFn) -> String {
        let mut complaints = Complaints::default();
        let options = FlowOptions::read(arguments, &mut complaints);
        FlowFn::read(function, options, &mut complaints);
        complaints.messages().join("\n")
    }

    #[test]
    fn the_first_paragraph_of_the_doc_comment_is_the_description() {
        let function: ItemFn = parse_quote! {
            ///
            /// Sells one thing,
            /// to one customer.
            ///
            /// It may take days.
            #[inline]
            async fn checkout() {}
        };
        assert_eq!(description(&function.attrs).as_deref(), Some("Sells one thing, to one customer."));
        let function: ItemFn = parse_quote! { #[doc(hidden)] async fn checkout() {} };
        assert_eq!(description(&function.attrs), None);
    }

    #[test]
    fn a_parameter_that_was_refused_does_not_also_count_as_missing() {
        let said = complaints(TokenStream::new(), &parse_quote! { async fn f(cx: &Cx) -> Result<()> {} });
        assert!(said.contains("write `cx: &Flow`") && !said.contains("takes no"), "{said}");
        let said = complaints(TokenStream::new(), &parse_quote! { async fn f(order: u32) -> Result<()> {} });
        assert!(said.contains("`f` takes no `&Flow`"), "{said}");
    }

    #[test]
    fn nothing_is_wrong_with_parameters_in_any_order() {
        let function = parse_quote! {
            async fn f(bank: Res<Bank>, (from, to): (u32, u32), _: &windlass::Flow, post: Res<Post>) -> Result<()> {}
        };
        let options = quote! { name = "checkout-2", version = "3", timeout = "30d", keep = [v1::checkout], crate = ::engine };
        assert_eq!(complaints(options, &function), "");
    }
}
