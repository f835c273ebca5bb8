//! Retries, time limits, circuit breakers and rate limits.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use windlass::{
    Failure, Flow, Result, RunState, machine,
    machine::{BreakerState, MachineState},
    testing::Lab,
};

use crate::tally::{Tally, secs};

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum State {
    Begin,
    Flaky,
    Resent,
    Slow,
    Brittle,
    Steady,
    Hasty,
    Done,
}

struct Guarded {
    tally: Tally,
    is_broken: Arc<Mutex<bool>>,
}

#[machine(state = State, data = String, initial = Begin, terminal = [Done])]
impl Guarded {
    #[on(Begin, to = [Flaky, Resent, Slow, Brittle, Steady, Hasty], router)]
    fn begin(&self, data: &str) -> Result<State> {
        Ok(match data {
            "flaky" => State::Flaky,
            "resent" => State::Resent,
            "slow" => State::Slow,
            "brittle" => State::Brittle,
            "hasty" => State::Hasty,
            _ => State::Steady,
        })
    }

    #[on(Flaky, to = [Done], retry(attempts = 9, delay = "1h", backoff = fixed, jitter = 0))]
    async fn flaky(&self, cx: &Flow, data: &mut String) -> Result<State> {
        data.push_str(" tried");
        let (doing, undoing) = (&self.tally, self.tally.clone());
        cx.step("charge", || async move {
            doing.add("charge");
            Ok::<_, Failure>(())
        })
        .undo(move |(): ()| async move {
            undoing.add("undo charge");
            Ok::<_, Failure>(())
        })
        .await?;
        if *self.is_broken.lock() {
            return Err(Failure::new("outside of any step"));
        }
        let send = || async move {
            if doing.add("send") < 2 { Err(Failure::permanent("in a step")) } else { Ok(()) }
        };
        // Its failure is handed on as one that may pass.
        cx.step("send", send).await.map_err(|failure| Failure::new(failure.message))?;
        Ok(State::Done)
    }

    #[on(Resent, to = [Done], retry(attempts = 3, delay = "1h"))]
    async fn resend(&self, cx: &Flow, _data: &mut String) -> Result<State> {
        let tally = &self.tally;
        cx.step("charge", || async move {
            tally.add("charge");
            Ok::<_, Failure>(())
        })
        .await?;
        let send = move |step: windlass::Cx| async move {
            if step.attempt() == 1 { Err(Failure::permanent("in a step")) } else { Ok(()) }
        };
        cx.step("send", send).await.map_err(|failure| Failure::new(failure.message))?;
        Ok(State::Done)
    }

    #[on(Slow, to = [Done], timeout = "10m", retry(attempts = 2, delay = "1m", backoff = fixed, jitter = 0))]
    async fn slow(&self, cx: &Flow, _data: &mut String) -> Result<State> {
        if *self.is_broken.lock() {
            cx.sleep(secs(86_400)).await?;
        }
        Ok(State::Done)
    }

    #[on(Brittle, to = [Done], breaker(failures = 2, open = "10m"))]
    async fn brittle(&self, cx: &Flow, _data: &mut String) -> Result<State> {
        let (tally, is_broken) = (&self.tally, *self.is_broken.lock());
        cx.step("brittle", || async move {
            tally.add("brittle");
            if is_broken { Err(Failure::permanent("it broke")) } else { Ok(()) }
        })
        .await?;
        Ok(State::Done)
    }

    #[on(Hasty, to = [Done], retry(attempts = 2, delay = "1h"), breaker(name = "hasty", failures = 1))]
    async fn hasty(&self, cx: &Flow, _data: &mut String) -> Result<State> {
        cx.sleep(secs(10)).await?;
        assert!(!*self.is_broken.lock(), "a handler may panic");
        Ok(State::Done)
    }

    #[on(Steady, to = [Done], rate(2, per = "1h"))]
    async fn steady(&self, _data: &mut String) -> Result<State> {
        self.tally.add("steady");
        Ok(State::Done)
    }
}

fn guarded() -> (Guarded, Tally, Arc<Mutex<bool>>) {
    let (tally, is_broken) = (Tally::default(), Arc::new(Mutex::new(false)));
    (Guarded { tally: tally.clone(), is_broken: Arc::clone(&is_broken) }, tally, is_broken)
}

#[windlass::test]
async fn a_retried_handler_keeps_what_is_done_and_does_again_what_failed(lab: Lab) -> Result<()> {
    let (machine, tally, is_broken) = guarded();
    let engine = lab.engine().resource(machine).workflow(Guarded::workflow()).launch().await?;
    let begun = lab.now();
    *is_broken.lock() = true;
    let run = engine.start(Guarded::workflow(), "flaky".to_owned()).await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended, "it is parked between two attempts");
    *is_broken.lock() = false;
    let end = run.await?;
    assert!(lab.now().since(begun) >= secs(7200));
    assert_eq!(end.data, "flaky tried", "each attempt begins with the data of the visit");
    assert_eq!((tally.of("charge"), tally.of("send")), (1, 2));
    Ok(())
}

