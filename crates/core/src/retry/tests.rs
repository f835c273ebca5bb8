use proptest::prelude::*;

use super::*;

const MIDDLE: f64 = 0.5;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn waits(retry: &Retry, attempts: std::ops::RangeInclusive<u32>) -> Vec<Duration> {
    attempts.map(|attempt| retry.decide(attempt, &Failure::new("no"), MIDDLE).unwrap()).collect()
}

#[test]
fn the_default_is_three_attempts_that_double_from_a_second_up_to_thirty() {
    let retry = Retry::default();
    assert_eq!(waits(&retry, 1..=2), [secs(1), secs(2)]);
    assert_eq!(retry.decide(3, &Failure::new("no"), MIDDLE), None);
    let patient = Retry::attempts(100);
    assert_eq!(waits(&patient, 1..=7), [1, 2, 4, 8, 16, 30, 30].map(secs));
    assert_eq!(retry.decide(1, &Failure::new("no"), 0.0), Some(Duration::from_millis(750)));
    assert_eq!(retry.decide(1, &Failure::new("no"), 1.0), Some(Duration::from_millis(1250)));
}

#[test]
fn backoffs_grow_as_they_say() {
    assert_eq!(waits(&Retry::attempts(9).fixed().delay(secs(7)), 1..=3), [secs(7); 3]);
    assert_eq!(waits(&Retry::attempts(9).linear().delay(secs(12)), 1..=4), [12, 24, 30, 30].map(secs));
    assert_eq!(waits(&Retry::attempts(9).factor(3.0).max_delay(secs(20)), 1..=4), [1, 3, 9, 20].map(secs));
}

#[test]
fn a_first_delay_beyond_the_cap_raises_the_cap() {
    assert_eq!(waits(&Retry::attempts(9).delay(secs(60)), 1..=2), [secs(60); 2]);
    assert_eq!(waits(&Retry::attempts(9).fixed().delay(secs(60)).linear(), 1..=2), [secs(60); 2]);
}

#[test]
fn the_cap_holds_before_jitter_too_so_that_late_waits_still_spread() {
    for retry in [Retry::attempts(100).linear(), Retry::attempts(100)] {
        assert_eq!(retry.backoff.wait(99), secs(30));
        assert_eq!(retry.decide(99, &Failure::new("no"), 0.0), Some(Duration::from_millis(22_500)));
    }
}

#[test]
fn the_cap_holds_after_jitter() {
    let retry = Retry::attempts(100).jitter(1.0);
    assert_eq!(retry.decide(50, &Failure::new("no"), 0.999), Some(secs(30)));
}

#[test]
fn one_attempt_means_no_retry() {
    assert_eq!(Retry::never().decide(1, &Failure::new("no"), MIDDLE), None);
    assert_eq!(Retry::attempts(1).decide(1, &Failure::new("no"), MIDDLE), None);
}

#[test]
fn a_failure_may_decide_for_itself_but_gets_no_more_attempts() {
    let picky = Retry::attempts(3).on(RetryOn::Never);
    let later = Failure::retry_after("busy", secs(3600));
    assert_eq!(picky.decide(2, &later, 0.9), Some(secs(3600)), "exactly, above any cap and without jitter");
    assert_eq!(picky.decide(3, &later, MIDDLE), None);
    assert_eq!(Retry::default().decide(1, &Failure::permanent("no"), MIDDLE), None);
}

#[test]
fn conditions_are_joined_by_any() {
    let retry = Retry::attempts(3).on(RetryOn::Transient).on(RetryOn::Matching(vec!["Deadlock".to_owned()]));
    let again = |failure: Failure| retry.decide(1, &failure, MIDDLE).is_some();
    assert!(again(Failure::new("connection refused")));
    assert!(again(Failure::new("a DEADLOCK was found")));
    assert!(!again(Failure::new("no such user")));
    let mut deep = Failure::new("cannot load");
    deep.chain.push("deadlock".to_owned());
    assert!(again(deep), "sources are searched too");
    assert!(Retry::attempts(3).on(RetryOn::Never).decide(1, &Failure::new("no"), MIDDLE).is_none());
    let asked = Retry::attempts(3).on(RetryOn::Predicate("worth_it".to_owned()));
    assert!(asked.decide(1, &Failure::new("no"), MIDDLE).is_some());
}

fn backoff() -> impl Strategy<Value = Backoff> {
    let span = (0..u64::MAX, 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos));
    let short = (0..100_000_u64).prop_map(Duration::from_millis);
    let span = prop_oneof![short, span];
    let factor = prop_oneof![1.0..10.0_f64, any::<f64>()];
    prop_oneof![
        span.clone().prop_map(|delay| Backoff::Fixed { delay }),
        (span.clone(), span.clone()).prop_map(|(delay, max)| Backoff::Linear { delay, max }),
        (span.clone(), factor, span).prop_map(|(delay, factor, max)| Backoff::Exponential {
            delay,
            factor,
            max
        }),
    ]
}

fn attempt() -> impl Strategy<Value = u32> {
    prop_oneof![1..100_u32, Just(1_000), Just(u32::MAX - 1), any::<u32>()]
}

proptest! {
    #[test]
    fn no_wait_is_above_the_cap_and_nothing_overflows(
        backoff in backoff(), jitter in any::<f64>(), dice in any::<f64>(), attempt in attempt(),
    ) {
        let retry = Retry { attempts: u32::MAX, backoff, jitter, on: default_on() };
        let wait = retry.decide(attempt, &Failure::new("no"), dice);
        prop_assert_eq!(wait.is_none(), attempt == u32::MAX);
        if let (Some(wait), Some(cap)) = (wait, backoff.cap()) {
            prop_assert!(wait <= cap);
        }
    }

    #[test]
    fn waits_never_shrink_from_one_attempt_to_the_next(backoff in backoff(), attempt in 1..u32::MAX - 1) {
        prop_assert!(backoff.wait(attempt) <= backoff.wait(attempt + 1));
        prop_assert!(backoff.wait(1) <= backoff.wait(attempt));
    }

    #[test]
    fn jitter_stays_within_its_share(jitter in 0.0..=1.0_f64, dice in 0.0..1.0_f64, attempt in 1..20_u32) {
        let retry = Retry::attempts(100).jitter(jitter);
        let plain = retry.backoff.wait(attempt).as_secs_f64();
        let wait = retry.decide(attempt, &Failure::new("no"), dice).unwrap().as_secs_f64();
        prop_assert!(wait >= plain * (1.0 - jitter) - 1e-6);
        prop_assert!(wait <= plain * (1.0 + jitter) + 1e-6);
    }

    #[test]
    fn a_policy_survives_its_record(backoff in backoff(), attempts in any::<u32>(), jitter in 0.0..1.0_f64) {
        if let Backoff::Exponential { factor, .. } = backoff {
            prop_assume!(factor.is_finite());
        }
        let retry = Retry { attempts, backoff, jitter, on: vec![RetryOn::Transient] };
        let record = serde_json::to_string(&retry).unwrap();
        prop_assert_eq!(serde_json::from_str::<Retry>(&record).unwrap(), retry);
    }
}
