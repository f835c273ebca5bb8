//! `#[machine]`: a workflow of the methods of an `impl` block that handle states.

use std::collections::BTreeSet;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    Ident, ImplItem, ImplItemFn, ItemImpl, LitStr, Meta, Path, Token, Type, ext::IdentExt, spanned::Spanned,
};

use crate::{
    complaint::{Complaints, listed},
    duration, fingerprint,
    method::{Method, Takes},
    on::{Join, OnOptions},
    options,
    spelling::did_you_mean,
};

const KNOWN: [&str; 9] =
    ["state", "data", "initial", "terminal", "name", "description", "version", "timeout", "crate"];

/// What stands between the parentheses of `#[machine(…)]`.
#[derive(Default)]
struct MachineOptions {
    state: Option<Type>,
    data: Option<Type>,
    initial: Option<Ident>,
    terminal: Vec<Ident>,
    name: Option<LitStr>,
    description: Option<LitStr>,
    version: Option<LitStr>,
    timeout: Option<std::time::Duration>,
    krate: Option<Path>,
}

impl MachineOptions {
    fn read(tokens: TokenStream, complaints: &mut Complaints) -> Self {
        let mut machine = Self::default();
        options::read_all(tokens, &KNOWN, complaints, |name, input, complaints| {
            match name.to_string().as_str() {
                "state" => {
                    options::equals(name, "Order", input)?;
                    machine.state = Some(input.parse()?);
                }
                "data" => {
                    options::equals(name, "Cart", input)?;
                    machine.data = Some(input.parse()?);
                }
                "initial" => {
                    options::equals(name, "New", input)?;
                    let wrong = |error: syn::Error| {
                        syn::Error::new(
                            error.span(),
                            "`initial` takes the name of a state, without quotes: `initial = New`",
                        )
                    };
                    machine.initial = Some(input.call(Ident::parse_any).map_err(wrong)?);
                }
                "terminal" => {
                    machine.terminal = options::names(name, "[Shipped, Rejected]", "states", input)?
                }
                "name" => {
                    let text = options::text(name, "\"fulfilment\"", input)?;
                    options::check_name(&text, complaints);
                    machine.name = Some(text);
                }
                "description" => machine.description = Some(options::text(name, "\"…\"", input)?),
                "version" => machine.version = Some(options::text(name, "\"2\"", input)?),
                "timeout" => machine.timeout = Some(options::length(name, input)?),
                _ => {
                    input.parse::<Token![=]>()?;
                    machine.krate = Some(input.call(Path::parse_mod_style)?);
                }
            }
            Ok(())
        });
        machine
    }
}

/// A method that handles a state.
struct Handler {
    on: OnOptions,
    method: Method,
}

