//! A method of a machine, as far as calls of it need to know.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{FnArg, Ident, ImplItemFn, Pat, ReturnType, Type, spanned::Spanned};

use crate::{
    complaint::{Complaints, listed},
    parameter::peel,
};

/// A method with its parameters.
pub(crate) struct Method {
    pub(crate) ident: Ident,
    is_async: bool,
    has_self: bool,
    /// Where it says what it returns.
    returned: Span,
    /// Name and type of each parameter but `self`.
    parameters: Vec<(Option<Ident>, Type)>,
}

/// What a parameter has to be, where that is known.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Takes {
    /// `&Flow`.
    Flow,
    /// `&Cx`.
    Cx,
    /// What the compiler says.
    Anything,
}

impl Method {
    pub(crate) fn read(function: &ImplItemFn) -> Self {
        let parameters = function.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Receiver(_) => None,
            FnArg::Typed(typed) => {
                let name = match &*typed.pat {
                    Pat::Ident(name) => Some(name.ident.clone()),
                    _ => None,
                };
                Some((name, (*typed.ty).clone()))
            }
        });
        Self {
            ident: function.sig.ident.clone(),
            is_async: function.sig.asyncness.is_some(),
            has_self: function.sig.receiver().is_some(),
            returned: match &function.sig.output {
                ReturnType::Type(_, ty) => ty.span(),
                ReturnType::Default => function.sig.ident.span(),
            },
            parameters: parameters.collect(),
        }
    }

    /// Where complaints about what it returns belong.
    pub(crate) fn returned(&self) -> Span {
        Span::call_site().located_at(self.returned)
    }

    /// What it is called with: a parameter gets what its name stands for, with or without an underscore before it.
    pub(crate) fn arguments(
        &self,
        known: &[(&str, Takes, TokenStream)],
        complaints: &mut Complaints,
    ) -> Vec<TokenStream> {
        if !self.has_self {
            complaints
                .about(&self.ident, format!("`{}` is a method of the machine: it takes `&self`", self.ident));
        }
        let mut arguments = Vec::new();
        for (name, ty) in &self.parameters {
            let text = name.as_ref().map(ToString::to_string).unwrap_or_default();
            let found = known.iter().find(|(known, ..)| *known == text.trim_start_matches('_'));
            match found {
                Some((_, takes, _)) if !takes.fits(ty) => complaints.about(ty, takes.wanted(&self.ident)),
                Some((.., argument)) => {
                    let here = Span::call_site().located_at(ty.span());
                    arguments.push(argument.clone().into_iter().map(|token| at(token, here)).collect());
                }
                None => complaints.about(
                    ty,
                    format!(
                        "`{}` cannot be called with this: its parameters are known by their names\nnote: here: {}",
                        self.ident,
                        listed(known.iter().map(|(name, ..)| *name))
                    ),
                ),
            }
        }
        arguments
    }

    /// Whether it makes durable calls of its own.
    pub(crate) fn takes_flow(&self) -> bool {
        self.parameters.iter().any(|(_, ty)| is_named(ty, "Flow"))
    }

    pub(crate) fn check_async(&self, complaints: &mut Complaints) {
        if !self.is_async {
            complaints.about(&self.ident, format!("write `async fn {}`", self.ident));
        }
    }

    pub(crate) fn check_sync(&self, complaints: &mut Complaints) {
        if self.is_async {
            complaints.about(
                &self.ident,
                format!("a router only decides: write `fn {}(&self, data: &…)`, without `async`", self.ident),
            );
        }
    }
}

impl Takes {
    fn fits(self, ty: &Type) -> bool {
        match self {
            Self::Anything => true,
            Self::Flow => is_named(ty, "Flow"),
            Self::Cx => is_named(ty, "Cx"),
        }
    }

    fn wanted(self, method: &Ident) -> String {
        match self {
            Self::Cx => format!(
                "`{method}` is a single step, and makes no durable calls: write `cx: &Cx`, or leave it out"
            ),
            _ => format!("`{method}` is called with the function's own context: write `cx: &Flow`"),
        }
    }
}

/// The token, so that complaints about it are made there.
fn at(mut token: TokenTree, place: Span) -> TokenTree {
    token.set_span(place);
    token
}

/// Whether a type, or what it refers to, has this name.
fn is_named(ty: &Type, name: &str) -> bool {
    match peel(ty) {
        Type::Reference(reference) => is_named(&reference.elem, name),
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == name),
        _ => false,
    }
}
