//! `#[workflow] mod etl { … }`.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Item, LitStr, Meta, Path, Token, ext::IdentExt, parse::ParseStream};

use crate::{
    complaint::Complaints,
    duration,
    emit::{self, Surroundings},
    graph, options,
    task::{TaskFn, TaskOptions, is_task},
    undo::{self, UndoFn},
};

const KNOWN: [&str; 9] =
    ["name", "output", "description", "version", "fail_fast", "durability", "timeout", "spread", "crate"];

/// What stands between the parentheses of `#[workflow(…)]`.
#[derive(Default)]
struct WorkflowOptions {
    name: Option<LitStr>,
    output: Option<Ident>,
    description: Option<LitStr>,
    version: Option<LitStr>,
    fail_fast: bool,
    pipelined: bool,
    timeout: Option<Duration>,
    spread: bool,
    krate: Option<Path>,
}

impl WorkflowOptions {
    fn read(tokens: TokenStream, complaints: &mut Complaints) -> Self {
        let mut workflow = Self::default();
        options::read_all(tokens, &KNOWN, complaints, |name, input, complaints| {
            workflow.read_one(name, input, complaints)
        });
        workflow
    }

    fn read_one(&mut self, name: &Ident, input: ParseStream, complaints: &mut Complaints) -> syn::Result<()> {
        match name.to_string().as_str() {
            "name" => {
                let text = options::text(name, "\"etl\"", input)?;
                options::check_name(&text, complaints);
                self.name = Some(text);
            }
            "output" => self.output = Some(options::task_name(name, input)?),
            "description" => self.description = Some(options::text(name, "\"What it is for.\"", input)?),
            "version" => self.version = Some(version(name, input)?),
            "fail_fast" => self.fail_fast = true,
            "durability" => self.pipelined = pipelined(&options::text(name, "\"pipelined\"", input)?)?,
            "timeout" => self.timeout = Some(options::length(name, input)?),
            "spread" => self.spread = true,
            "crate" => {
                input.parse::<Token![=]>()?;
                self.krate = Some(input.call(Path::parse_mod_style)?);
            }
            other => unreachable!("`{other}` is not among the options of a workflow"),
        }
        Ok(())
    }
}

/// A version set by hand.
pub(crate) fn version(name: &Ident, input: ParseStream) -> syn::Result<LitStr> {
    let text = options::text(name, "\"2\"", input)?;
    if text.value().trim().is_empty() {
        return Err(syn::Error::new(text.span(), "`version` cannot be empty: write `version = \"2\"`"));
    }
    Ok(text)
}

/// Whether dependents may start before a commit.
pub(crate) fn pipelined(literal: &LitStr) -> syn::Result<bool> {
    match literal.value().as_str() {
        "pipelined" => Ok(true),
        "strict" => Ok(false),
        other => Err(syn::Error::new(
            literal.span(),
            format!(
                "`durability` cannot be `{other}`: it is \"strict\", which is the default, or \"pipelined\""
            ),
        )),
    }
}

/// The path to the `windlass` crate, as the author's crate sees it.
pub(crate) fn krate(path: Option<&Path>) -> TokenStream {
    path.map_or_else(|| quote! { ::windlass }, ToTokens::to_token_stream)
}

