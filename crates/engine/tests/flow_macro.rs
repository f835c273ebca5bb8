//! `#[flow]`: what a durable function may ask for, what it is handed, and what it leaves behind.

#![cfg(all(feature = "macros", feature = "testing"))]

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use windlass::{AnyWorkflow, Verdict, prelude::*, testing::Lab};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    cents: u64,
    lines: Vec<String>,
}

impl Order {
    fn of(cents: u64) -> Self {
        Self { cents, lines: vec!["tea".to_owned(), "cake".to_owned()] }
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    charge: String,
    label: String,
    invoice: u64,
}

#[derive(Default)]
struct Bank {
    charges: AtomicU32,
}

impl Bank {
    async fn charge(&self, order: &Order) -> Result<String, Declined> {
        self.charges.fetch_add(1, Ordering::SeqCst);
        if order.cents > 1000 {
            return Err(Declined { code: 51 });
        }
        Ok(format!("charged {}", order.cents))
    }
}

struct Post {
    town: &'static str,
}

#[derive(Debug, Serialize)]
struct Declined {
    code: u16,
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "declined ({})", self.code)
    }
}

impl std::error::Error for Declined {}

/// Sells an order,
/// and sends it.
///
/// The parcel may take days.
#[flow]
async fn checkout(bank: Res<Bank>, order: &Order, flow: &Flow, post: Res<Post>) -> Result<Receipt> {
    let (bank, post) = (&bank, &post);
    let charge = flow.step("charge", || async move { bank.charge(order).await }).await?;
    flow.sleep(Duration::from_secs(14 * 86_400)).await?;
    let (label, invoice) = tokio::try_join!(
        flow.step("label", || async move {
            Ok::<_, Failure>(format!("{} to {}", order.lines.join(" and "), post.town))
        }),
        flow.step("invoice", || async move { Ok::<_, Failure>(order.cents) }),
    )?;
    Ok(Receipt { charge, label, invoice })
}

#[windlass::test]
async fn a_flow_borrows_its_input_takes_resources_and_joins_its_steps(lab: Lab) -> Result<()> {
    let engine = lab
        .engine()
        .resource(Bank::default())
        .resource(Post { town: "Turin" })
        .workflow(checkout::workflow())
        .launch()
        .await?;
    let begun = lab.now();
    let run = engine.start(checkout::workflow(), Order::of(420)).await?;
    let receipt = run.await?;
    assert_eq!(
        receipt,
        Receipt { charge: "charged 420".into(), label: "tea and cake to Turin".into(), invoice: 420 }
    );
    assert!(lab.now().since(begun) >= Duration::from_secs(14 * 86_400));
    Ok(())
}

#[windlass::test]
async fn a_flow_that_is_crashed_in_its_sleep_goes_on_elsewhere_without_charging_twice(
    lab: Lab,
) -> Result<()> {
    let bank = Arc::new(Bank::default());
    let launch = || {
        let engine = lab.engine().shared(Arc::clone(&bank));
        engine.resource(Post { town: "Turin" }).workflow(checkout::workflow()).launch()
    };
    let first = launch().await?;
    let id = first.start(checkout::workflow(), Order::of(420)).await?.id();
    lab.advance(Duration::from_secs(86_400)).await;
    assert_eq!(bank.charges.load(Ordering::SeqCst), 1);
    lab.crash(&first);
    let second = launch().await?;
    let receipt = second.run(&checkout::workflow(), id).await?;
    assert_eq!(receipt.invoice, 420);
    assert_eq!(bank.charges.load(Ordering::SeqCst), 1);
    Ok(())
}

#[windlass::test]
async fn a_resource_that_the_engine_was_not_given_is_named_before_anything_runs(lab: Lab) {
    let error =
        lab.engine().resource(Bank::default()).workflow(checkout::workflow()).launch().await.unwrap_err();
    assert!(error.to_string().contains("Post"), "{error}");
}

/// An error of its own, which `?` makes of others.
#[derive(Debug, Serialize)]
enum Refused {
    TooMuch { most: u64 },
    Elsewhere(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMuch { most } => write!(f, "more than {most}"),
            Self::Elsewhere(why) => write!(f, "elsewhere: {why}"),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Elsewhere(failure.message)
    }
}

#[flow(name = "small-orders", version = "2", timeout = "30d")]
async fn small(mut order: Order, cx: &Flow) -> Result<u64, Refused> {
    order.cents += cx
        .step("fee", || async {
            if order.cents == 13 { Err(Failure::permanent("unlucky")) } else { Ok(5_u64) }
        })
        .await?;
    if order.cents > 100 {
        return Err(Refused::TooMuch { most: 100 });
    }
    Ok(order.cents)
}

#[windlass::test]
async fn an_error_of_the_flows_own_type_keeps_its_value(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(small::workflow()).launch().await?;
    assert_eq!(engine.start(small::workflow(), Order::of(20)).await?.await?, 25);
    for (cents, value) in [
        (200, serde_json::json!({ "TooMuch": { "most": 100 } })),
        (13, serde_json::json!({ "Elsewhere": "unlucky" })),
    ] {
        let mut run = engine.start(small::workflow(), Order::of(cents)).await?;
        assert!((&mut run).await.is_err());
        let Some(Verdict::Failed { failure, .. }) = run.status().await?.verdict else {
            panic!("it did not fail")
        };
        assert_eq!(failure.value.as_deref(), Some(&value));
        assert!(failure.type_name.as_deref().is_some_and(|name| name.ends_with("Refused")), "{failure:?}");
    }
    Ok(())
}

