//! `#[derive(MachineState)]`: the names of the states of a machine.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Fields, Path, ext::IdentExt};

use crate::complaint::Complaints;

/// Derives `MachineState` for an enum whose variants carry nothing.
pub(crate) fn expand(tokens: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(tokens) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut complaints = Complaints::default();
    let krate = krate(&input, &mut complaints);
    let Data::Enum(states) = &input.data else {
        complaints.about(&input.ident, "the states of a machine are the variants of an `enum`");
        return complaints.into_tokens();
    };
    if states.variants.is_empty() {
        complaints.about(&input.ident, "a machine has states: each is a variant of this `enum`");
    }
    if !input.generics.params.is_empty() {
        complaints.about(&input.generics, "the states of a machine have no parameters");
    }
    for variant in &states.variants {
        if !matches!(variant.fields, Fields::Unit) {
            complaints.about(
                variant,
                "a state carries nothing: what belongs to a run beside its state is the machine's `data`",
            );
        }
    }
    if !complaints.is_empty() {
        return complaints.into_tokens();
    }
    let ident = &input.ident;
    let idents = states.variants.iter().map(|variant| &variant.ident);
    let names: Vec<String> =
        states.variants.iter().map(|variant| variant.ident.unraw().to_string()).collect();
    quote! {
        impl #krate::machine::MachineState for #ident {
            const STATES: &'static [&'static str] = &[#(#names),*];

            fn name(&self) -> &'static str {
                match self {
                    #(Self::#idents => #names,)*
                }
            }
        }
    }
}

/// `#[machine_state(crate = path)]`.
fn krate(input: &DeriveInput, complaints: &mut Complaints) -> TokenStream {
    let mut path = quote! { ::windlass };
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("machine_state")) {
        let read = attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("only `crate = path` can be said here"));
            }
            let given = meta.value()?.call(Path::parse_mod_style)?;
            path = quote! { #given };
            Ok(())
        });
        if let Err(error) = read {
            complaints.add(error);
        }
    }
    path
}
