//! The list between a macro's parentheses: `name = "etl", fail_fast, timeout = "1h"`.

use std::{collections::BTreeSet, time::Duration};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Ident, LitFloat, LitInt, LitStr, Path, Token, bracketed, ext::IdentExt, parse::ParseStream,
    parse::Parser, punctuated::Punctuated, token,
};

use crate::{complaint::Complaints, duration, spelling::did_you_mean};

/// Reads a list of options. Each is handed to `read` with what follows its name.
///
/// A mistake in one option does not hide mistakes in the others.
pub(crate) fn read_all(
    tokens: TokenStream,
    known: &[&str],
    complaints: &mut Complaints,
    mut read: impl FnMut(&Ident, ParseStream, &mut Complaints) -> syn::Result<()>,
) {
    let parse = |input: ParseStream| read_stream(input, known, complaints, &mut read);
    if let Err(error) = parse.parse2(tokens) {
        complaints.add(error);
    }
}

fn read_stream(
    input: ParseStream,
    known: &[&str],
    complaints: &mut Complaints,
    read: &mut impl FnMut(&Ident, ParseStream, &mut Complaints) -> syn::Result<()>,
) -> syn::Result<()> {
    let mut seen = BTreeSet::new();
    while !input.is_empty() {
        if !input.peek(Ident::peek_any) {
            return Err(input
                .error(format!("an option begins with its name\nnote: options here: {}", known.join(", "))));
        }
        let name = input.call(Ident::parse_any)?;
        let text = name.to_string();
        let result = if !known.contains(&text.as_str()) {
            let near = did_you_mean(&text, known.iter().copied());
            Err(syn::Error::new(
                name.span(),
                format!("there is no option `{text}`{near}\nnote: options here: {}", known.join(", ")),
            ))
        } else if seen.insert(text.clone()) {
            read(&name, input, complaints)
        } else {
            Err(syn::Error::new(name.span(), format!("`{text}` is given twice")))
        };
        match result {
            Ok(()) if input.is_empty() || input.peek(Token![,]) => {}
            Ok(()) => complaints.add(input.error(format!("a comma is missing after `{text}`"))),
            Err(error) => complaints.add(error),
        }
        while !input.is_empty() && !input.peek(Token![,]) {
            input.parse::<TokenTree>()?;
        }
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(())
}

/// The `=` after an option's name. The example shows how the option is written.
pub(crate) fn equals(name: &Ident, example: &str, input: ParseStream) -> syn::Result<()> {
    let missing = || syn::Error::new(name.span(), format!("`{name}` needs a value: `{name} = {example}`"));
    if !input.peek(Token![=]) {
        return Err(missing());
    }
    input.parse::<Token![=]>()?;
    if input.is_empty() { Err(missing()) } else { Ok(()) }
}

/// Text in quotes.
pub(crate) fn text(name: &Ident, example: &str, input: ParseStream) -> syn::Result<LitStr> {
    equals(name, example, input)?;
    input.parse().map_err(|error| {
        syn::Error::new(error.span(), format!("`{name}` takes text in quotes: `{name} = {example}`"))
    })
}

/// A length of time in quotes.
pub(crate) fn length(name: &Ident, input: ParseStream) -> syn::Result<Duration> {
    duration::parse(&text(name, "\"30s\"", input)?)
}

/// A whole number of at least one.
pub(crate) fn count(name: &Ident, input: ParseStream) -> syn::Result<u32> {
    equals(name, "8", input)?;
    let literal: LitInt = input.parse().map_err(|error| {
        syn::Error::new(error.span(), format!("`{name}` takes a whole number: `{name} = 8`"))
    })?;
    match literal.base10_parse::<u32>() {
        Ok(0) => Err(syn::Error::new(literal.span(), format!("`{name}` must be at least 1"))),
        Ok(count) => Ok(count),
        Err(_) => {
            Err(syn::Error::new(literal.span(), format!("`{name}` must be a whole number below 4294967296")))
        }
    }
}

/// A number, with or without a fraction.
pub(crate) fn number(name: &Ident, example: &str, input: ParseStream) -> syn::Result<f64> {
    equals(name, example, input)?;
    if input.peek(LitInt) {
        return input.parse::<LitInt>()?.base10_parse();
    }
    let wrong = |error: syn::Error| {
        syn::Error::new(error.span(), format!("`{name}` takes a number: `{name} = {example}`"))
    };
    input.parse::<LitFloat>().map_err(wrong)?.base10_parse()
}

/// The name of a task.
pub(crate) fn task_name(name: &Ident, input: ParseStream) -> syn::Result<Ident> {
    equals(name, "load", input)?;
    input.call(Ident::parse_any).map_err(|error| {
        syn::Error::new(
            error.span(),
            format!("`{name}` takes the name of a task, without quotes: `{name} = load`"),
        )
    })
}

/// The names of several tasks.
pub(crate) fn task_names(name: &Ident, input: ParseStream) -> syn::Result<Vec<Ident>> {
    names(name, "[load, clean]", "tasks", input)
}

/// Several names of something.
pub(crate) fn names(name: &Ident, example: &str, what: &str, input: ParseStream) -> syn::Result<Vec<Ident>> {
    equals(name, example, input)?;
    if !input.peek(token::Bracket) {
        return Err(syn::Error::new(input.span(), format!("`{name}` takes a list: `{name} = {example}`")));
    }
    let content;
    bracketed!(content in input);
    let names = Punctuated::<Ident, Token![,]>::parse_terminated_with(&content, Ident::parse_any).map_err(
        |error| {
            syn::Error::new(
                error.span(),
                format!("`{name}` takes names of {what}, without quotes: `{name} = {example}`"),
            )
        },
    )?;
    Ok(names.into_iter().collect())
}

/// The paths of several functions.
pub(crate) fn paths(name: &Ident, example: &str, input: ParseStream) -> syn::Result<Vec<Path>> {
    equals(name, example, input)?;
    let wrong = |at| syn::Error::new(at, format!("`{name}` takes a list of functions: `{name} = {example}`"));
    if !input.peek(token::Bracket) {
        return Err(wrong(input.span()));
    }
    let content;
    bracketed!(content in input);
    let paths = Punctuated::<Path, Token![,]>::parse_terminated_with(&content, Path::parse_mod_style);
    Ok(paths.map_err(|error| wrong(error.span()))?.into_iter().collect())
}

/// One of these words.
pub(crate) fn word(name: &Ident, words: &[&str], input: ParseStream) -> syn::Result<Ident> {
    equals(name, words[0], input)?;
    let known = match words {
        [only] => format!("it can only be `{only}`"),
        several => format!("it is one of {}", several.join(", ")),
    };
    let word = input.call(Ident::parse_any).map_err(|error| {
        syn::Error::new(error.span(), format!("`{name}` takes a word without quotes: {known}"))
    })?;
    let text = word.to_string();
    if words.contains(&text.as_str()) {
        return Ok(word);
    }
    let near = did_you_mean(&text, words.iter().copied());
    Err(syn::Error::new(word.span(), format!("`{name}` cannot be `{text}`{near}\nnote: {known}")))
}

/// A name that a record can be found by.
pub(crate) fn check_name(literal: &LitStr, complaints: &mut Complaints) {
    let name = literal.value();
    let sound = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if !sound {
        complaints
            .at(literal.span(), format!("`{name}` cannot be a name: use letters, digits, `_`, `-` and `.`"));
    }
}
