//! What is wrong with the author's code, said so that they know what to type.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};

/// Everything that is wrong with one use of a macro, each at the token that it concerns.
///
/// All of it is reported at once, since fixing one mistake only to meet the next is slow.
#[derive(Default)]
pub(crate) struct Complaints {
    errors: Vec<syn::Error>,
}

impl Complaints {
    /// Adds a complaint about these tokens.
    pub(crate) fn about(&mut self, tokens: impl ToTokens, message: impl Into<String>) {
        self.errors.push(syn::Error::new_spanned(tokens, message.into()));
    }

    /// Adds a complaint at this place.
    pub(crate) fn at(&mut self, place: Span, message: impl Into<String>) {
        self.errors.push(syn::Error::new(place, message.into()));
    }

    /// Adds what a parser said.
    pub(crate) fn add(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// Whether there is nothing to complain about.
    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// The compile errors.
    pub(crate) fn into_tokens(self) -> TokenStream {
        let errors = self.errors.iter().map(syn::Error::to_compile_error);
        quote! { #(#errors)* }
    }

    #[cfg(test)]
    pub(crate) fn messages(&self) -> Vec<String> {
        self.errors.iter().map(ToString::to_string).collect()
    }
}

/// "`a`, `b` and `c`".
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