/// Expands `#[machine(…)]`.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let code = fingerprint::of(quote! { #arguments #item });
    let mut complaints = Complaints::default();
    let options = MachineOptions::read(arguments, &mut complaints);
    let mut block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(_) => {
            complaints.at(
                Span::call_site(),
                "`#[machine]` stands on an `impl` block: `#[machine(…)] impl Fulfilment { … }`",
            );
            let complaints = complaints.into_tokens();
            return quote! { #item #complaints };
        }
    };
    if let Some((path, _)) = &block.trait_ {
        complaints.about(
            path,
            "a machine is an `impl` block of its own, not one of a trait: `impl Fulfilment { … }`",
        );
        let complaints = complaints.into_tokens();
        return quote! { #block #complaints };
    }
    if !block.generics.params.is_empty() {
        complaints.about(
            &block.generics,
            "a machine has no parameters: its handlers are called by the engine, which knows one type",
        );
    }
    let handlers = read_handlers(&mut block, &mut complaints);
    let methods: Vec<Method> = block.items.iter().filter_map(as_method).map(Method::read).collect();
    check(&options, &handlers, &mut complaints);
    let workflow = emit(&options, &handlers, &methods, &block, &code, &mut complaints);
    match complaints.is_empty() {
        true => quote! { #block #workflow },
        false => {
            let complaints = complaints.into_tokens();
            quote! { #block #complaints }
        }
    }
}

fn as_method(item: &ImplItem) -> Option<&ImplItemFn> {
    match item {
        ImplItem::Fn(method) => Some(method),
        _ => None,
    }
}

/// Takes the attributes off the handlers, and reads them.
fn read_handlers(block: &mut ItemImpl, complaints: &mut Complaints) -> Vec<Handler> {
    let mut handlers = Vec::new();
    for item in &mut block.items {
        let ImplItem::Fn(function) = item else { continue };
        let Some(at) = function.attrs.iter().position(|attribute| attribute.path().is_ident("on")) else {
            continue;
        };
        let attribute = function.attrs.remove(at);
        let tokens = match attribute.meta {
            Meta::List(list) => list.tokens,
            other => {
                complaints
                    .about(other, "`#[on]` needs the state that it handles: `#[on(Paid, to = [Packed])]`");
                continue;
            }
        };
        let on = OnOptions::read(tokens, complaints);
        handlers.push(Handler { on, method: Method::read(function) });
    }
    handlers
}

/// Whether the states fit together, as far as they are named here.
fn check(options: &MachineOptions, handlers: &[Handler], complaints: &mut Complaints) {
    let here = Span::call_site();
    for (name, is_missing) in [
        ("state = Order", options.state.is_none()),
        ("data = Cart", options.data.is_none()),
        ("initial = New", options.initial.is_none()),
    ] {
        if is_missing {
            complaints.at(here, format!("`#[machine(…)]` needs `{name}`"));
        }
    }
    if options.terminal.is_empty() {
        complaints.at(here, "`#[machine(…)]` needs `terminal = […]`: the states that a run ends in");
    }
    let terminal: BTreeSet<String> = options.terminal.iter().map(ToString::to_string).collect();
    let mut handled: BTreeSet<String> = BTreeSet::new();
    for state in handlers.iter().filter_map(|handler| handler.on.state.as_ref()) {
        if terminal.contains(&state.to_string()) {
            complaints
                .about(state, format!("`{state}` is terminal: a run ends in it, and nothing handles it"));
        } else if !handled.insert(state.to_string()) {
            complaints.about(state, format!("`{state}` has two handlers: keep one"));
        }
    }
    let known: BTreeSet<&str> = handled.iter().chain(&terminal).map(String::as_str).collect();
    let led_to = handlers.iter().flat_map(|handler| &handler.on.to).chain(&options.initial);
    for state in led_to.filter(|state| !known.contains(state.to_string().as_str())) {
        let near = did_you_mean(&state.to_string(), known.iter().copied());
        complaints.about(
            state,
            format!(
                "`{state}` has no handler and is not terminal{near}\nnote: states here: {}",
                listed(known.iter().copied())
            ),
        );
    }
    if complaints.is_empty() {
        check_reachable(options, handlers, complaints);
    }
}

/// Whether a run can come to every state.
fn check_reachable(options: &MachineOptions, handlers: &[Handler], complaints: &mut Complaints) {
    let Some(initial) = &options.initial else { return };
    let mut reached = BTreeSet::from([initial.to_string()]);
    loop {
        let from =
            |state: &Option<Ident>| state.as_ref().is_some_and(|state| reached.contains(&state.to_string()));
        let next: Vec<String> = handlers
            .iter()
            .filter(|handler| from(&handler.on.state))
            .flat_map(|handler| handler.on.to.iter().map(ToString::to_string))
            .filter(|to| !reached.contains(to))
            .collect();
        if next.is_empty() {
            break;
        }
        reached.extend(next);
    }
    let states = handlers.iter().filter_map(|handler| handler.on.state.as_ref()).chain(&options.terminal);
    for state in states.filter(|state| !reached.contains(&state.to_string())) {
        complaints
            .about(state, format!("no run comes to `{state}`: no `to` on the way from `{initial}` has it"));
    }
}

fn emit(
    options: &MachineOptions,
    handlers: &[Handler],
    methods: &[Method],
    block: &ItemImpl,
    code: &str,
    complaints: &mut Complaints,
) -> TokenStream {
    let krate = options.krate.as_ref().map_or_else(|| quote! { ::windlass }, ToTokens::to_token_stream);
    let (Some(state), Some(data), Some(initial)) = (&options.state, &options.data, &options.initial) else {
        return TokenStream::new();
    };
    let machine = &block.self_ty;
    let context = Context { krate: &krate, machine, state, data, methods };
    let emitted: Vec<_> = handlers.iter().map(|handler| context.handler(handler, complaints)).collect();
    let all: Vec<String> = handlers
        .iter()
        .filter_map(|handler| handler.on.state.as_ref())
        .chain(&options.terminal)
        .map(|state| state.unraw().to_string())
        .collect();
    let terminal: Vec<String> = options.terminal.iter().map(|state| state.unraw().to_string()).collect();
    let named = handlers
        .iter()
        .flat_map(|handler| handler.on.state.iter().chain(&handler.on.to))
        .chain(&options.terminal)
        .map(|name| quote_spanned! { name.span() => let _ = <#state>::#name; });
    let name = options.name.as_ref().map_or_else(|| snake(machine), LitStr::value);
    let text = |text: &Option<LitStr>| match text {
        Some(text) => quote! { ::core::option::Option::Some(#text) },
        None => quote! { ::core::option::Option::None },
    };
    let (description, version) = (text(&options.description), text(&options.version));
    let timeout = some(options.timeout.map(|timeout| duration::emit(&krate, timeout)));
    let check = quote_spanned! { state.span() =>
        const _: () = #krate::__macro::check_states(
            <#state as #krate::machine::MachineState>::STATES,
            &[#(#all),*],
        );
    };
    quote! {
        #check

        #[allow(clippy::all, clippy::pedantic, clippy::nursery, dead_code, private_interfaces)]
        impl #machine {
            /// The workflow that this machine is: it takes the data to begin with, and gives the state and the data that
            /// a run ended with. Give the engine a value of this type as a resource.
            pub fn workflow() -> #krate::Workflow<#data, #krate::machine::Finished<#state, #data>> {
                #(#named)*
                #krate::__macro::machine(#krate::__macro::MachineParts {
                    flow: #krate::__macro::FlowParts {
                        name: #name,
                        description: #description,
                        version: #version,
                        timeout: #timeout,
                        code: #code,
                    },
                    initial: <#state>::#initial,
                    terminal: &[#(#terminal),*],
                    handlers: ::std::vec![#(#emitted),*],
                })
            }
        }
    }
}

fn some(value: Option<TokenStream>) -> TokenStream {
    match value {
        Some(value) => quote! { ::core::option::Option::Some(#value) },
        None => quote! { ::core::option::Option::None },
    }
}

/// What the code of a handler is emitted with.
struct Context<'a> {
    krate: &'a TokenStream,
    machine: &'a Type,
    state: &'a Type,
    data: &'a Type,
    methods: &'a [Method],
}

impl Context<'_> {
    fn handler(&self, handler: &Handler, complaints: &mut Complaints) -> TokenStream {
        let Self { krate, machine, state, data, .. } = self;
        let on = &handler.on;
        let body = self.body(handler, complaints);
        let name = on.state.as_ref().map(|state| state.unraw().to_string()).unwrap_or_default();
        let to = on.to.iter().map(|state| state.unraw().to_string());
        let retry = some(on.retry.as_ref().map(|retry| retry.emit(krate)));
        let timeout = some(on.timeout.map(|timeout| duration::emit(krate, timeout)));
        let poll = some(on.poll.as_ref().map(|(_, span)| duration::emit(krate, *span)));
        let breaker = some(on.breaker.as_ref().map(|breaker| breaker.emit(krate)));
        let rate = some(on.rate.map(|(times, per)| {
            let per = duration::emit(krate, per);
            quote! { #krate::__macro::RateParts { times: #times, per: #per } }
        }));
        quote! {
            {
                fn body<'a>(
                    machine: &'a #machine,
                    cx: &'a #krate::Flow,
                    data: &'a mut #data,
                    cursor: #krate::__macro::Value,
                ) -> #krate::__macro::Handled<'a, #krate::__macro::Move<#state>> {
                    let _ = &cursor;
                    ::std::boxed::Box::pin(async move { #body })
                }
                #krate::__macro::Handler {
                    state: #name,
                    to: &[#(#to),*],
                    retry: #retry,
                    timeout: #timeout,
                    poll: #poll,
                    breaker: #breaker,
                    rate: #rate,
                    body,
                }
            }
        }
    }

    /// What a handler does, as the inside of an `async` block.
    fn body(&self, handler: &Handler, complaints: &mut Complaints) -> TokenStream {
        let (krate, on, method) = (self.krate, &handler.on, &handler.method);
        let (ident, returned, state) = (&method.ident, method.returned(), self.state);
        let to = quote! { ::core::result::Result::Ok(#krate::__macro::Move::To(to)) };
        let awaited = on.router.is_none().then(|| quote_spanned! { returned => .await });
        // All of it stands where the method says what it returns: there another type is complained of.
        let answer = |ty: TokenStream, takes: &[(&str, Takes, TokenStream)], complaints: &mut Complaints| {
            let arguments = method.arguments(takes, complaints);
            let failure = quote! { #krate::__macro::TaskError::into_failure };
            quote_spanned! { returned =>
                let to: #ty = machine.#ident(#(#arguments),*)#awaited.map_err(#failure)?;
            }
        };
        let cx = ("cx", Takes::Flow, quote! { cx });
        let data = ("data", Takes::Anything, quote! { data });
        if on.router.is_some() {
            method.check_sync(complaints);
            let answer = answer(quote! { #state }, &[data], complaints);
            return quote! { let _ = cx; #answer #to };
        }
        method.check_async(complaints);
        if on.poll.is_some() {
            let answer = answer(quote! { #krate::machine::Poll<#state> }, &[cx, data], complaints);
            return quote! {
                #answer
                ::core::result::Result::Ok(match to {
                    #krate::machine::Poll::Ready(to) => #krate::__macro::Move::To(to),
                    #krate::machine::Poll::Again => #krate::__macro::Move::Again(#krate::__macro::Value::Null),
                })
            };
        }
        if on.stepped.is_some() {
            let cursor = ("cursor", Takes::Anything, quote! { &mut cursor });
            let answer =
                answer(quote! { #krate::machine::Progress<#state> }, &[cx, data, cursor], complaints);
            return quote! {
                let mut cursor = #krate::__macro::read_cursor(cursor)?;
                #answer
                ::core::result::Result::Ok(match to {
                    #krate::machine::Progress::Done(to) => #krate::__macro::Move::To(to),
                    #krate::machine::Progress::More => {
                        #krate::__macro::Move::Again(#krate::__macro::write_cursor(&cursor)?)
                    }
                })
            };
        }
        let limit = some(on.limit.as_ref().map(|(_, limit)| quote! { #limit }));
        let each = on.each_retry.as_ref().map(|(_, retry)| {
            let retry = retry.emit(krate);
            quote! { .retry(#krate::__macro::policy(#retry)) }
        });
        let results = match (&on.split, &on.batch) {
            (Some((_, branches)), _) => {
                let join = on.join.as_ref().map_or(Join::All, |(_, join)| *join).emit(krate);
                let branches: Vec<_> =
                    branches.iter().map(|branch| self.branch(branch, each.as_ref(), complaints)).collect();
                quote! { #krate::__macro::split(cx, ::std::vec![#(#branches),*], #join, #limit).await? }
            }
            (None, Some((_, methods))) => match methods.as_slice() {
                [load, item] => self.batch(load, item, each.as_ref(), &limit, complaints),
                // It was complained about.
                _ => TokenStream::new(),
            },
            (None, None) => {
                let answer = answer(quote! { #state }, &[cx, data], complaints);
                return quote! { #answer #to };
            }
        };
        let taken = ("results", Takes::Anything, quote! { results });
        let (ty, answer) = (self.data, answer(quote! { #state }, &[cx, data, taken], complaints));
        quote! {
            let results = {
                let data: &#ty = &*data;
                #results
            };
            #answer
            #to
        }
    }

    fn branch(&self, name: &Ident, each: Option<&TokenStream>, complaints: &mut Complaints) -> TokenStream {
        let krate = self.krate;
        let Some(method) = self.find(name, complaints) else { return TokenStream::new() };
        method.check_async(complaints);
        let (ident, text) = (&method.ident, name.unraw().to_string());
        let data = ("data", Takes::Anything, quote! { data });
        let work = if method.takes_flow() {
            let arguments = method.arguments(&[("cx", Takes::Flow, quote! { cx }), data], complaints);
            quote! {
                machine.#ident(#(#arguments),*).await.map_err(#krate::__macro::TaskError::into_failure)?
            }
        } else {
            let arguments = method.arguments(&[("cx", Takes::Cx, quote! { &step }), data], complaints);
            let call = quote! { async move { let _ = &step; machine.#ident(#(#arguments),*).await } };
            quote! { cx.step(#text, move |step: #krate::Cx| #call) #each.await? }
        };
        quote! {
            #krate::__macro::BranchWork {
                name: #text,
                begin: ::std::boxed::Box::new(move || {
                    ::std::boxed::Box::pin(async move { #krate::__macro::joined(#work) })
                }),
            }
        }
    }

    fn batch(
        &self,
        load: &Ident,
        item: &Ident,
        each: Option<&TokenStream>,
        limit: &TokenStream,
        complaints: &mut Complaints,
    ) -> TokenStream {
        let krate = self.krate;
        let (Some(loads), Some(handles)) = (self.find(load, complaints), self.find(item, complaints)) else {
            return TokenStream::new();
        };
        loads.check_async(complaints);
        handles.check_async(complaints);
        let step = ("cx", Takes::Cx, quote! { &step });
        let data = ("data", Takes::Anything, quote! { data });
        let one = ("item", Takes::Anything, quote! { item });
        let given = loads.arguments(&[step.clone(), data.clone()], complaints);
        let taken = handles.arguments(&[step, data, one], complaints);
        let (load_text, item_text) = (load.unraw().to_string(), item.unraw().to_string());
        quote! {
            let items: ::std::vec::Vec<_> = cx
                .step(#load_text, move |step: #krate::Cx| async move { let _ = &step; machine.#load(#(#given),*).await })
                #each
                .await?;
            let steps = items.iter().map(|item| {
                cx.step(#item_text, move |step: #krate::Cx| async move {
                    let _ = (&step, item);
                    machine.#item(#(#taken),*).await
                })
                #each
            });
            #krate::__macro::each(steps, #limit).await
        }
    }

    fn find(&self, name: &Ident, complaints: &mut Complaints) -> Option<&Method> {
        let found = self.methods.iter().find(|method| method.ident == *name);
        if found.is_none() {
            let names = self.methods.iter().map(|method| method.ident.to_string()).collect::<Vec<_>>();
            let near = did_you_mean(&name.to_string(), names.iter().map(String::as_str));
            complaints.about(name, format!("there is no method `{name}` in this `impl` block{near}"));
        }
        found
    }
}

/// The type's name as that of a workflow: `order_fulfilment`.
fn snake(machine: &Type) -> String {
    let Type::Path(path) = machine else { return "machine".to_owned() };
    let name = path.path.segments.last().map(|segment| segment.ident.unraw().to_string()).unwrap_or_default();
    let mut text = String::with_capacity(name.len() + 4);
    for (at, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && at > 0 {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(arguments: TokenStream, item: TokenStream, expected: &[&str]) {
        let text = expand(arguments, item).to_string();
        for part in expected {
            assert!(text.contains(part), "`{part}` is not in {text}");
        }
    }

    #[test]
    fn states_that_do_not_fit_together_are_all_named() {
        complaints(
            quote! { state = Order, data = u32, initial = New, terminal = [Shipped] },
            quote! {
                impl Shop {
                    #[on(New, to = [Shipped, Piad])]
                    async fn pay(&self, data: &mut u32) -> Result<Order> {}
                    #[on(Paid, to = [Shipped])]
                    async fn pack(&self, data: &mut u32) -> Result<Order> {}
                    #[on(Shipped, to = [New])]
                    async fn end(&self, data: &mut u32) -> Result<Order> {}
                    #[on(New, to = [Shipped])]
                    async fn twice(&self, data: &mut u32) -> Result<Order> {}
                }
            },
            &[
                "`Piad` has no handler and is not terminal",
                "did you mean `Paid`?",
                "`Shipped` is terminal",
                "`New` has two handlers",
            ],
        );
    }

    #[test]
    fn handlers_that_make_no_sense_are_refused_with_what_to_type() {
        complaints(
            quote! { state = Order, data = u32, initial = New, terminal = [Shipped] },
            quote! {
                impl Shop {
                    #[on(New, to = [Paid], router, poll = "1s")]
                    async fn pay(&self, cx: &Flow, data: &u32) -> Result<Order> {}
                    #[on(Paid, to = [Packed], split = [a, b, missing], join = quorum(4))]
                    async fn pack(&self, data: &mut u32, other: u8) -> Result<Order> {}
                    async fn a(&self) -> Result<()> {}
                    fn b(&self) -> Result<()> {}
                    #[on(Packed, to = [Shipped], join = most, limit = 3)]
                    async fn ship(&self, cx: &Cx, data: &mut u32) -> Result<Order> {}
                }
            },
            &[
                "a handler cannot be `poll` and `router` at once",
                "a router only decides",
                "4 branches can never complete: `split` has 3",
                "there is no method `missing`",
                "write `async fn b`",
                "its parameters are known by their names",
                "`join` cannot be `most`",
                "`limit` is for `split` and `batch`",
                "write `cx: &Flow`",
            ],
        );
    }

    #[test]
    fn a_machine_needs_its_states_its_data_and_an_impl_block() {
        let needed =
            ["needs `state = Order`", "needs `data = Cart`", "needs `initial = New`", "needs `terminal"];
        complaints(TokenStream::new(), quote! { impl Shop {} }, &needed);
        complaints(TokenStream::new(), quote! { fn nothing() {} }, &["stands on an `impl` block"]);
    }

    #[test]
    fn a_machine_is_called_after_its_type() {
        assert_eq!(snake(&syn::parse_quote! { shop::OrderFulfilment }), "order_fulfilment");
    }
}
