//! The macros work whatever the author's names are, and whatever the crate is called.

use super::*;

mod elsewhere {
    pub use windlass as wind;
}

/// A crate under another name, and a module whose own names are those that emitted code might use.
#[allow(non_camel_case_types, dead_code, clippy::enum_variant_names)]
mod hostile {
    use super::elsewhere::wind;

    pub(crate) enum Option {}
    pub(crate) enum Vec {}
    pub(crate) enum Box {}
    pub(crate) enum String {}
    pub(crate) struct Some;
    pub(crate) struct None;
    pub(crate) struct Ok;
    pub(crate) struct Err;
    pub(crate) trait Clone {
        fn clone(&self) {}
    }
    pub(crate) trait Default {}
    impl<T> Clone for T {}

    #[wind::prelude::workflow(crate = crate::hygiene::elsewhere::wind, name = "hostile-names", output = r#match)]
    pub(crate) mod graph {
        use super::wind::task;
        #[allow(unused_imports)]
        use super::*;

        #[task]
        pub(crate) async fn call(input: &str) -> wind::Result<u32> {
            std::result::Result::Ok(input.len() as u32)
        }

        #[task(retry(on = never))]
        pub(crate) fn value(call: u32, context: &mut wind::Context) -> wind::Result<u32> {
            context.set("seen", call)?;
            std::result::Result::Ok(call)
        }

        #[task(when = done(value))]
        pub(crate) async fn r#match(value: wind::Outcome<u32>) -> wind::Result<bool> {
            std::result::Result::Ok(value.is_completed())
        }
    }

    #[wind::task(crate = crate::hygiene::elsewhere::wind)]
    pub(crate) async fn alone(input: u32) -> wind::Result<u32> {
        std::result::Result::Ok(input)
    }

    pub(crate) fn composed() -> wind::Workflow<u32, u32> {
        wind::compose! { name: "alone", tasks: [alone], crate: crate::hygiene::elsewhere::wind }
    }
}

#[test]
fn a_renamed_crate_and_hostile_names_change_nothing() {
    let workflow: windlass::Workflow<String, bool> = hostile::graph::workflow();
    assert_eq!(workflow.name(), "hostile-names");
    assert_eq!(result::<u32>(&workflow, "call", call(slot("four"), [])).unwrap(), 4);
    let done = run(&workflow, "value", call(slot(""), [slot(4)])).unwrap();
    assert_eq!(done.changes.set["seen"], 4);
    assert_eq!(result::<u32>(hostile::composed(), "alone", call(slot(9), [])).unwrap(), 9);
}

/// Nothing is imported, and every path is written out.
#[windlass::workflow]
mod written_out {
    #[windlass::task]
    async fn only(input: u32, cx: &windlass::Cx) -> windlass::Result<u32> {
        Ok(input + cx.attempt())
    }
}

#[test]
fn nothing_needs_to_be_imported() {
    assert_eq!(result::<u32>(written_out::workflow(), "only", call(slot(1), [])).unwrap(), 2);
}

macro_rules! workflow_of {
    ($name:ident, $type:ty, $value:expr) => {
        #[windlass::workflow]
        mod $name {
            #[windlass::task]
            async fn first(input: $type) -> windlass::Result<$type> {
                Ok(input + $value)
            }

            #[windlass::task]
            async fn second(first: &$type) -> windlass::Result<$type> {
                Ok(*first)
            }
        }
    };
}

workflow_of!(from_a_macro, u32, 2);

#[test]
fn a_workflow_may_come_out_of_a_macro() {
    assert_eq!(result::<u32>(from_a_macro::workflow(), "first", call(slot(1), [])).unwrap(), 3);
}
