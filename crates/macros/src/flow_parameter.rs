//! What a durable function asks for: the type of a parameter says what it is, whatever its name.

use syn::{FnArg, Pat, PatType, Type, TypeReference, ext::IdentExt};

use crate::{
    complaint::Complaints,
    graph::written,
    parameter::{generic, names, peel},
};

/// One parameter of a durable function.
pub(crate) struct FlowParameter<'a> {
    pub(crate) pat: &'a Pat,
    pub(crate) ty: &'a Type,
    pub(crate) asks: Asks,
}

/// What a parameter stands for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Asks {
    /// The flow itself.
    Flow,
    /// A resource that was given to the engine.
    Resource,
    /// The run's input.
    Input,
}

impl<'a> FlowParameter<'a> {
    /// Reads a parameter, or says why it cannot be one.
    pub(crate) fn read(argument: &'a FnArg, complaints: &mut Complaints) -> Option<Self> {
        let PatType { attrs, pat, ty, .. } = match argument {
            FnArg::Typed(typed) => typed,
            FnArg::Receiver(receiver) => {
                let message =
                    "a flow has no `self`\nhelp: give the engine a resource, and take it as `Res<T>`";
                complaints.about(receiver, message);
                return None;
            }
        };
        if let Some(cfg) = attrs.iter().find(|attribute| attribute.path().is_ident("cfg")) {
            complaints.about(
                cfg,
                "a parameter of a flow cannot depend on `cfg`: the engine has to know what to hand over",
            );
        }
        let ty = peel(ty);
        let name = shown(pat);
        if let Some(message) = refusal(&name, ty) {
            complaints.about(ty, message);
            return None;
        }
        let asks = match ty {
            Type::Reference(reference) if names(peel(&reference.elem), "Flow") => Asks::Flow,
            ty if generic(ty, "Res").is_some() => Asks::Resource,
            _ => Asks::Input,
        };
        Some(Self { pat, ty, asks })
    }

    /// The type of the resource that the parameter asks for.
    pub(crate) fn resource(&self) -> Option<&'a Type> {
        generic(self.ty, "Res")
    }

    /// The parameter's name, as a message shows it.
    pub(crate) fn name(&self) -> String {
        shown(self.pat)
    }
}

/// Why a flow cannot be given this, and what to type instead.
fn refusal(name: &str, ty: &Type) -> Option<String> {
    let (referent, reference) = match ty {
        Type::Reference(reference) => (peel(&reference.elem), Some(reference)),
        ty => (ty, None),
    };
    let mutable = matches!(reference, Some(TypeReference { mutability: Some(_), .. }));
    if names(referent, "Flow") {
        return match reference {
            None => Some(format!("the engine keeps the `Flow` and lends it: write `{name}: &Flow`")),
            Some(_) if mutable => {
                Some(format!("a `Flow` is shared by all that happens at once: write `{name}: &Flow`"))
            }
            Some(_) => None,
        };
    }
    if names(referent, "Cx") || names(referent, "TaskCx") {
        return Some(format!(
            "a flow takes `&Flow`: write `{name}: &Flow`\nhelp: each step has a `Cx` of its own: \
             `{name}.step(\"charge\", |s: Cx| …)`"
        ));
    }
    if name == "context" && names(referent, "Context") {
        let message = "`context` is shared by the tasks of a graph, and a flow has none\nhelp: keep what you need in \
                       variables of the function";
        return Some(message.to_owned());
    }
    if is_transaction(referent) {
        let message =
            "a flow has no transaction: it takes `&Flow`, an input and resources, and lasts longer than one";
        return Some(message.to_owned());
    }
    if reference.is_some() && generic(referent, "Res").is_some() {
        return Some(format!(
            "a resource is taken by value, which is cheap: write `{name}: {}`",
            written(referent)
        ));
    }
    if let Type::ImplTrait(_) = referent {
        return Some("a flow cannot be generic: write the type itself".to_owned());
    }
    mutable.then(|| {
        format!(
            "`{name}` is the run's input, which is recorded and cannot be changed\nhelp: take a copy of your own with \
             `mut {name}: T`, or read it with `{name}: &T`"
        )
    })
}

/// Whether the type is a transaction of a store. One by that name alone may be an input like any other.
fn is_transaction(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let is_store = |module: &syn::PathSegment| module.ident == "sqlite" || module.ident == "postgres";
    names(ty, "Transaction") && path.path.segments.iter().any(is_store)
}

fn shown(pat: &Pat) -> String {
    match pat {
        Pat::Ident(pattern) => pattern.ident.unraw().to_string(),
        Pat::Wild(_) => "_".to_owned(),
        pat => written(pat),
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn asked(argument: &FnArg) -> Result<Asks, String> {
        let mut complaints = Complaints::default();
        let parameter = FlowParameter::read(argument, &mut complaints);
        parameter.map(|parameter| parameter.asks).ok_or_else(|| complaints.messages().join("\n"))
    }

    #[test]
    fn the_type_says_what_is_asked_for_whatever_the_name() {
        let cases: [(FnArg, Asks); 9] = [
            (parse_quote!(order: &Flow), Asks::Flow),
            (parse_quote!(_: &windlass::Flow), Asks::Flow),
            (parse_quote!(cx: windlass::Res<Bank>), Asks::Resource),
            (parse_quote!(order: Order), Asks::Input),
            (parse_quote!(mut cx: Order), Asks::Input),
            (parse_quote!((from, to): (u32, u32)), Asks::Input),
            (parse_quote!(lines: &[Line]), Asks::Input),
            (parse_quote!(tx: &Transaction), Asks::Input),
            (parse_quote!(limits: &Context), Asks::Input),
        ];
        for (argument, asks) in cases {
            assert_eq!(asked(&argument), Ok(asks));
        }
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused_with_the_way_out() {
        let cases: [(FnArg, &str); 10] = [
            (parse_quote!(&self), "take it as `Res<T>`"),
            (parse_quote!(flow: Flow), "write `flow: &Flow`"),
            (parse_quote!(flow: &mut windlass::Flow), "write `flow: &Flow`"),
            (parse_quote!(cx: &Cx), "write `cx: &Flow`"),
            (parse_quote!(cx: TaskCx), "write `cx: &Flow`"),
            (parse_quote!(context: &mut Context), "variables of the function"),
            (parse_quote!(tx: &windlass::sqlite::Transaction<'_>), "has no transaction"),
            (parse_quote!(bank: &Res<Bank>), "write `bank: Res<Bank>`"),
            (parse_quote!(order: impl Into<Order>), "cannot be generic"),
            (parse_quote!(order: &mut Order), "`mut order: T`"),
        ];
        for (argument, part) in cases {
            let said = asked(&argument).err().unwrap_or_default();
            assert!(said.contains(part), "{said}");
        }
    }
}
