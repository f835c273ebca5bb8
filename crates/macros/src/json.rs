//! Values of a rule, written as JSON.

use std::fmt::Write as _;

use syn::{
    Ident, Token, bracketed,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    token,
};

/// Reads a value as JSON is written, with Rust's literals.
pub(crate) fn read(input: ParseStream) -> syn::Result<String> {
    if input.peek(token::Bracket) {
        let content;
        bracketed!(content in input);
        let values = Punctuated::<Json, Token![,]>::parse_terminated(&content)?;
        let values: Vec<String> = values.into_iter().map(|value| value.0).collect();
        return Ok(format!("[{}]", values.join(",")));
    }
    if input.peek(Ident) {
        let word: Ident = input.parse()?;
        if word == "null" {
            return Ok("null".to_owned());
        }
        return Err(syn::Error::new(
            word.span(),
            format!(
                "`{word}` is not a value: write a literal, such as true, 3, 1.5, \"text\", null or [1, 2]"
            ),
        ));
    }
    let sign = if input.peek(Token![-]) {
        input.parse::<Token![-]>()?;
        "-"
    } else {
        ""
    };
    match input.parse::<syn::Lit>()? {
        syn::Lit::Bool(value) if sign.is_empty() => Ok(value.value.to_string()),
        syn::Lit::Str(value) if sign.is_empty() => Ok(quoted(&value.value())),
        syn::Lit::Int(value) if value.suffix().is_empty() => {
            let text = format!("{sign}{}", value.base10_digits());
            let fits = text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
            if fits { Ok(text) } else { Err(syn::Error::new(value.span(), "the number is too large")) }
        }
        syn::Lit::Float(value) if value.suffix().is_empty() => {
            let number: f64 = value.base10_parse()?;
            if number.is_finite() {
                Ok(format!("{sign}{number:?}"))
            } else {
                Err(syn::Error::new(value.span(), "the number is too large"))
            }
        }
        other => Err(syn::Error::new(
            other.span(),
            "not a value that a context can hold: write true, 3, 1.5, \"text\", null or [1, 2]",
        )),
    }
}

struct Json(String);

impl Parse for Json {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        read(input).map(Self)
    }
}

/// The text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if u32::from(c) < 0x20 => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
