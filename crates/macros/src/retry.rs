//! `retry(attempts = 5, delay = "1s", on = transient)`.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Ident, LitStr, Path, Token, bracketed, ext::IdentExt, parenthesized, parse::Parse, parse::ParseStream,
    punctuated::Punctuated, token,
};

use crate::{complaint::Complaints, duration, options, spelling::did_you_mean};

const KNOWN: [&str; 7] = ["attempts", "delay", "backoff", "factor", "max", "jitter", "on"];
const CONDITIONS: [&str; 5] = ["all", "never", "transient", "matching", "predicate"];

/// What happens after a failed attempt, as far as the author said.
#[derive(Default)]
pub(crate) struct RetryOptions {
    attempts: Option<u32>,
    delay: Option<Duration>,
    backoff: Option<Ident>,
    factor: Option<f64>,
    max: Option<Duration>,
    jitter: Option<f64>,
    on: Vec<Condition>,
}

/// Which failures are worth another attempt.
enum Condition {
    All,
    Never,
    Transient,
    Matching(Vec<LitStr>),
    Predicate(Path),
}

impl RetryOptions {
    /// Reads what stands in the parentheses after `retry`.
    pub(crate) fn read(name: &Ident, input: ParseStream, complaints: &mut Complaints) -> syn::Result<Self> {
        if !input.peek(token::Paren) {
            return Err(syn::Error::new(
                name.span(),
                "`retry` takes its settings in parentheses: `retry(attempts = 5, delay = \"1s\")`",
            ));
        }
        let content;
        parenthesized!(content in input);
        let mut retry = Self::default();
        let tokens: TokenStream = content.parse()?;
        options::read_all(tokens, &KNOWN, complaints, |name, input, complaints| {
            retry.read_one(name, input, complaints)
        });
        Ok(retry)
    }

    fn read_one(&mut self, name: &Ident, input: ParseStream, complaints: &mut Complaints) -> syn::Result<()> {
        match name.to_string().as_str() {
            "attempts" => self.attempts = Some(options::count(name, input)?),
            "delay" => self.delay = Some(options::length(name, input)?),
            "max" => self.max = Some(options::length(name, input)?),
            "backoff" => {
                self.backoff = Some(options::word(name, &["exponential", "linear", "fixed"], input)?)
            }
            "factor" => {
                let factor = options::number(name, "2.0", input)?;
                if factor < 1.0 || !factor.is_finite() {
                    complaints.about(name, "`factor` must be at least 1, or delays would shrink");
                }
                self.factor = Some(factor);
            }
            "jitter" => {
                let jitter = options::number(name, "0.25", input)?;
                if !(0.0..=1.0).contains(&jitter) {
                    complaints.about(name, "`jitter` is a share of the delay, from 0 to 1: `jitter = 0.25`");
                }
                self.jitter = Some(jitter);
            }
            "on" => {
                options::equals(name, "transient", input)?;
                self.on = conditions(input)?;
            }
            other => unreachable!("`{other}` is not among the options of retry"),
        }
        if let (Some(_), Some(backoff)) = (self.factor, &self.backoff)
            && backoff != "exponential"
        {
            complaints.about(backoff, "`factor` is for `backoff = exponential`; the others do not multiply");
        }
        Ok(())
    }

    /// The expression that makes the policy.
    pub(crate) fn emit(&self, krate: &TokenStream) -> TokenStream {
        let some = |value: Option<TokenStream>| match value {
            Some(value) => quote! { ::core::option::Option::Some(#value) },
            None => quote! { ::core::option::Option::None },
        };
        let attempts = some(self.attempts.map(|n| quote! { #n }));
        let delay = some(self.delay.map(|delay| duration::emit(krate, delay)));
        let max = some(self.max.map(|max| duration::emit(krate, max)));
        let factor = some(self.factor.map(|factor| quote! { #factor }));
        let jitter = some(self.jitter.map(|jitter| quote! { #jitter }));
        let shape = match self.backoff.as_ref().map(ToString::to_string).as_deref() {
            Some("fixed") => quote! { Fixed },
            Some("linear") => quote! { Linear },
            _ => quote! { Exponential },
        };
        let on = self.on.iter().map(|condition| match condition {
            Condition::All => quote! { #krate::__macro::On::All },
            Condition::Never => quote! { #krate::__macro::On::Never },
            Condition::Transient => quote! { #krate::__macro::On::Transient },
            Condition::Matching(texts) => quote! { #krate::__macro::On::Matching(&[#(#texts),*]) },
            Condition::Predicate(path) => {
                let name = quote! { #path }.to_string().replace(' ', "");
                quote! { #krate::__macro::On::Predicate(#name) }
            }
        });
        quote! {
            #krate::__macro::RetryParts {
                attempts: #attempts,
                shape: #krate::__macro::Shape::#shape,
                delay: #delay,
                factor: #factor,
                max: #max,
                jitter: #jitter,
                on: &[#(#on),*],
            }
        }
    }

    /// The function that decides about failures, if the author named one.
    pub(crate) fn predicates(&self) -> impl Iterator<Item = &Path> {
        self.on.iter().filter_map(|condition| match condition {
            Condition::Predicate(path) => Some(path),
            _ => None,
        })
    }
}

fn conditions(input: ParseStream) -> syn::Result<Vec<Condition>> {
    if !input.peek(token::Bracket) {
        return Ok(vec![input.parse()?]);
    }
    let content;
    let bracket = bracketed!(content in input);
    let conditions = Punctuated::<Condition, Token![,]>::parse_terminated(&content)?;
    if conditions.is_empty() {
        return Err(syn::Error::new(bracket.span.join(), "`on = []` says nothing: write `on = never`"));
    }
    Ok(conditions.into_iter().collect())
}

impl Parse for Condition {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let known = "all, never, transient, matching(\"…\"), predicate(path), or several in brackets";
        let word = input
            .call(Ident::parse_any)
            .map_err(|error| syn::Error::new(error.span(), format!("`on` is one of {known}")))?;
        let text = word.to_string();
        match text.as_str() {
            "all" => Ok(Self::All),
            "never" => Ok(Self::Never),
            "transient" => Ok(Self::Transient),
            "matching" => {
                let example = "`matching` takes texts to look for: `matching(\"deadlock\", \"busy\")`";
                let content = arguments(&word, example, input)?;
                let texts = Punctuated::<LitStr, Token![,]>::parse_terminated(&content)
                    .map_err(|error| syn::Error::new(error.span(), example))?;
                if texts.is_empty() {
                    return Err(syn::Error::new(word.span(), example));
                }
                Ok(Self::Matching(texts.into_iter().collect()))
            }
            "predicate" => {
                let example =
                    "`predicate` takes a function from `&Failure` to `bool`: `predicate(is_worth_it)`";
                let content = arguments(&word, example, input)?;
                let path = content.parse().map_err(|error| syn::Error::new(error.span(), example))?;
                Ok(Self::Predicate(path))
            }
            other => Err(syn::Error::new(
                word.span(),
                format!(
                    "`on` cannot be `{other}`{}\nnote: it is one of {known}",
                    did_you_mean(other, CONDITIONS)
                ),
            )),
        }
    }
}

fn arguments<'a>(
    word: &Ident,
    example: &str,
    input: ParseStream<'a>,
) -> syn::Result<syn::parse::ParseBuffer<'a>> {
    if !input.peek(token::Paren) {
        return Err(syn::Error::new(word.span(), example));
    }
    let content;
    parenthesized!(content in input);
    Ok(content)
}
