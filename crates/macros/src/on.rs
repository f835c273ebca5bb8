//! `#[on(Paid, to = [Packed], poll = "30s")]`: one handler of a machine.

use std::time::Duration;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote;
use syn::{
    Ident, LitInt, LitStr, Token,
    ext::IdentExt,
    parenthesized,
    parse::{ParseStream, Parser},
    token,
};

use crate::{complaint::Complaints, duration, options, retry::RetryOptions, spelling::did_you_mean};

const KNOWN: [&str; 13] = [
    "to",
    "router",
    "poll",
    "stepped",
    "batch",
    "split",
    "join",
    "limit",
    "timeout",
    "retry",
    "each_retry",
    "breaker",
    "rate",
];
const JOINS: [&str; 6] = ["all", "any", "quorum", "percentage", "partial", "partial_timeout"];

/// What stands between the parentheses of `#[on(…)]`.
#[derive(Default)]
pub(crate) struct OnOptions {
    pub(crate) state: Option<Ident>,
    pub(crate) to: Vec<Ident>,
    pub(crate) router: Option<Ident>,
    pub(crate) poll: Option<(Ident, Duration)>,
    pub(crate) stepped: Option<Ident>,
    pub(crate) batch: Option<(Ident, Vec<Ident>)>,
    pub(crate) split: Option<(Ident, Vec<Ident>)>,
    pub(crate) join: Option<(Ident, Join)>,
    pub(crate) limit: Option<(Ident, u32)>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<RetryOptions>,
    pub(crate) each_retry: Option<(Ident, RetryOptions)>,
    pub(crate) breaker: Option<Breaker>,
    pub(crate) rate: Option<(u32, Duration)>,
}

/// How many branches are enough.
#[derive(Clone, Copy)]
pub(crate) enum Join {
    All,
    Any,
    Quorum(u32),
    Percentage(f64),
    Partial(u32),
    PartialTimeout(Duration),
}

/// When a handler is left alone.
pub(crate) struct Breaker {
    name: Option<LitStr>,
    failures: u32,
    open: Duration,
    probes: u32,
}

impl OnOptions {
    /// Reads the state and the options that follow it.
    pub(crate) fn read(tokens: TokenStream, complaints: &mut Complaints) -> Self {
        let mut on = Self::default();
        let mut rest = tokens.clone().into_iter();
        let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(comma) if comma.as_char() == ',');
        match (rest.next(), rest.next()) {
            (Some(TokenTree::Ident(state)), comma) if comma.as_ref().is_none_or(is_comma) => {
                on.state = Some(state);
            }
            _ => {
                complaints.about(
                    tokens,
                    "`#[on(…)]` begins with the state that it handles: `#[on(Paid, to = [Packed])]`",
                );
                return on;
            }
        }
        let rest: TokenStream = rest.collect();
        options::read_all(rest, &KNOWN, complaints, |name, input, complaints| {
            on.read_one(name, input, complaints)
        });
        on.check(complaints);
        on
    }

    fn read_one(&mut self, name: &Ident, input: ParseStream, complaints: &mut Complaints) -> syn::Result<()> {
        match name.to_string().as_str() {
            "to" => self.to = options::names(name, "[Packed, Rejected]", "states", input)?,
            "router" => self.router = Some(name.clone()),
            "poll" => self.poll = Some((name.clone(), options::length(name, input)?)),
            "stepped" => self.stepped = Some(name.clone()),
            "batch" => {
                self.batch = Some((name.clone(), options::names(name, "[load, item]", "methods", input)?));
            }
            "split" => {
                self.split = Some((name.clone(), options::names(name, "[pack, bill]", "methods", input)?));
            }
            "join" => {
                options::equals(name, "all", input)?;
                self.join = Some((name.clone(), join(input)?));
            }
            "limit" => self.limit = Some((name.clone(), options::count(name, input)?)),
            "timeout" => self.timeout = Some(options::length(name, input)?),
            "retry" => self.retry = Some(retry(name, input, complaints)?),
            "each_retry" => self.each_retry = Some((name.clone(), retry(name, input, complaints)?)),
            "breaker" => self.breaker = Some(Breaker::read(input, complaints)?),
            "rate" => self.rate = Some(rate(name, input)?),
            other => unreachable!("`{other}` is not among the options of a handler"),
        }
        Ok(())
    }

    fn check(&self, complaints: &mut Complaints) {
        let kinds: Vec<&Ident> = [
            self.router.as_ref(),
            self.poll.as_ref().map(|(name, _)| name),
            self.stepped.as_ref(),
            self.batch.as_ref().map(|(name, _)| name),
            self.split.as_ref().map(|(name, _)| name),
        ]
        .into_iter()
        .flatten()
        .collect();
        if let [first, second, ..] = kinds.as_slice() {
            complaints.about(second, format!("a handler cannot be `{second}` and `{first}` at once"));
        }
        let has_many = self.batch.is_some() || self.split.is_some();
        if let Some((name, _)) = self.limit.as_ref().filter(|_| !has_many) {
            complaints.about(name, "`limit` is for `split` and `batch`: how many run at once");
        }
        if let Some((name, _)) = self.each_retry.as_ref().filter(|_| !has_many) {
            complaints.about(name, "`each_retry` is for the branches of `split` and the items of `batch`");
        }
        match (&self.join, &self.split) {
            (Some((name, _)), None) => complaints.about(name, "`join` is for `split`"),
            (Some((name, join)), Some((_, branches))) => join.check(name, branches.len(), complaints),
            _ => {}
        }
        if let Some((name, _)) = self.split.as_ref().filter(|(_, branches)| branches.is_empty()) {
            complaints.about(name, "`split` needs at least one branch: `split = [pack, bill]`");
        }
        if let Some((name, _)) = self.batch.as_ref().filter(|(_, methods)| methods.len() != 2) {
            complaints.about(
                name,
                "`batch` takes the method that loads the items and the one that handles each: `batch = [load, item]`",
            );
        }
        if let (Some(state), true) = (&self.state, self.to.is_empty()) {
            complaints.about(
                state,
                format!("where does `{state}` lead? Write `#[on({state}, to = [Packed, Rejected])]`"),
            );
        }
    }
}