mod shop {
    use windlass::{Flow, Result};

    /// Nothing is imported under its usual name, and there is no input.
    #[windlass::flow]
    pub(crate) async fn r#loop(_: &Flow) -> Result<()> {
        Ok(())
    }

    #[windlass::flow]
    pub(crate) async fn count(lines: &[String], _cx: &windlass::Flow) -> windlass::Result<usize> {
        Ok(lines.len())
    }

    #[windlass::flow]
    pub(crate) async fn sum(_cx: &Flow, (one, other): (usize, usize)) -> Result<usize> {
        Ok(one + other)
    }

    /// A flow stays a function, and another one may call it.
    #[windlass::flow]
    pub(crate) async fn twice(cx: &Flow, lines: &[String]) -> Result<usize> {
        let number = count(lines, cx).await?;
        sum(cx, (number, number)).await
    }
}

#[windlass::test]
async fn the_input_may_be_nothing_a_slice_or_taken_apart(lab: Lab) -> Result<()> {
    use shop::{r#loop, sum, twice};

    let engine =
        lab.engine().workflow(r#loop::workflow()).workflow(twice::workflow()).workflow(sum::workflow());
    let engine = engine.launch().await?;
    engine.start(r#loop::workflow(), ()).await?.await?;
    assert_eq!(engine.start(twice::workflow(), vec!["tea".to_owned()]).await?.await?, 2);
    assert_eq!(engine.start(sum::workflow(), (2, 3)).await?.await?, 5);
    Ok(())
}

#[test]
fn a_flow_says_what_it_is_called_and_what_it_is_for() {
    let workflow = AnyWorkflow::from(checkout::workflow());
    let definition = workflow.definition();
    assert_eq!(&*definition.name, "checkout");
    assert_eq!(definition.description.as_deref(), Some("Sells an order, and sends it."));
    assert_eq!(definition.timeout, None);
    assert_eq!(shop::r#loop::workflow().name(), "loop");

    let workflow = AnyWorkflow::from(small::workflow());
    let definition = workflow.definition();
    assert_eq!((&*definition.name, &*definition.version), ("small-orders", "2"));
    assert_eq!(definition.timeout, Some(Duration::from_secs(30 * 86_400)));
}

#[test]
fn what_a_flow_says_about_itself_does_not_change_its_version_but_its_code_does() {
    mod before {
        #[windlass::flow]
        pub(super) async fn work(_cx: &windlass::Flow) -> windlass::Result<u32> {
            Ok(1)
        }
    }
    mod described {
        /// Does it.
        #[windlass::flow]
        #[allow(unused)]
        pub async fn work(_cx: &windlass::Flow) -> windlass::Result<u32> {
            Ok(1)
        }
    }
    mod changed {
        #[windlass::flow]
        pub(super) async fn work(_cx: &windlass::Flow) -> windlass::Result<u32> {
            Ok(2)
        }
    }
    let version = |workflow: Workflow<(), u32>| AnyWorkflow::from(workflow).definition().version.to_string();
    assert_eq!(version(before::work::workflow()), version(described::work::workflow()));
    assert_ne!(version(before::work::workflow()), version(changed::work::workflow()));
}

/// A crate under another name, and names that emitted code might use.
#[allow(non_camel_case_types, dead_code)]
mod hostile {
    pub(crate) mod elsewhere {
        pub(crate) use windlass as wind;
    }
    use elsewhere::wind;

    pub(crate) enum Option {}
    pub(crate) enum Vec {}
    pub(crate) enum Box {}
    pub(crate) enum Arc {}
    pub(crate) enum Workflow {}
    pub(crate) struct Some;
    pub(crate) struct None;
    pub(crate) struct Ok;
    pub(crate) struct Err;
    pub(crate) trait Clone {
        fn clone(&self) {}
    }
    impl<T> Clone for T {}

    #[wind::flow(crate = crate::hostile::elsewhere::wind)]
    pub(crate) async fn call(flow: &wind::Flow, output: u32, input: wind::Res<i8>) -> wind::Result<u32> {
        let fetched = flow.step("add", || async { std::result::Result::<_, wind::Failure>::Ok(1) }).await?;
        std::result::Result::Ok(output + fetched + u32::from(input.unsigned_abs()))
    }
}

#[windlass::test]
async fn a_renamed_crate_and_hostile_names_change_nothing(lab: Lab) -> Result<()> {
    let engine = lab.engine().resource(3_i8).workflow(hostile::call::workflow()).launch().await?;
    assert_eq!(engine.start(hostile::call::workflow(), 4).await?.await?, 8);
    Ok(())
}

macro_rules! flow_of {
    ($name:ident, $input:ty, $($code:tt)*) => {
        #[windlass::flow]
        async fn $name(_cx: &windlass::Flow, input: $input) -> windlass::Result<$input> {
            Ok($($code)*(input))
        }
    };
}

#[windlass::test]
async fn a_flow_may_come_out_of_a_macro_and_stand_in_a_function(lab: Lab) -> Result<()> {
    flow_of!(doubled, u32, (|number: u32| number * 2));

    let engine = lab.engine().workflow(doubled::workflow()).launch().await?;
    assert_eq!(engine.start(doubled::workflow(), 4).await?.await?, 8);
    Ok(())
}
