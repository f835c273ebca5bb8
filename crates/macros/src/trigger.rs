//! `#[trigger(every = "5s", starts = etl)] async fn new_file(inbox: Res<Inbox>) -> Result<Fire<Source>> { … }`.
//!
//! The function stays what it is. Beside it comes a struct of the same name, which lives in the namespace of
//! types, so that a path to the function is also a path to its `trigger()`, through any import.

use std::time::Duration;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    FnArg, GenericParam, Item, ItemFn, LitStr, Path, ReturnType, Token, Type, ext::IdentExt,
    parse::ParseStream, spanned::Spanned,
};

use crate::{
    complaint::Complaints,
    duration,
    emit::{at, local, moved},
    graph::written,
    options,
    parameter::{generic, peel},
    task, workflow,
};

const KNOWN: [&str; 10] =
    ["every", "cron", "timezone", "starts", "timeout", "once", "concurrent", "queue", "name", "crate"];

/// What stands between the parentheses of `#[trigger(…)]`.
#[derive(Default)]
struct TriggerOptions {
    every: Option<(Ident, Duration)>,
    cron: Option<(Ident, LitStr)>,
    timezone: Option<(Ident, LitStr)>,
    starts: Option<Path>,
    timeout: Option<Duration>,
    is_once: bool,
    is_concurrent: bool,
    queue: Option<LitStr>,
    name: Option<LitStr>,
    krate: Option<Path>,
}

impl TriggerOptions {
    fn read(tokens: TokenStream, complaints: &mut Complaints) -> Self {
        let mut trigger = Self::default();
        options::read_all(tokens, &KNOWN, complaints, |name, input, complaints| {
            trigger.read_one(name, input, complaints)
        });
        trigger
    }

    fn read_one(&mut self, name: &Ident, input: ParseStream, complaints: &mut Complaints) -> syn::Result<()> {
        match name.to_string().as_str() {
            "every" => self.every = Some((name.clone(), options::length(name, input)?)),
            "cron" => self.cron = Some((name.clone(), options::text(name, "\"0 2 * * *\"", input)?)),
            "timezone" => {
                self.timezone = Some((name.clone(), options::text(name, "\"Europe/Paris\"", input)?));
            }
            "starts" => {
                options::equals(name, "etl", input)?;
                let wrong = |error: syn::Error| {
                    let message = "`starts` takes the path of a workflow, without quotes: `starts = etl`";
                    syn::Error::new(error.span(), message)
                };
                self.starts = Some(input.call(Path::parse_mod_style).map_err(wrong)?);
            }
            "timeout" => self.timeout = Some(options::length(name, input)?),
            "once" => self.is_once = true,
            "concurrent" => self.is_concurrent = true,
            "queue" => self.queue = Some(options::text(name, "\"imports\"", input)?),
            "name" => {
                let text = options::text(name, "\"new-file\"", input)?;
                options::check_name(&text, complaints);
                self.name = Some(text);
            }
            "crate" => {
                input.parse::<Token![=]>()?;
                self.krate = Some(input.call(Path::parse_mod_style)?);
            }
            other => unreachable!("`{other}` is not among the options of a trigger"),
        }
        Ok(())
    }

    fn check(&self, function: &ItemFn, complaints: &mut Complaints) {
        let ident = &function.sig.ident;
        match (&self.every, &self.cron) {
            (None, None) => complaints.about(
                ident,
                format!(
                    "`{ident}` does not say when it is asked\nhelp: write `every = \"5s\"` or `cron = \"0 2 * * *\"`"
                ),
            ),
            (Some(_), Some((name, _))) => {
                complaints.about(name, format!("`{ident}` says when it is asked in two ways: leave one out"));
            }
            _ => {}
        }
        if let Some((name, _)) = self.every.as_ref().filter(|(_, period)| period.is_zero()) {
            complaints.about(name, "an interval of nothing would never let go: write `every = \"5s\"`");
        }
        if let (Some((name, _)), None) = (&self.timezone, &self.cron) {
            complaints.about(name, "`timezone` is for `cron`: an interval is the same in every zone");
        }
        if self.starts.is_none() {
            let message = format!(
                "`{ident}` does not say what it starts\nhelp: write `starts = etl`, for the workflow of `etl`"
            );
            complaints.about(ident, message);
        }
    }
}

