//! Each kind of handler.

use serde::{Deserialize, Serialize};
use windlass::{
    Failure, Flow, Result, RunState, machine,
    machine::{Joined, MachineState, Poll, Progress},
    testing::Lab,
};

use crate::tally::{Tally, secs};

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum State {
    Sorting,
    Stepping,
    Polling,
    Batching,
    Splitting,
    Done,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Work {
    laps: u32,
    steps: Vec<u32>,
    answers: u32,
    doubled: Vec<u32>,
    label: String,
}

struct Everything(Tally);

#[machine(state = State, data = Work, initial = Sorting, terminal = [Done])]
impl Everything {
    #[on(Sorting, to = [Stepping, Splitting], router)]
    fn sort(&self, data: &Work) -> Result<State> {
        Ok(if data.laps == 0 { State::Splitting } else { State::Stepping })
    }

    #[on(Stepping, to = [Polling], stepped)]
    async fn walk(&self, cx: &Flow, data: &mut Work, cursor: &mut u32) -> Result<Progress<State>> {
        self.0.add(format!("walk body {}.{cursor}", data.laps));
        let at = *cursor;
        let what = format!("walk {}.{at}", data.laps);
        let tally = &self.0;
        cx.step("walk", || async move {
            tally.add(what);
            Ok::<_, Failure>(())
        })
        .await?;
        data.steps.push(at);
        *cursor += 1;
        Ok(if *cursor == 3 { Progress::Done(State::Polling) } else { Progress::More })
    }

    #[on(Polling, to = [Batching], poll = "1h")]
    async fn ask(&self, cx: &Flow, data: &mut Work) -> Result<Poll<State>> {
        let (tally, what) = (&self.0, format!("ask {}.{}", data.laps, data.answers));
        cx.step("ask", || async move {
            tally.add(what);
            Ok::<_, Failure>(())
        })
        .await?;
        data.answers += 1;
        Ok(if data.answers.is_multiple_of(3) { Poll::Ready(State::Batching) } else { Poll::Again })
    }

    async fn load(&self, data: &Work) -> Result<Vec<u32>> {
        self.0.add(format!("load {}", data.laps));
        Ok(vec![3, 1, 2])
    }

    async fn item(&self, cx: &windlass::Cx, data: &Work, item: &u32) -> Result<u32> {
        if *item == 1 && cx.attempt() == 1 {
            return Err(Failure::new("not yet"));
        }
        self.0.add(format!("item {}.{item}", data.laps));
        Ok(item * 2)
    }

    #[on(Batching, to = [Sorting], batch = [load, item], limit = 2, each_retry(attempts = 2, delay = "1m"))]
    async fn gather(&self, _cx: &Flow, data: &mut Work, results: Vec<Result<u32>>) -> Result<State> {
        data.doubled = results.into_iter().collect::<Result<_>>()?;
        data.laps -= 1;
        Ok(State::Sorting)
    }

    async fn one(&self) -> Result<u32> {
        self.0.add("one");
        Ok(1)
    }

    async fn two(&self, cx: &Flow, data: &Work) -> Result<String> {
        let tally = &self.0;
        cx.sleep(secs(60)).await?;
        cx.step("two", || async move {
            tally.add("two");
            Ok::<_, Failure>(format!("two of {}", data.answers))
        })
        .await
    }

    #[on(Splitting, to = [Done], split = [one, two])]
    async fn join(&self, _cx: &Flow, data: &mut Work, results: Joined) -> Result<State> {
        data.label = format!("{} and {}", results.get::<u32>("one")?, results.get::<String>("two")?);
        Ok(State::Done)
    }
}

fn check(end: &windlass::machine::Finished<State, Work>) {
    assert_eq!(end.state, State::Done);
    assert_eq!(end.data.steps, [0, 1, 2, 0, 1, 2]);
    assert_eq!(end.data.answers, 6);
    assert_eq!(end.data.doubled, [6, 2, 4]);
    assert_eq!(end.data.label, "1 and two of 6");
}

/// The code around steps is run again; steps are not.
fn check_once(tally: &Tally) {
    let counts = tally.counts();
    let mut steps = counts.iter().filter(|(what, _)| !what.contains("body"));
    assert!(steps.all(|(_, times)| *times == 1), "{counts:?}");
}

#[windlass::test]
async fn every_kind_of_handler_does_its_work_on_each_visit(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine =
        lab.engine().resource(Everything(tally.clone())).workflow(Everything::workflow()).launch().await?;
    let run = engine.start(Everything::workflow(), Work { laps: 2, ..Work::default() }).await?;
    check(&run.await?);
    check_once(&tally);
    Ok(())
}

#[windlass::test]
async fn a_handler_that_polls_costs_nothing_between_two_questions(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine =
        lab.engine().resource(Everything(tally.clone())).workflow(Everything::workflow()).launch().await?;
    let begun = lab.now();
    let run = engine.start(Everything::workflow(), Work { laps: 1, ..Work::default() }).await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    assert_eq!((tally.of("ask 1.0"), tally.of("ask 1.1")), (1, 0));
    lab.advance(secs(3600)).await;
    assert_eq!(tally.of("ask 1.1"), 1);
    run.await?;
    assert!(lab.now().since(begun) >= secs(7200));
    Ok(())
}

#[windlass::test]
async fn every_kind_of_handler_is_crashed_everywhere_and_repeats_nothing_that_is_recorded(
    lab: Lab,
) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|builder| async {
            let tally = Tally::default();
            let engine =
                builder.resource(Everything(tally.clone())).workflow(Everything::workflow()).launch().await?;
            let begin = Work { laps: 2, ..Work::default() };
            let run = engine.start(Everything::workflow(), begin).key("one").await?;
            check(&run.await?);
            check_once(&tally);
            engine.stop().await?;
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 40, "{boundaries}");
    Ok(())
}
