//! A workflow: what it is, and the code that does it.

use std::{collections::BTreeSet, fmt, marker::PhantomData, sync::Arc};

use serde_json::Value;
use windlass_core::{Definition, to_dot, to_json, to_mermaid};

use super::{Resources, TaskCode, WorkflowBuilder};

/// A graph of tasks with their code, which takes an `I` and gives an `O`.
///
/// A copy is cheap. It is made by `#[workflow]`, by `compose!`, or at run time with [`Workflow::builder`].
pub struct Workflow<I = Value, O = Value> {
    any: AnyWorkflow,
    types: PhantomData<fn(I) -> O>,
}

/// A workflow whose types are forgotten, as an engine keeps it.
#[derive(Clone)]
pub struct AnyWorkflow {
    inner: Arc<Inner>,
}

struct Inner {
    definition: Arc<Definition>,
    code: Vec<TaskCode>,
    /// What its input looks like, as a JSON schema.
    input_schema: Option<Value>,
    /// Older versions, for the runs that began under them.
    kept: Vec<AnyWorkflow>,
}

impl Workflow {
    /// Begins a workflow that is made at run time. It takes and gives JSON, unless it is
    /// [`typed`](Workflow::typed) afterwards.
    pub fn builder(name: impl Into<String>) -> WorkflowBuilder {
        WorkflowBuilder::new(name)
    }
}

impl<I, O> Workflow<I, O> {
    /// What runs of it are found by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.definition().name
    }

    /// A stable hash of its structure, policies and code, or what the author set by hand.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.definition().version
    }

    /// What it is, as data.
    #[must_use]
    pub fn definition(&self) -> &Arc<Definition> {
        self.any.definition()
    }

    /// The graph as Mermaid, for a README.
    #[must_use]
    pub fn to_mermaid(&self) -> String {
        to_mermaid(self.definition())
    }

    /// The graph as DOT, for Graphviz.
    #[must_use]
    pub fn to_dot(&self) -> String {
        to_dot(self.definition())
    }

    /// The graph as JSON, for a program.
    #[must_use]
    pub fn to_json(&self) -> Value {
        to_json(self.definition())
    }

    /// Says what its input looks like, as a JSON schema, so that a page can make a form of it. It is for people: nothing is
    /// checked against it, and the version stays the same.
    #[must_use]
    pub fn input_schema(self, schema: Value) -> Self {
        self.any.with_input_schema(schema).typed()
    }

    /// The same, from the type of its input.
    #[cfg(feature = "schemars")]
    #[must_use]
    pub fn derived_input_schema(self) -> Self
    where
        I: schemars::JsonSchema,
    {
        self.input_schema(schemars::schema_for!(I).to_value())
    }

    /// The same workflow with other types, which the caller vouches for.
    ///
    /// Runs store JSON, so a wrong type is found when it does not fit: the input's by the first task that reads
    /// it, the output's by whoever waits for the run.
    #[must_use]
    pub fn typed<J, P>(self) -> Workflow<J, P> {
        self.any.typed()
    }
}

impl AnyWorkflow {
    /// A workflow of this definition, with one piece of code per task.
    pub(crate) fn new(definition: Definition, code: Vec<TaskCode>) -> Self {
        debug_assert_eq!(definition.tasks.len(), code.len());
        Self {
            inner: Arc::new(Inner {
                definition: Arc::new(definition),
                code,
                input_schema: None,
                kept: Vec::new(),
            }),
        }
    }

    /// The same workflow, which keeps these older versions for the runs that began under them.
    pub(crate) fn keeping(&self, kept: Vec<Self>) -> Self {
        let (definition, code) = (Arc::clone(self.definition()), self.inner.code.clone());
        let input_schema = self.inner.input_schema.clone();
        Self { inner: Arc::new(Inner { definition, code, input_schema, kept }) }
    }

    /// The same workflow, whose input looks so.
    fn with_input_schema(&self, schema: Value) -> Self {
        let (definition, code) = (Arc::clone(self.definition()), self.inner.code.clone());
        let (input_schema, kept) = (Some(schema), self.inner.kept.clone());
        Self { inner: Arc::new(Inner { definition, code, input_schema, kept }) }
    }

    pub(crate) fn input_schema(&self) -> Option<&Value> {
        self.inner.input_schema.as_ref()
    }

    /// The older versions that it keeps, and those that these keep, each once.
    pub(crate) fn kept(&self) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for old in &self.inner.kept {
            for old in std::iter::once(old.clone()).chain(old.kept()) {
                if !all.iter().any(|known| Arc::ptr_eq(&known.inner, &old.inner)) {
                    all.push(old);
                }
            }
        }
        all
    }

    /// Why it cannot be run with these resources.
    pub(crate) fn problems(&self, resources: &Resources) -> Vec<String> {
        let (name, kept) = (&self.definition().name, self.kept());
        let all = || std::iter::once(self).chain(&kept);
        let mut problems: Vec<String> =
            all().flat_map(|one| resources.missing(one)).map(|missing| missing.to_string()).collect();
        for old in &kept {
            let other = &old.definition().name;
            if name != other {
                problems.push(format!(
                    "`{name}` keeps `{other}`, which is another workflow: give the older one `name = \"{name}\"`"
                ));
            }
        }
        let versions: BTreeSet<_> = all().map(|one| &one.definition().version).collect();
        if versions.len() <= kept.len() {
            problems.push(format!(
                "two of the versions of `{name}` that are kept are the same ({}): give each `version = \"…\"` of its own",
                all().map(|one| &*one.definition().version).collect::<Vec<_>>().join(", ")
            ));
        }
        problems
    }

    /// What it is, as data.
    #[must_use]
    pub fn definition(&self) -> &Arc<Definition> {
        &self.inner.definition
    }

    /// The code of its tasks, in the order of the definition.
    #[doc(hidden)]
    #[must_use]
    pub fn code(&self) -> &[TaskCode] {
        &self.inner.code
    }

    /// The workflow with types that the caller vouches for.
    pub(crate) fn typed<I, O>(self) -> Workflow<I, O> {
        Workflow { any: self, types: PhantomData }
    }
}

impl<I, O> Clone for Workflow<I, O> {
    fn clone(&self) -> Self {
        Self { any: self.any.clone(), types: PhantomData }
    }
}

impl<I, O> From<Workflow<I, O>> for AnyWorkflow {
    fn from(workflow: Workflow<I, O>) -> Self {
        workflow.any
    }
}

impl<I, O> From<&Workflow<I, O>> for AnyWorkflow {
    fn from(workflow: &Workflow<I, O>) -> Self {
        workflow.any.clone()
    }
}

impl<I, O> fmt::Debug for Workflow<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.any.fmt(f)
    }
}

impl fmt::Debug for AnyWorkflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let definition = self.definition();
        f.debug_struct("Workflow")
            .field("name", &definition.name)
            .field("version", &definition.version)
            .field("tasks", &definition.tasks.len())
            .finish_non_exhaustive()
    }
}