/// Expands the attribute. The author's function is emitted whatever is wrong with it.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut complaints = Complaints::default();
    let options = TriggerOptions::read(arguments, &mut complaints);
    let Ok(Item::Fn(function)) = syn::parse2::<Item>(item.clone()) else {
        complaints.about(
            &item,
            "`#[trigger]` goes on a function: `#[trigger(every = \"5s\", starts = etl)] async fn new_file() -> Result<Fire<Source>> \
             { … }`",
        );
        let errors = complaints.into_tokens();
        return quote! { #item #errors };
    };
    let trigger = TriggerFn::read(&function, options, &mut complaints);
    let companion = function.sig.generics.params.is_empty().then(|| trigger.companion(complaints.is_empty()));
    let errors = complaints.into_tokens();
    quote! { #item #companion #errors }
}

/// A function that was marked as a trigger.
struct TriggerFn<'a> {
    function: &'a ItemFn,
    options: TriggerOptions,
    /// The resources that it takes, in their order.
    resources: Vec<&'a Type>,
    returns: Type,
}

impl<'a> TriggerFn<'a> {
    fn read(function: &'a ItemFn, options: TriggerOptions, complaints: &mut Complaints) -> Self {
        check_signature(function, complaints);
        options.check(function, complaints);
        let resources =
            function.sig.inputs.iter().filter_map(|argument| resource(argument, complaints)).collect();
        let returns = returns(function, complaints);
        Self { function, options, resources, returns }
    }

    fn name(&self) -> String {
        self.options.name.as_ref().map_or_else(|| self.function.sig.ident.unraw().to_string(), LitStr::value)
    }