impl Join {
    fn check(self, name: &Ident, branches: usize, complaints: &mut Complaints) {
        match self {
            Self::Quorum(needed) | Self::Partial(needed) if needed as usize > branches => complaints
                .about(name, format!("{needed} branches can never complete: `split` has {branches}")),
            Self::Percentage(share) if !(share > 0.0 && share <= 100.0) => {
                complaints.about(name, "`percentage` is above 0 and at most 100");
            }
            _ => {}
        }
    }

    pub(crate) fn emit(self, krate: &TokenStream) -> TokenStream {
        let join = match self {
            Self::All => quote! { All },
            Self::Any => quote! { Any },
            Self::Quorum(needed) => {
                let needed = needed as usize;
                quote! { Quorum(#needed) }
            }
            Self::Percentage(share) => quote! { Percentage(#share) },
            Self::Partial(needed) => {
                let needed = needed as usize;
                quote! { Partial(#needed) }
            }
            Self::PartialTimeout(span) => {
                let span = duration::emit(krate, span);
                quote! { PartialTimeout(#span) }
            }
        };
        quote! { #krate::__macro::Joining::#join }
    }
}

fn join(input: ParseStream) -> syn::Result<Join> {
    let known = "all, any, quorum(2), percentage(50), partial(1), partial_timeout(\"30s\")";
    let word = input
        .call(Ident::parse_any)
        .map_err(|error| syn::Error::new(error.span(), format!("`join` is one of {known}")))?;
    let text = word.to_string();
    if !JOINS.contains(&text.as_str()) {
        let near = did_you_mean(&text, JOINS);
        return Err(syn::Error::new(
            word.span(),
            format!("`join` cannot be `{text}`{near}\nnote: it is one of {known}"),
        ));
    }
    match text.as_str() {
        "all" => return Ok(Join::All),
        "any" => return Ok(Join::Any),
        _ => {}
    }
    let wrong = |span| syn::Error::new(span, format!("`{text}` takes one number or time\nnote: {known}"));
    if !input.peek(token::Paren) {
        return Err(wrong(word.span()));
    }
    let content;
    parenthesized!(content in input);
    let tokens: TokenStream = content.parse()?;
    let value = |content: ParseStream| join_value(&text, content, &wrong);
    value.parse2(tokens)
}

/// What stands between the parentheses of a join.
fn join_value(text: &str, content: ParseStream, wrong: &dyn Fn(Span) -> syn::Error) -> syn::Result<Join> {
    let join = match text {
        "partial_timeout" => {
            let span = content.parse::<LitStr>().map_err(|error| wrong(error.span()))?;
            Join::PartialTimeout(duration::parse(&span)?)
        }
        "percentage" if content.peek(syn::LitFloat) => {
            Join::Percentage(content.parse::<syn::LitFloat>()?.base10_parse()?)
        }
        _ => {
            let number: LitInt = content.parse().map_err(|error: syn::Error| wrong(error.span()))?;
            let needed: u32 = number.base10_parse()?;
            if needed == 0 {
                return Err(syn::Error::new(number.span(), format!("`{text}` must be at least 1")));
            }
            match text {
                "quorum" => Join::Quorum(needed),
                "partial" => Join::Partial(needed),
                _ => Join::Percentage(f64::from(needed)),
            }
        }
    };
    if content.is_empty() { Ok(join) } else { Err(wrong(content.span())) }
}

fn retry(name: &Ident, input: ParseStream, complaints: &mut Complaints) -> syn::Result<RetryOptions> {
    let retry = RetryOptions::read(name, input, complaints)?;
    if let Some(path) = retry.predicates().next() {
        complaints.about(
            path,
            "a handler cannot be retried by a predicate: let it return `Failure::permanent` for what is not worth it",
        );
    }
    Ok(retry)
}

/// `rate(100, per = "1s")`.
fn rate(name: &Ident, input: ParseStream) -> syn::Result<(u32, Duration)> {
    let wrong = |span| syn::Error::new(span, "`rate` takes a number and a time: `rate(100, per = \"1s\")`");
    if !input.peek(token::Paren) {
        return Err(wrong(name.span()));
    }
    let content;
    parenthesized!(content in input);
    let tokens: TokenStream = content.parse()?;
    let value = |content: ParseStream| {
        let wrong = |error: syn::Error| wrong(error.span());
        let times: LitInt = content.parse().map_err(wrong)?;
        content.parse::<Token![,]>().map_err(wrong)?;
        let per: Ident = content.parse().map_err(wrong)?;
        if per != "per" {
            return Err(wrong(syn::Error::new(per.span(), "")));
        }
        Ok((times, options::length(&per, content)?))
    };
    let (times, span) = value.parse2(tokens)?;
    match times.base10_parse::<u32>() {
        Ok(number) if number > 0 => Ok((number, span)),
        _ => Err(syn::Error::new(times.span(), "the number must be at least 1")),
    }
}

impl Breaker {
    fn read(input: ParseStream, complaints: &mut Complaints) -> syn::Result<Self> {
        let mut breaker = Self { name: None, failures: 5, open: Duration::from_secs(30), probes: 1 };
        let tokens = match input.peek(token::Paren) {
            true => {
                let content;
                parenthesized!(content in input);
                content.parse()?
            }
            false => TokenStream::new(),
        };
        let known = ["name", "failures", "open", "probes"];
        options::read_all(tokens, &known, complaints, |name, input, complaints| {
            match name.to_string().as_str() {
                "name" => {
                    let text = options::text(name, "\"bank\"", input)?;
                    options::check_name(&text, complaints);
                    breaker.name = Some(text);
                }
                "failures" => breaker.failures = options::count(name, input)?,
                "open" => breaker.open = options::length(name, input)?,
                _ => breaker.probes = options::count(name, input)?,
            }
            Ok(())
        });
        Ok(breaker)
    }

    pub(crate) fn emit(&self, krate: &TokenStream) -> TokenStream {
        let Self { name, failures, open, probes } = self;
        let name = match name {
            Some(name) => quote! { ::core::option::Option::Some(#name) },
            None => quote! { ::core::option::Option::None },
        };
        let open = duration::emit(krate, *open);
        quote! {
            #krate::__macro::BreakerParts { name: #name, failures: #failures, open: #open, probes: #probes }
        }
    }
}
