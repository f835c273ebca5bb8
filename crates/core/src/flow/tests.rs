use proptest::prelude::*;

use super::*;

fn kept(names: &[&str]) -> Vec<Kept> {
    let at = |(at, name): (i64, &&str)| Kept {
        name: (*name).into(),
        kind: CallKind::Step,
        at: Time(at),
        is_old: false,
        is_past: false,
    };
    (1..).zip(names).map(at).collect()
}

fn journal(names: &[&str]) -> Journal {
    Journal::new(RunId::new(), 0, Time(0), kept(names))
}

#[test]
fn completions_are_heard_in_the_order_of_recording_whatever_the_order_of_calls() {
    let mut journal = journal(&["b", "a"]);
    journal.call("a", CallKind::Step).unwrap();
    journal.call("b", CallKind::Step).unwrap();
    assert_eq!(journal.hear().unwrap().as_deref(), Some("b"));
    assert_eq!(journal.now(), Time(1));
    assert_eq!(journal.hear().unwrap().as_deref(), Some("a"));
    assert_eq!(journal.hear().unwrap(), None);
    assert!(journal.settle().unwrap());
    assert!(!journal.settle().unwrap());
}

#[test]
fn a_record_that_is_not_called_is_named_with_the_call_before_it() {
    let mut journal = journal(&["a", "b"]);
    journal.call("a", CallKind::Step).unwrap();
    journal.hear().unwrap();
    journal.call("c", CallKind::Step).unwrap();
    assert_eq!(journal.hear().unwrap(), None);
    let divergence = journal.settle().unwrap_err();
    assert_eq!(divergence.to_string(), "`b` is recorded as a step, but the code does not call it after `a`");
    assert!(!journal.is_live());
}

#[test]
fn a_call_of_another_kind_is_a_divergence() {
    let mut journal = journal(&["a"]);
    journal.call("a", CallKind::Event).unwrap();
    let divergence = journal.hear().unwrap_err();
    assert_eq!(divergence.to_string(), "`a` is recorded as a step, but the code calls it as an event");
}

#[test]
fn old_records_are_used_when_they_are_called_and_left_alone_otherwise() {
    let mut all = kept(&["a", "b"]);
    all.iter_mut().for_each(|kept| kept.is_old = true);
    let mut journal = Journal::new(RunId::new(), 0, Time(0), all);
    journal.call("b", CallKind::Step).unwrap();
    assert_eq!(journal.hear().unwrap().as_deref(), Some("b"));
    assert!(journal.settle().unwrap());
    journal.call("a", CallKind::Step).unwrap();
    assert_eq!(journal.hear().unwrap().as_deref(), Some("a"));
}

#[test]
fn a_child_has_the_same_id_whenever_it_is_asked_for_and_another_in_the_next_generation() {
    let journal = journal(&[]);
    assert_eq!(journal.child("ask", 1), journal.child("ask", 1));
    assert_ne!(journal.child("ask", 1), journal.child("ask", 2));
    assert_ne!(journal.child("ask", 1), journal.child("ask#2", 1));
}

/// A visit of `A` that is over, and a visit of `B` that is not.
fn visited() -> Vec<Kept> {
    let mut all = kept(&["A:x", "A", "B:x", "B:y"]);
    all[0].is_past = true;
    all[1].kind = CallKind::Visit;
    all
}

#[test]
fn what_was_called_in_a_visit_that_is_over_is_passed_over() {
    let mut journal = Journal::new(RunId::new(), 0, Time(0), visited());
    assert_eq!(&*journal.upcoming("A"), "A");
    journal.call("A", CallKind::Visit).unwrap();
    assert_eq!(&*journal.upcoming("A"), "A#2");
    assert_eq!(journal.hear().unwrap().as_deref(), Some("A"));
    assert!(journal.has_just_left());
    journal.enter();
    journal.call_within("B", "x", CallKind::Step).unwrap();
    assert_eq!(journal.hear().unwrap().as_deref(), Some("B:x"));
    assert_eq!(journal.settle().unwrap_err().to_string().split(' ').next(), Some("`B:y`"));
    journal.call_within("B", "y", CallKind::Step).unwrap();
    assert_eq!(journal.hear().unwrap().as_deref(), Some("B:y"));
    assert!(journal.settle().unwrap());
}

#[test]
fn a_visit_that_is_made_again_sees_what_it_saw_and_may_leave_alone_what_completed() {
    let mut journal = Journal::new(RunId::new(), 0, Time(0), visited());
    journal.call("A", CallKind::Visit).unwrap();
    journal.hear().unwrap();
    journal.enter();
    let drawn = journal.draw();
    for name in ["x", "y"] {
        journal.call_within("B", name, CallKind::Step).unwrap();
        journal.hear().unwrap();
    }
    journal.rest();
    assert!(!journal.settle().unwrap(), "nothing begins while it rests");
    journal.begin_again("B", |kept| *kept.name == *"B:x");
    assert_eq!((journal.draw(), journal.now()), (drawn, Time(2)));
    assert_eq!(&*journal.call_within("B", "x", CallKind::Step).unwrap(), "B:x");
    assert_eq!(journal.hear().unwrap(), None, "it is made once more");
    assert!(journal.settle().unwrap());
    journal.record("B:x".into(), CallKind::Step, Time(9));
    assert_eq!(journal.hear().unwrap().as_deref(), Some("B:x"));
    journal.call_within("B", "y", CallKind::Step).unwrap();
    assert_eq!(journal.hear().unwrap().as_deref(), Some("B:y"), "it is asked for");
    journal.check_all_called().unwrap();
}

