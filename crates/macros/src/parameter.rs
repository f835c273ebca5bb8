//! What a task asks for: the name of a parameter says what it is, its type says how it is handed over.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{FnArg, GenericArgument, Ident, Pat, PatType, PathArguments, Type, ext::IdentExt};

use crate::complaint::Complaints;

/// One parameter of a task.
pub(crate) struct Parameter {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
}

/// What a parameter stands for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Kind {
    /// The run's input.
    Input,
    /// The element, in a `for_each`.
    Item,
    /// The run's shared data.
    Context,
    /// What the attempt knows about itself.
    Cx,
    /// The transaction that also writes the task's record.
    Tx,
    /// A resource that was given to the engine.
    Resource,
    /// The result of the task of this name.
    Result,
}

/// How a value is handed over.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Shape {
    /// As a copy: `T`.
    Owned,
    /// Borrowed: `&T`, `&[E]`, `&str`.
    Borrowed,
    /// `Option<T>`.
    Optional,
    /// `Option<&T>`.
    OptionalBorrowed,
    /// `Outcome<T>`.
    Outcome,
    /// `Outcome<&T>`.
    OutcomeBorrowed,
}

impl Shape {
    /// Whether the parameter can say that there is no value.
    pub(crate) fn may_be_absent(self) -> bool {
        !matches!(self, Self::Owned | Self::Borrowed)
    }
}

/// What stands for something else than a task's result.
pub(crate) const RESERVED: [&str; 6] = ["input", "context", "item", "cx", "tx", "workflow"];

impl Parameter {
    /// Reads a parameter, or says why it cannot be one.
    pub(crate) fn read(task: &Ident, argument: &FnArg, complaints: &mut Complaints) -> Option<Self> {
        let PatType { attrs, pat, ty, .. } = match argument {
            FnArg::Typed(typed) => typed,
            FnArg::Receiver(receiver) => {
                let message =
                    "a task has no `self`\nhelp: give the engine a resource, and take it as `Res<T>`";
                complaints.about(receiver, message);
                return None;
            }
        };
        if let Some(cfg) = attrs.iter().find(|attribute| attribute.path().is_ident("cfg")) {
            complaints
                .about(cfg, "a parameter of a task cannot depend on `cfg`: the graph would change with it");
        }
        let Pat::Ident(pattern) = &**pat else {
            let message = format!(
                "a parameter of `{task}` has no name\nhelp: write `name: Type`, where the name is that of a task, or one of \
                 input, context, cx, tx, item; take the value apart in the body"
            );
            complaints.about(pat, message);
            return None;
        };
        let ty = peel(ty).clone();
        if let Type::ImplTrait(_) = ty {
            complaints.about(&ty, "a task cannot be generic: write the type itself");
            return None;
        }
        let name = pattern.ident.clone();
        let kind = match (generic(&ty, "Res"), name.unraw().to_string().as_str()) {
            (Some(_), _) => Kind::Resource,
            (None, "input") => Kind::Input,
            (None, "item") => Kind::Item,
            (None, "context") => Kind::Context,
            (None, "cx") => Kind::Cx,
            (None, "tx") => Kind::Tx,
            (None, _) => Kind::Result,
        };
        let shape = shape(kind, &ty);
        let parameter = Self { name, ty, kind, shape };
        parameter.check(complaints);
        Some(parameter)
    }

    fn check(&self, complaints: &mut Complaints) {
        let mutable = matches!(&self.ty, Type::Reference(reference) if reference.mutability.is_some());
        match self.kind {
            Kind::Context if self.shape != Shape::Borrowed || !names(self.referent(), "Context") => {
                complaints.about(
                    &self.ty,
                    "`context` is the run's shared data: write `context: &mut Context`, or `&Context` to read only",
                );
            }
            Kind::Cx if mutable || !names(self.referent(), "Cx") => {
                complaints.about(&self.ty, "`cx` is what the attempt knows about itself: write `cx: &Cx`");
            }
            Kind::Tx
                if mutable || self.shape != Shape::Borrowed || !names(self.referent(), "Transaction") =>
            {
                complaints.about(
                    &self.ty,
                    "`tx` is a transaction that is committed together with the task's record: write \
                     `tx: &windlass::postgres::Transaction` in an `async fn`, or `tx: &windlass::sqlite::Transaction` in a \
                     plain `fn`",
                );
            }
            Kind::Input | Kind::Item | Kind::Result if mutable => {
                let name = &self.name;
                let message = format!(
                    "`{name}` is recorded and cannot be changed\nhelp: take a copy of your own with `mut {name}: T`, \
                     or read it with `{name}: &T`"
                );
                complaints.about(&self.ty, message);
            }
            _ => {}
        }
    }

    /// The type without its reference.
    pub(crate) fn referent(&self) -> &Type {
        match &self.ty {
            Type::Reference(reference) => peel(&reference.elem),
            ty => ty,
        }
    }

    /// The type of the value that is stored, as far as the parameter tells.
    pub(crate) fn stored(&self) -> TokenStream {
        let inner = match self.shape {
            Shape::Owned | Shape::Borrowed => &self.ty,
            Shape::Optional | Shape::OptionalBorrowed => generic(&self.ty, "Option").unwrap_or(&self.ty),
            Shape::Outcome | Shape::OutcomeBorrowed => generic(&self.ty, "Outcome").unwrap_or(&self.ty),
        };
        owned(inner)
    }

    /// The type of the resource that the parameter asks for.
    pub(crate) fn resource(&self) -> Option<&Type> {
        generic(&self.ty, "Res").filter(|_| self.kind == Kind::Resource)
    }

