//! A run goes from state to state, and what is recorded is not done again.

use serde::{Deserialize, Serialize};
use windlass::{Event, Failure, Flow, Result, RunState, machine, machine::MachineState, testing::Lab};

use crate::tally::{Tally, secs};

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Order {
    New,
    Paid,
    Packed,
    Shipped,
    Rejected,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Cart {
    amount: u32,
    laps: u32,
    trail: Vec<String>,
    ends: Option<String>,
}

struct Fulfilment(Tally);

const GO: Event<u32> = Event::new("go");

impl Fulfilment {
    async fn booked(&self, cx: &Flow, name: &'static str) -> Result<u32> {
        let (doing, undoing) = (&self.0, self.0.clone());
        cx.step(name, || async move {
            doing.add(name);
            Ok::<_, Failure>(7)
        })
        .undo(move |_: u32| async move {
            undoing.add(format!("undo {name}"));
            Ok::<_, Failure>(())
        })
        .await
    }
}

#[machine(state = Order, data = Cart, initial = New, terminal = [Shipped, Rejected])]
impl Fulfilment {
    #[on(New, to = [Paid, Rejected])]
    async fn pay(&self, cx: &Flow, data: &mut Cart) -> Result<Order> {
        self.0.add("body New");
        data.trail.push("New".to_owned());
        data.amount += self.booked(cx, "charge").await?;
        if data.ends.as_deref() == Some("reject") {
            return Ok(Order::Rejected);
        }
        Ok(Order::Paid)
    }

    #[on(Paid, to = [Packed, New])]
    async fn pack(&self, cx: &Flow, data: &mut Cart) -> Result<Order> {
        self.0.add("body Paid");
        data.trail.push("Paid".to_owned());
        self.booked(cx, "pack").await?;
        if data.laps > 0 {
            data.laps -= 1;
            return Ok(Order::New);
        }
        Ok(Order::Packed)
    }

    #[on(Packed, to = [Shipped])]
    async fn ship(&self, cx: &Flow, data: &mut Cart) -> Result<Order> {
        self.0.add("body Packed");
        data.trail.push("Packed".to_owned());
        data.amount += cx.event(GO).await?;
        cx.sleep(secs(86_400)).await?;
        match data.ends.as_deref() {
            Some("fail") => Err(Failure::permanent("no courier")),
            Some("astray") => Ok(Order::Paid),
            _ => Ok(Order::Shipped),
        }
    }
}

fn cart(ends: Option<&str>, laps: u32) -> Cart {
    Cart { ends: ends.map(str::to_owned), laps, ..Cart::default() }
}

#[windlass::test]
async fn a_run_goes_from_state_to_state_and_ends_with_its_data(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine =
        lab.engine().resource(Fulfilment(tally.clone())).workflow(Fulfilment::workflow()).launch().await?;
    let run = engine.start(Fulfilment::workflow(), cart(None, 0)).await?;
    run.send(GO, &1).await?;
    let end = run.await?;
    assert_eq!(end.state, Order::Shipped);
    assert_eq!((end.data.amount, end.data.trail.join(" ")), (8, "New Paid Packed".to_owned()));
    let end = engine.start(Fulfilment::workflow(), cart(Some("reject"), 0)).await?.await?;
    assert_eq!(end.state, Order::Rejected);
    Ok(())
}

#[windlass::test]
async fn the_code_of_a_visit_that_is_over_is_not_run_again(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine =
        lab.engine().resource(Fulfilment(tally.clone())).workflow(Fulfilment::workflow()).launch().await?;
    let run = engine.start(Fulfilment::workflow(), cart(None, 1)).await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    let bodies = ["New", "Paid", "Packed"].map(|state| tally.of(&format!("body {state}")));
    run.send(GO, &1).await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    let end = run.await?;
    assert_eq!(end.data.trail.join(" "), "New Paid New Paid Packed");
    assert_eq!([tally.of("body New"), tally.of("body Paid")], bodies[..2]);
    assert!(tally.of("body Packed") > bodies[2], "it was parked in this state, and its code run again");
    assert_eq!((tally.of("charge"), tally.of("pack")), (2, 2));
    Ok(())
}

#[windlass::test]
async fn a_machine_is_crashed_everywhere_and_repeats_nothing_that_is_recorded(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|builder| async {
            let tally = Tally::default();
            let engine =
                builder.resource(Fulfilment(tally.clone())).workflow(Fulfilment::workflow()).launch().await?;
            let run = engine.start(Fulfilment::workflow(), cart(None, 1)).key("one").await?;
            let sent = run.send(GO, &1).key("once").await;
            assert!(sent.is_ok() || sent.unwrap_err().code() == "already_ended");
            let end = run.await?;
            assert_eq!(end.data.amount, 15);
            assert_eq!(end.data.trail.join(" "), "New Paid New Paid Packed");
            assert!(tally.of("charge") <= 2 && tally.of("pack") <= 2, "{:?}", tally.all());
            engine.stop().await?;
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 14, "{boundaries}");
    Ok(())
}

#[windlass::test]
async fn what_visits_that_are_over_did_is_undone_newest_first_in_another_process(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine =
        lab.engine().resource(Fulfilment(tally.clone())).workflow(Fulfilment::workflow()).launch().await?;
    let run = engine.start(Fulfilment::workflow(), cart(None, 1)).await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    run.cancel("changed my mind").await?;
    assert!(run.await.unwrap_err().to_string().contains("changed my mind"));
    let undone: Vec<_> = tally.all().into_iter().filter(|what| what.starts_with("undo")).collect();
    assert_eq!(undone, ["undo pack", "undo charge", "undo pack", "undo charge"]);
    assert_eq!((tally.of("charge"), tally.of("pack")), (2, 2));
    Ok(())
}

#[windlass::test]
async fn a_machine_that_fails_is_undone_although_its_first_states_were_only_read(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine =
        lab.engine().resource(Fulfilment(tally.clone())).workflow(Fulfilment::workflow()).launch().await?;
    let run = engine.start(Fulfilment::workflow(), cart(Some("fail"), 0)).await?;
    lab.advance(secs(60)).await;
    run.send(GO, &1).await?;
    assert!(run.await.unwrap_err().to_string().contains("no courier"));
    let undone: Vec<_> = tally.all().into_iter().filter(|what| what.starts_with("undo")).collect();
    assert_eq!(undone, ["undo pack", "undo charge"]);
    Ok(())
}

#[windlass::test]
async fn a_failing_machine_is_crashed_everywhere_and_no_recorded_undo_runs_again(lab: Lab) -> Result<()> {
    lab.crash_everywhere(|builder| async {
        let tally = Tally::default();
        let engine =
            builder.resource(Fulfilment(tally.clone())).workflow(Fulfilment::workflow()).launch().await?;
        let run = engine.start(Fulfilment::workflow(), cart(Some("fail"), 0)).key("one").await?;
        let sent = run.send(GO, &1).key("once").await;
        assert!(sent.is_ok() || sent.unwrap_err().code() == "already_ended");
        assert!(run.await.unwrap_err().to_string().contains("no courier"));
        let counts = tally.counts();
        let once = counts.iter().filter(|(what, _)| !what.starts_with("body"));
        assert!(once.clone().all(|(_, times)| *times == 1), "{:?}", tally.all());
        engine.stop().await?;
        Ok::<_, Failure>(())
    })
    .await?;
    Ok(())
}

#[windlass::test]
async fn a_retried_machine_makes_the_visits_again_that_were_undone(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine =
        lab.engine().resource(Fulfilment(tally.clone())).workflow(Fulfilment::workflow()).launch().await?;
    let mut run = engine.start(Fulfilment::workflow(), cart(None, 0)).timeout(secs(3600)).await?;
    lab.advance(secs(4000)).await;
    assert_eq!(run.status().await?.state, RunState::Failed);
    assert_eq!((tally.of("charge"), tally.of("undo charge")), (1, 1));
    run.retry().await?;
    lab.advance(secs(60)).await;
    assert_eq!((tally.of("charge"), tally.of("pack")), (2, 2));
    Ok(())
}

#[windlass::test]
async fn a_transition_that_was_not_declared_fails_the_run_and_names_both_states(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine =
        lab.engine().resource(Fulfilment(tally.clone())).workflow(Fulfilment::workflow()).launch().await?;
    let run = engine.start(Fulfilment::workflow(), cart(Some("astray"), 0)).await?;
    run.send(GO, &1).await?;
    let error = run.await.unwrap_err().to_string();
    assert!(error.contains("the handler of `Packed` returned `Paid`"), "{error}");
    assert_eq!(tally.of("undo charge"), 1);
    Ok(())
}

#[test]
fn a_machine_is_drawn_with_its_states() {
    assert_eq!(
        Fulfilment::workflow().to_mermaid(),
        "stateDiagram-v2
    [*] --> New
    New --> Paid
    New --> Rejected
    Paid --> Packed
    Paid --> New
    Packed --> Shipped
    Shipped --> [*]
    Rejected --> [*]
"
    );
}

#[windlass::test]
async fn a_forked_machine_keeps_what_came_before_and_never_undoes_it(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine =
        lab.engine().resource(Fulfilment(tally.clone())).workflow(Fulfilment::workflow()).launch().await?;
    let run = engine.start(Fulfilment::workflow(), cart(None, 0)).await?;
    let id = run.id();
    run.send(GO, &1).await?;
    run.await?;
    let fork = engine.run(&Fulfilment::workflow(), id).fork_from("Paid:pack").await?;
    lab.advance(secs(60)).await;
    assert_eq!((tally.of("charge"), tally.of("pack")), (1, 2));
    fork.cancel("no").await?;
    assert!(fork.await.is_err());
    assert_eq!((tally.of("undo charge"), tally.of("undo pack")), (0, 1));
    let fork = engine.run(&Fulfilment::workflow(), id).fork_from("Packed").await?;
    let end = fork.await?;
    assert_eq!((end.data.amount, end.data.trail.join(" ")), (8, "New Paid Packed".to_owned()));
    assert_eq!((tally.of("charge"), tally.of("pack")), (1, 2));
    Ok(())
}

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Day {
    Morning,
    Evening,
    Retired,
}

struct Routine(Tally);

#[machine(state = Day, data = u32, initial = Morning, terminal = [Retired])]
impl Routine {
    #[on(Morning, to = [Evening])]
    async fn rise(&self, cx: &Flow, data: &mut u32) -> Result<Day> {
        let tally = &self.0;
        *data += cx.step("rise", || async move { Ok::<_, Failure>(tally.add("rise").min(1) as u32) }).await?;
        Ok(Day::Evening)
    }

    #[on(Evening, to = [Retired])]
    async fn rest(&self, cx: &Flow, data: &mut u32) -> Result<Day> {
        cx.sleep(secs(3600)).await?;
        if *data < 3 { cx.continue_with(*data).await } else { Ok(Day::Retired) }
    }
}

#[windlass::test]
async fn a_machine_may_begin_anew_and_is_crashed_everywhere(lab: Lab) -> Result<()> {
    lab.crash_everywhere(|builder| async {
        let tally = Tally::default();
        let engine = builder.resource(Routine(tally.clone())).workflow(Routine::workflow()).launch().await?;
        let run = engine.start(Routine::workflow(), 0).key("one").await?;
        let end = run.await?;
        assert_eq!((end.state, end.data), (Day::Retired, 3));
        assert!(tally.of("rise") <= 3);
        engine.stop().await?;
        Ok::<_, Failure>(())
    })
    .await?;
    Ok(())
}