/// Expands the attribute. The author's module is emitted whatever is wrong with it.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut complaints = Complaints::default();
    let options = WorkflowOptions::read(arguments, &mut complaints);
    let Ok(Item::Mod(mut module)) = syn::parse2::<Item>(item.clone()) else {
        complaints.at(
            Span::call_site(),
            "`#[workflow]` goes on a module: `#[workflow] mod etl { … }`\nhelp: to compose tasks that stand alone, use `compose!`",
        );
        let errors = complaints.into_tokens();
        return quote! { #item #errors };
    };
    let krate = krate(options.krate.as_ref());
    let Some((_, items)) = &mut module.content else {
        let message = format!(
            "`#[workflow]` sees only what is written in place\n\
             help: write `mod {} {{ … }}`, with the tasks between the braces",
            module.ident
        );
        complaints.about(&module.ident, message);
        let errors = complaints.into_tokens();
        return quote! { #module #errors };
    };
    let mut tasks = tasks(items, &mut complaints);
    let undos = undo::read(items, &mut complaints);
    for task in &mut tasks {
        if let Some(undo) = undos.iter().find(|undo| undo.is_for(task)) {
            // A change of it is a change of the task.
            task.code = format!("{}+{}", task.code, undo.function.code);
        }
    }
    if tasks.is_empty() {
        let message =
            "a workflow needs at least one task\nhelp: write `#[task]` above a function in the module";
        complaints.about(&module.ident, message);
    }
    graph::check(&tasks, &mut complaints);
    undo::check(&undos, &tasks, &mut complaints);
    // Which task is the last cannot be told while names or edges are wrong.
    let output = if complaints.is_empty() || options.output.is_some() {
        graph::output(&tasks, options.output.as_ref(), Span::call_site(), &mut complaints)
    } else {
        None
    };
    let taken = taken(items, &mut complaints);
    let function = Function {
        options: &options,
        module: &module.ident,
        tasks: &tasks,
        undos: &undos,
        output,
        krate: &krate,
    };
    if !taken {
        items.push(Item::Verbatim(function.emit(complaints.is_empty())));
    }
    items.push(Item::Verbatim(complaints.into_tokens()));
    module.into_token_stream()
}

/// Reads the tasks of a module, and leaves a mark on each that stops `#[task]` from expanding on its own.
///
/// The attribute itself stays, so that editors know it and the author's import of it is in use.
fn tasks(items: &mut [Item], complaints: &mut Complaints) -> Vec<TaskFn> {
    let mut tasks = Vec::new();
    for item in items {
        let Item::Fn(function) = item else { continue };
        let Some(at) = function.attrs.iter().position(is_task) else { continue };
        let arguments = match &function.attrs[at].meta {
            Meta::Path(_) => TokenStream::new(),
            Meta::List(list) => list.tokens.clone(),
            Meta::NameValue(pair) => {
                complaints.about(pair, "options go in parentheses: `#[task(timeout = \"30s\")]`");
                TokenStream::new()
            }
        };
        let options = TaskOptions::read(arguments, complaints);
        if let Some(path) = &options.krate {
            complaints.about(path, "the workflow already says where the crate is: `#[workflow(crate = …)]`");
        }
        tasks.push(TaskFn::read(function, options, complaints));
        let path = function.attrs[at].path();
        function.attrs[at] = syn::parse_quote! { #[#path(__windlass_read)] };
    }
    tasks
}

/// Whether the name of the function that is to be added is in use.
fn taken(items: &[Item], complaints: &mut Complaints) -> bool {
    let taken = items.iter().find_map(|item| match item {
        Item::Fn(item) if item.sig.ident == "workflow" => {
            Some((&item.sig.ident, item.attrs.iter().any(is_task)))
        }
        Item::Const(item) if item.ident == "workflow" => Some((&item.ident, false)),
        Item::Static(item) if item.ident == "workflow" => Some((&item.ident, false)),
        _ => None,
    });
    // A task of that name was complained about already.
    if let Some((ident, false)) = taken {
        let message = "`#[workflow]` adds a function `workflow` to this module: give this one another name";
        complaints.about(ident, message);
    }
    taken.is_some()
}

/// The function `workflow` that is added to the module.
struct Function<'a> {
    options: &'a WorkflowOptions,
    module: &'a Ident,
    tasks: &'a [TaskFn],
    undos: &'a [UndoFn],
    output: Option<&'a TaskFn>,
    krate: &'a TokenStream,
}

impl Function<'_> {
    /// When something is wrong, only the signature is real: the editor still knows the type at every use.
    fn emit(&self, sound: bool) -> TokenStream {
        let krate = self.krate;
        let input = self.input();
        let output = self.output.map_or_else(|| quote! { #krate::__macro::Value }, |task| task.value(krate));
        let body = if sound {
            self.body(&input, &output)
        } else {
            quote! { ::core::unreachable!() }
        };
        let doc = format!("The workflow `{}`. It is made once; a copy is cheap.", self.name());
        quote! {
            #[doc = #doc]
            #[allow(clippy::all, clippy::pedantic, clippy::nursery, private_interfaces)]
            pub fn workflow() -> #krate::Workflow<#input, #output> { #body }
        }
    }

    fn body(&self, input: &TokenStream, output: &TokenStream) -> TokenStream {
        let krate = self.krate;
        let options = self.options;
        let tasks = self.tasks.iter().map(|task| self.task(task, input));
        let parts = Parts {
            name: &self.name(),
            description: options.description.as_ref(),
            version: options.version.as_ref(),
            output: self.output.map(TaskFn::name).map(|name| quote! { #name }),
            fail_fast: options.fail_fast,
            spread: options.spread,
            pipelined: options.pipelined,
            timeout: options.timeout,
        };
        let parts = parts.emit(krate);
        quote! {
            static __WINDLASS_WORKFLOW: ::std::sync::OnceLock<#krate::Workflow<#input, #output>> =
                ::std::sync::OnceLock::new();
            ::core::clone::Clone::clone(__WINDLASS_WORKFLOW.get_or_init(|| {
                #krate::__macro::build(#parts, ::std::vec![#(#tasks),*])
            }))
        }
    }

    fn task(&self, task: &TaskFn, input: &TokenStream) -> TokenStream {
        let krate = self.krate;
        let value = |name: &Ident| {
            graph::find(self.tasks, name).map_or_else(TokenStream::new, |task| task.value(krate))
        };
        let name =
            |name: &Ident| graph::find(self.tasks, name).map_or_else(|| name.to_string(), TaskFn::name);
        let items = task.options.for_each.as_ref().map(&value).unwrap_or_default();
        let around = Surroundings { krate, input: input.clone(), value: &value, items, name: &name };
        let (parts, code) = (emit::parts(task, &around), emit::code(task, &around));
        let undo = self.undos.iter().find(|undo| undo.is_for(task));
        let undo = undo.map(|undo| undo.emit(task, krate, input));
        quote! { (#parts, #code #undo) }
    }

    fn input(&self) -> TokenStream {
        let undos = self.undos.iter().map(|undo| &undo.function);
        self.tasks
            .iter()
            .chain(undos)
            .find_map(TaskFn::input)
            .map_or_else(|| quote! { () }, |parameter| parameter.stored())
    }

    fn name(&self) -> String {
        self.options.name.as_ref().map_or_else(|| self.module.unraw().to_string(), LitStr::value)
    }
}

/// What a workflow says about itself as a whole.
pub(crate) struct Parts<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: Option<&'a LitStr>,
    pub(crate) version: Option<&'a LitStr>,
    /// An expression for the name of the output task.
    pub(crate) output: Option<TokenStream>,
    pub(crate) fail_fast: bool,
    pub(crate) pipelined: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) spread: bool,
}

impl Parts<'_> {
    /// The expression for a `WorkflowParts`.
    pub(crate) fn emit(&self, krate: &TokenStream) -> TokenStream {
        let name = self.name;
        let text = |text: Option<&LitStr>| emit::option(text.map(ToTokens::to_token_stream));
        let (description, version) = (text(self.description), text(self.version));
        let output = emit::option(self.output.clone());
        let on_failure = if self.fail_fast {
            quote! { FailFast }
        } else {
            quote! { FinishOthers }
        };
        let durability = if self.pipelined {
            quote! { Pipelined }
        } else {
            quote! { Strict }
        };
        let spread = self.spread;
        let timeout = emit::option(self.timeout.map(|timeout| duration::emit(krate, timeout)));
        quote! {
            #krate::__macro::WorkflowParts {
                name: #name,
                description: #description,
                version: #version,
                output: #output,
                on_failure: #krate::__macro::OnFailure::#on_failure,
                durability: #krate::__macro::Durability::#durability,
                timeout: #timeout,
                spread: #spread,
            }
        }
    }
}

/// Whether a task was already read by the workflow that it stands in.
pub(crate) fn is_read(arguments: &TokenStream) -> bool {
    arguments.to_string() == "__windlass_read"
}