#[test]
fn somebody_who_looks_back_sees_what_was_seen_and_has_to_call_the_same() {
    let mut all = visited();
    all[2].is_past = true;
    all[3] = Kept { name: "B".into(), kind: CallKind::Visit, ..all[3].clone() };
    let mut journal = Journal::new(RunId::new(), 0, Time(0), all);
    let first = journal.draw();
    journal.call("A", CallKind::Visit).unwrap();
    journal.hear().unwrap();
    let second = journal.draw();
    journal.call("B", CallKind::Visit).unwrap();
    journal.hear().unwrap();
    journal.look_back(None);
    assert_eq!((journal.draw(), journal.now()), (first, Time(0)));
    assert!(journal.check_looked_back("A").is_err());
    journal.call_within("A", "x", CallKind::Step).unwrap();
    assert_eq!(journal.hear().unwrap().as_deref(), Some("A:x"));
    journal.check_looked_back("A").unwrap();
    journal.look_back(Some("A"));
    assert_eq!((journal.draw(), journal.now()), (second, Time(2)));
    assert!(journal.check_looked_back("B").is_err());
}

#[test]
fn a_loose_journal_gives_what_it_is_asked_for_and_leaves_the_rest_alone() {
    let mut journal = Journal::loose(RunId::new(), kept(&["a", "b"]));
    journal.call("b", CallKind::Step).unwrap();
    assert_eq!(journal.hear().unwrap().as_deref(), Some("b"));
    assert_eq!(journal.hear().unwrap(), None);
    assert!(journal.settle().unwrap(), "nobody has to call `a`");
    journal.call("c", CallKind::Sleep).unwrap();
    journal.record("c".into(), CallKind::Sleep, Time(3));
    assert!(journal.is_behind());
    assert_eq!(journal.hear().unwrap().as_deref(), Some("c"));
    journal.record("d".into(), CallKind::Sleep, Time(4));
    assert!(!journal.is_behind(), "nobody waits for it yet");
    assert!(journal.check_all_called().is_ok());
    journal.call("d", CallKind::Sleep).unwrap();
    assert_eq!(journal.hear().unwrap().as_deref(), Some("d"));
    journal.call("a", CallKind::Event).unwrap();
    assert!(matches!(journal.hear(), Err(Divergence::Kind { .. })));
}

proptest! {
    /// A function whose branches each call a list of steps: whatever order its completions were recorded in, it hears of
    /// all of them in that order when it is run again, and makes the same calls.
    #[test]
    fn a_function_that_is_run_again_makes_the_same_calls(
        branches in prop::collection::vec(prop::collection::vec(0_u8..4, 1..6), 1..5),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let run = RunId::new();
        let play = |mut journal: Journal, mut picks: Option<std::slice::Iter<'_, prop::sample::Index>>| {
            // What each branch waits for, and how far it is.
            let mut at = vec![0; branches.len()];
            let mut waits: Vec<Option<Arc<str>>> = vec![None; branches.len()];
            let mut calls = Vec::new();
            let mut time = 1;
            loop {
                for (branch, names) in branches.iter().enumerate() {
                    if waits[branch].is_none() && at[branch] < names.len() {
                        let name = format!("s{}", names[at[branch]]);
                        let id = journal.call(&name, CallKind::Step).unwrap();
                        calls.push((branch, Arc::clone(&id)));
                        waits[branch] = Some(id);
                    }
                }
                let heard = journal.hear().unwrap();
                let heard = match (heard, &mut picks) {
                    (Some(heard), _) => heard,
                    (None, None) => break,
                    (None, Some(picks)) => {
                        let open: Vec<Arc<str>> = waits.iter().flatten().cloned().collect();
                        let Some(pick) = picks.next().filter(|_| !open.is_empty()) else { break };
                        time += 1;
                        journal.record(Arc::clone(pick.get(&open)), CallKind::Step, Time(time));
                        continue;
                    }
                };
                for branch in 0..branches.len() {
                    if waits[branch].as_ref() == Some(&heard) {
                        waits[branch] = None;
                        at[branch] += 1;
                    }
                }
            }
            prop_assert!(journal.settle().is_ok());
            Ok((calls, journal.kept().to_vec(), journal.now()))
        };
        let live = play(Journal::new(run, 0, Time(0), Vec::new()), Some(picks.iter()))?;
        let again = play(Journal::new(run, 0, Time(0), live.1.clone()), None)?;
        prop_assert_eq!(live, again);
    }
}