#[windlass::test]
async fn a_retried_handler_is_crashed_everywhere_and_repeats_nothing_that_is_recorded(
    lab: Lab,
) -> Result<()> {
    lab.crash_everywhere(|builder| async {
        let (machine, tally, _) = guarded();
        let engine = builder.resource(machine).workflow(Guarded::workflow()).launch().await?;
        let run = engine.start(Guarded::workflow(), "resent".to_owned()).key("one").await?;
        let end = run.await;
        assert!(end.is_ok(), "{end:?}");
        assert!(tally.of("charge") <= 1, "{:?}", tally.all());
        engine.stop().await?;
        Ok::<_, Failure>(())
    })
    .await?;
    Ok(())
}

#[windlass::test]
async fn a_run_that_is_cancelled_between_two_attempts_is_undone(lab: Lab) -> Result<()> {
    let (machine, tally, is_broken) = guarded();
    let engine = lab.engine().resource(machine).workflow(Guarded::workflow()).launch().await?;
    *is_broken.lock() = true;
    let run = engine.start(Guarded::workflow(), "flaky".to_owned()).await?;
    lab.advance(secs(60)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    run.cancel("enough").await?;
    assert!(run.await.unwrap_err().to_string().contains("enough"));
    assert_eq!((tally.of("charge"), tally.of("undo charge")), (1, 1));
    Ok(())
}

#[windlass::test]
async fn an_attempt_that_takes_too_long_is_stopped_and_made_again(lab: Lab) -> Result<()> {
    let (machine, _, is_broken) = guarded();
    let engine = lab.engine().resource(machine).workflow(Guarded::workflow()).launch().await?;
    let begun = lab.now();
    *is_broken.lock() = true;
    let run = engine.start(Guarded::workflow(), "slow".to_owned()).await?;
    lab.advance(secs(605)).await;
    *is_broken.lock() = false;
    run.await?;
    let span = lab.now().since(begun);
    assert!((secs(660)..secs(670)).contains(&span), "{span:?}");
    Ok(())
}

#[windlass::test]
async fn a_circuit_breaker_opens_lets_one_pass_and_closes(lab: Lab) -> Result<()> {
    let (machine, tally, is_broken) = guarded();
    let engine = lab.engine().resource(machine).workflow(Guarded::workflow()).launch().await?;
    let start = || async { engine.start(Guarded::workflow(), "brittle".to_owned()).await?.await };
    *is_broken.lock() = true;
    for _ in 0..2 {
        assert!(start().await.unwrap_err().to_string().contains("it broke"));
    }
    let error = start().await.unwrap_err().to_string();
    assert!(error.contains("the circuit breaker `guarded.Brittle` is open after 2 failures"), "{error}");
    assert_eq!(tally.of("brittle"), 2);
    assert_eq!(engine.breakers(), [("guarded.Brittle".to_owned(), BreakerState::Open)]);
    lab.advance(secs(601)).await;
    assert_eq!(engine.breakers()[0].1, BreakerState::HalfOpen);
    assert!(start().await.unwrap_err().to_string().contains("it broke"), "one is let pass");
    assert!(start().await.unwrap_err().to_string().contains("is open"));
    lab.advance(secs(601)).await;
    *is_broken.lock() = false;
    start().await?;
    assert_eq!(engine.breakers()[0].1, BreakerState::Closed);
    start().await?;
    Ok(())
}

#[windlass::test]
async fn a_rate_limit_makes_handlers_wait_for_their_turn(lab: Lab) -> Result<()> {
    let (machine, tally, _) = guarded();
    let engine = lab.engine().resource(machine).workflow(Guarded::workflow()).launch().await?;
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(engine.start(Guarded::workflow(), "steady".to_owned()).await?);
    }
    lab.advance(secs(60)).await;
    assert_eq!(tally.of("steady"), 2);
    assert_eq!(runs[3].status().await?.state, RunState::Suspended);
    lab.advance(secs(3600)).await;
    assert_eq!(tally.of("steady"), 4);
    for run in runs {
        run.await?;
    }
    Ok(())
}

#[windlass::test]
async fn a_handler_that_panics_has_failed_and_is_called_again(lab: Lab) -> Result<()> {
    let (machine, _, is_broken) = guarded();
    let engine = lab.engine().resource(machine).workflow(Guarded::workflow()).launch().await?;
    *is_broken.lock() = true;
    let run = engine.start(Guarded::workflow(), "hasty".to_owned()).await?;
    lab.advance(secs(20)).await;
    assert_eq!(engine.breakers(), [("hasty".to_owned(), BreakerState::Open)]);
    assert_eq!(run.status().await?.state, RunState::Suspended, "it waits for its next attempt");
    *is_broken.lock() = false;
    assert_eq!(run.await?.state, State::Done);
    assert_eq!(engine.breakers()[0].1, BreakerState::Closed);
    Ok(())
}

#[windlass::test]
async fn an_attempt_that_is_cancelled_is_no_failure_to_a_circuit_breaker(lab: Lab) -> Result<()> {
    let (machine, ..) = guarded();
    let engine = lab.engine().resource(machine).workflow(Guarded::workflow()).launch().await?;
    let run = engine.start(Guarded::workflow(), "hasty".to_owned()).await?;
    lab.advance(secs(1)).await;
    run.cancel("enough").await?;
    assert!(run.await.is_err());
    assert_eq!(engine.breakers(), [("hasty".to_owned(), BreakerState::Closed)]);
    engine.start(Guarded::workflow(), "hasty".to_owned()).await?.await?;
    Ok(())
}