    /// What stands beside the function. When something is wrong, only the signature is real.
    fn companion(&self, sound: bool) -> TokenStream {
        let krate = &workflow::krate(self.options.krate.as_ref());
        let (ident, visibility) = (&self.function.sig.ident, &self.function.vis);
        let body = match &self.options.starts {
            Some(starts) if sound => self.body(krate, starts),
            _ => quote! { ::core::unreachable!() },
        };
        let doc = format!("The trigger `{ident}`, as what an engine asks.");
        let made = format!("The trigger `{}`.", self.name());
        quote! {
            #[doc = #doc]
            #[allow(non_camel_case_types, dead_code)]
            #visibility struct #ident {}

            #[allow(clippy::all, clippy::pedantic, clippy::nursery, dead_code, private_interfaces)]
            impl #ident {
                #[doc = #made]
                pub fn trigger() -> #krate::trigger::Trigger { #body }
            }
        }
    }

    fn body(&self, krate: &TokenStream, starts: &Path) -> TokenStream {
        let (ident, name, cx) = (&self.function.sig.ident, self.name(), local("cx"));
        let arguments: Vec<Ident> =
            (0..self.resources.len()).map(|n| local(&format!("argument_{n}"))).collect();
        let fetches = self.resources.iter().zip(&arguments).map(|(resource, argument)| {
            let fetch = quote! { let #argument = #cx.res::<#resource>()?; };
            moved(&fetch, resource.span())
        });
        let target = quote_spanned! { at(starts.span()) => #starts::workflow() };
        // A mistake in what it answers is told where that is written.
        let place = at(self.returns.span());
        let answer = {
            let krate = moved(krate, self.returns.span());
            quote_spanned! { place => ::core::result::Result::<_, #krate::Failure>::Ok(#ident(#(#arguments),*).await?) }
        };
        let settings = self.settings(krate);
        let wants = self.resources.iter().map(|resource| quote! { .wants::<#resource>() });
        let made = quote! {
            #krate::trigger::Trigger::new(#name, #target, |#cx: #krate::trigger::TriggerCx| async move {
                let _ = &#cx;
                #(#fetches)*
                #answer
            })
        };
        let made = moved(&made, self.returns.span());
        quote! { #made #settings #(#wants)* }
    }

    fn settings(&self, krate: &TokenStream) -> TokenStream {
        let TriggerOptions { every, cron, timezone, timeout, is_once, is_concurrent, queue, .. } =
            &self.options;
        let mut settings = TokenStream::new();
        let mut set = |method: &str, value: Option<TokenStream>| {
            if let Some(value) = value {
                let method = Ident::new(method, proc_macro2::Span::call_site());
                settings.extend(quote! { .#method(#value) });
            }
        };
        set("every", every.as_ref().map(|(_, period)| duration::emit(krate, *period)));
        set("cron", cron.as_ref().map(|(_, text)| text.to_token_stream()));
        set("timezone", timezone.as_ref().map(|(_, text)| text.to_token_stream()));
        set("timeout", timeout.map(|limit| duration::emit(krate, limit)));
        set("once", is_once.then(TokenStream::new));
        set("concurrent", is_concurrent.then(TokenStream::new));
        set("queue", queue.as_ref().map(ToTokens::to_token_stream));
        settings
    }
}

fn returns(function: &ItemFn, complaints: &mut Complaints) -> Type {
    if let ReturnType::Default = function.sig.output {
        let ident = &function.sig.ident;
        complaints.about(
            ident,
            format!("`{ident}` answers nothing\nhelp: write `-> Result<Fire<Input>>`, with the input of what it starts"),
        );
        return syn::parse_quote! { () };
    }
    task::return_type(function, "trigger", complaints)
}

fn check_signature(function: &ItemFn, complaints: &mut Complaints) {
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        complaints.about(signature.fn_token, "write `async fn`: a trigger may wait for what it asks");
    }
    for parameter in &signature.generics.params {
        let message = match parameter {
            GenericParam::Lifetime(_) => {
                "a trigger needs no lifetime of its own, since nothing it returns may borrow"
            }
            _ => "a trigger cannot be generic: write the type itself",
        };
        complaints.about(parameter, message);
    }
}

/// The type of the resource that a parameter takes, or why it takes none.
fn resource<'a>(argument: &'a FnArg, complaints: &mut Complaints) -> Option<&'a Type> {
    let ty = match argument {
        FnArg::Typed(typed) => peel(&typed.ty),
        FnArg::Receiver(receiver) => {
            let message =
                "a trigger has no `self`\nhelp: give the engine a resource, and take it as `Res<T>`";
            complaints.about(receiver, message);
            return None;
        }
    };
    let found = generic(ty, "Res");
    if found.is_none() {
        let inner = match ty {
            Type::Reference(reference) => peel(&reference.elem),
            ty => ty,
        };
        let inner = generic(inner, "Res").unwrap_or(inner);
        complaints.about(
            ty,
            format!(
                "a trigger takes resources only: write `Res<{}>`, and give the engine one",
                written(inner)
            ),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn complaints(arguments: TokenStream, function: &ItemFn) -> String {
        let mut complaints = Complaints::default();
        let options = TriggerOptions::read(arguments, &mut complaints);
        TriggerFn::read(function, options, &mut complaints);
        complaints.messages().join("\n")
    }

    #[test]
    fn nothing_is_wrong_with_a_sound_trigger() {
        let function = parse_quote! { async fn f(a: Res<A>, _: windlass::Res<B>) -> Result<Fire<u32>> {} };
        for options in [
            quote! { every = "5s", starts = etl },
            quote! { cron = "0 2 * * *", timezone = "Europe/Paris", starts = flows::etl, once, concurrent },
            quote! { every = "1m", starts = etl, timeout = "10s", queue = "slow", name = "new-file", crate = ::engine },
        ] {
            assert_eq!(complaints(options, &function), "");
        }
    }

    #[test]
    fn each_mistake_is_told_with_the_way_out() {
        let sound: ItemFn = parse_quote! { async fn f() -> Result<Fire<u32>> {} };
        for (options, said) in [
            (quote! { starts = etl }, "does not say when it is asked"),
            (quote! { every = "5s", cron = "* * * * *", starts = etl }, "in two ways"),
            (quote! { every = "5s" }, "does not say what it starts"),
            (quote! { every = "5s", timezone = "UTC", starts = etl }, "`timezone` is for `cron`"),
            (quote! { every = "5s", starts = "etl" }, "without quotes"),
        ] {
            let found = complaints(options, &sound);
            assert!(found.contains(said), "{found}");
        }
        let options = || quote! { every = "5s", starts = etl };
        for (function, said) in [
            (parse_quote! { fn f() -> Result<Fire<u32>> {} }, "write `async fn`"),
            (parse_quote! { async fn f<T>() -> Result<Fire<T>> {} }, "cannot be generic"),
            (parse_quote! { async fn f(a: &Inbox) -> Result<Fire<u32>> {} }, "write `Res<Inbox>`"),
            (parse_quote! { async fn f(&self) -> Result<Fire<u32>> {} }, "has no `self`"),
        ] {
            let found = complaints(options(), &function);
            assert!(found.contains(said), "{found}");
        }
    }
}