    /// Whether the path of the parameter's type names this module.
    pub(crate) fn is_from(&self, module: &str) -> bool {
        let Type::Path(path) = self.referent() else { return false };
        path.path.segments.iter().any(|segment| segment.ident == module)
    }

    /// Whether the body may change the run's context.
    pub(crate) fn changes_context(&self) -> bool {
        self.kind == Kind::Context
            && matches!(&self.ty, Type::Reference(reference) if reference.mutability.is_some())
    }
}

fn shape(kind: Kind, ty: &Type) -> Shape {
    if let Type::Reference(_) = ty {
        return Shape::Borrowed;
    }
    // Only a task's result can be absent: an input of `Option<T>` is a value like any other.
    if kind != Kind::Result {
        return Shape::Owned;
    }
    match (generic(ty, "Option"), generic(ty, "Outcome")) {
        (Some(Type::Reference(_)), _) => Shape::OptionalBorrowed,
        (Some(_), _) => Shape::Optional,
        (_, Some(Type::Reference(_))) => Shape::OutcomeBorrowed,
        (_, Some(_)) => Shape::Outcome,
        (None, None) => Shape::Owned,
    }
}

/// The owned type behind a borrowed one: `[E]` is kept as `Vec<E>`, `str` as `String`.
pub(crate) fn owned(ty: &Type) -> TokenStream {
    let Type::Reference(reference) = peel(ty) else { return quote! { #ty } };
    match peel(&reference.elem) {
        Type::Slice(slice) => {
            let element = &slice.elem;
            quote! { ::std::vec::Vec<#element> }
        }
        Type::Path(path) if path.path.is_ident("str") => quote! { ::std::string::String },
        ty => quote! { #ty },
    }
}

/// The type inside `Name<T>`, whatever path leads to the name.
pub(crate) fn generic<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match (arguments.args.len(), arguments.args.first()) {
        (1, Some(GenericArgument::Type(inner))) => Some(peel(inner)),
        _ => None,
    }
}

/// Whether the type's last word is this.
pub(crate) fn names(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

/// Opens the groups that `macro_rules!` leaves behind, and parentheses.
pub(crate) fn peel(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => peel(&group.elem),
        Type::Paren(paren) => peel(&paren.elem),
        ty => ty,
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;
    use syn::parse_quote;

    use super::*;

    fn read(argument: &FnArg) -> Result<Parameter, String> {
        let mut complaints = Complaints::default();
        let task = Ident::new("clean", Span::call_site());
        let parameter = Parameter::read(&task, argument, &mut complaints);
        match parameter {
            Some(parameter) if complaints.is_empty() => Ok(parameter),
            _ => Err(complaints.messages().join("\n")),
        }
    }

    #[test]
    fn the_type_says_how_a_value_is_handed_over_and_how_it_is_stored() {
        let cases: [(FnArg, Shape, &str); 9] = [
            (parse_quote!(a: Vec<User>), Shape::Owned, "Vec < User >"),
            (parse_quote!(a: &User), Shape::Borrowed, "User"),
            (parse_quote!(a: &[User]), Shape::Borrowed, ":: std :: vec :: Vec < User >"),
            (parse_quote!(a: &'a str), Shape::Borrowed, ":: std :: string :: String"),
            (parse_quote!(a: Option<User>), Shape::Optional, "User"),
            (
                parse_quote!(a: std::option::Option<&[User]>),
                Shape::OptionalBorrowed,
                ":: std :: vec :: Vec < User >",
            ),
            (parse_quote!(a: windlass::Outcome<User>), Shape::Outcome, "User"),
            (parse_quote!(a: Outcome<&str>), Shape::OutcomeBorrowed, ":: std :: string :: String"),
            (parse_quote!(input: Option<User>), Shape::Owned, "Option < User >"),
        ];
        for (argument, shape, stored) in cases {
            let parameter = read(&argument).unwrap();
            assert_eq!(parameter.shape, shape);
            assert_eq!(parameter.stored().to_string(), stored);
        }
    }

    #[test]
    fn a_resource_is_known_by_its_type_whatever_its_name() {
        let parameter = read(&parse_quote!(input: windlass::Res<Pool>)).unwrap();
        assert_eq!(parameter.kind, Kind::Resource);
        assert_eq!(read(&parse_quote!(tx: Res<Sender>)).unwrap().kind, Kind::Resource);
        assert_eq!(read(&parse_quote!(tx: &sqlite::Transaction<'_>)).unwrap().kind, Kind::Tx);
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused_with_the_way_out() {
        let cases: [(FnArg, &str); 9] = [
            (parse_quote!(tx: Transaction), "`tx: &windlass::postgres::Transaction`"),
            (parse_quote!(tx: &mut postgres::Transaction), "in an `async fn`"),
            (parse_quote!(tx: &Sender<u32>), "plain `fn`"),
            (parse_quote!(&self), "take it as `Res<T>`"),
            (parse_quote!(User { name, .. }: User), "has no name"),
            (parse_quote!(context: Context), "`context: &mut Context`"),
            (parse_quote!(cx: &mut Cx), "`cx: &Cx`"),
            (parse_quote!(extract: &mut Vec<User>), "recorded and cannot be changed"),
            (parse_quote!(extract: impl Into<String>), "cannot be generic"),
        ];
        for (argument, part) in cases {
            let said = read(&argument).err().unwrap_or_default();
            assert!(said.contains(part), "{said}");
        }
    }
}
