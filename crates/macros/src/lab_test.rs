//! `#[windlass::test] async fn name(lab: Lab) -> Result<()> { … }`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{FnArg, ItemFn, Path, Token};

use crate::{complaint::Complaints, options, workflow};

/// Expands the attribute to an ordinary test that runs the body in a laboratory of its own.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut complaints = Complaints::default();
    let mut path: Option<Path> = None;
    options::read_all(arguments, &["crate"], &mut complaints, |_, input, _| {
        input.parse::<Token![=]>()?;
        path = Some(input.call(Path::parse_mod_style)?);
        Ok(())
    });
    let Ok(function) = syn::parse2::<ItemFn>(item.clone()) else {
        complaints.about(
            &item,
            "`#[windlass::test]` goes on a function: `async fn it_works(lab: Lab) -> Result<()>`",
        );
        let errors = complaints.into_tokens();
        return quote! { #item #errors };
    };
    check(&function, &mut complaints);
    if !complaints.is_empty() {
        let errors = complaints.into_tokens();
        return quote! { #item #errors };
    }
    let krate = workflow::krate(path.as_ref());
    let ItemFn { attrs, vis, sig, block, .. } = &function;
    let (ident, inputs, output) = (&sig.ident, &sig.inputs, &sig.output);
    // Without a parameter the body still runs in the laboratory's time.
    let call = if inputs.is_empty() {
        quote! { |_| #ident() }
    } else {
        quote! { #ident }
    };
    quote! {
        #(#attrs)*
        #[::core::prelude::v1::test]
        #vis fn #ident() #output {
            async fn #ident(#inputs) #output #block
            #krate::__macro::lab_test(#call)
        }
    }
}

fn check(function: &ItemFn, complaints: &mut Complaints) {
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        complaints.about(
            signature.fn_token,
            "write `async fn`: the laboratory's time passes where the test awaits",
        );
    }
    if let Some(second) = signature.inputs.iter().nth(1) {
        complaints
            .about(second, "a test takes the laboratory and nothing else: `async fn it_works(lab: Lab)`");
    }
    if let Some(receiver @ FnArg::Receiver(_)) = signature.inputs.first() {
        complaints.about(receiver, "a test has no `self`: `async fn it_works(lab: Lab)`");
    }
    if !signature.generics.params.is_empty() {
        complaints.about(&signature.generics, "a test cannot be generic");
    }
}
