use std::time::Duration;

use proptest::prelude::*;

use super::*;

const LIMIT: usize = 1_000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: i64) -> Time {
    Time(millis * 1_000)
}

fn item(millis: i64) -> Entry {
    Entry::Item(Item { at: at(millis), bytes: 10 })
}

fn told(tell: Tell) -> Entry {
    Entry::Told(tell)
}

fn by(size: usize, age: u64) -> Gathering {
    Gathering { size, age: millis(age) }
}

fn decide(gathering: Gathering, entries: &[Entry], now: i64) -> Decision {
    gathering.decide(Basket::default(), entries, LIMIT, at(now))
}

#[test]
fn enough_items_go_at_once_and_the_rest_when_the_oldest_of_them_is_old_enough() {
    let entries: Vec<_> = (0..7).map(item).collect();
    let decision = decide(by(3, 100), &entries, 7);
    assert_eq!(decision.batches, [vec![0, 1, 2], vec![3, 4, 5]]);
    assert_eq!((decision.waiting, decision.oldest, decision.due), (1, Some(at(6)), Some(at(106))));
    assert!(decide(by(3, 100), &entries[6..], 105).batches.is_empty());
    assert_eq!(decide(by(3, 100), &entries[6..], 106).batches, [[0]]);
}

#[test]
fn a_flush_takes_what_came_before_it_and_nothing_else() {
    let entries = [item(1), item(2), told(Tell::Flush), item(3)];
    let decision = decide(by(10, 100), &entries, 4);
    assert_eq!(decision.batches, [[0, 1]]);
    assert_eq!((decision.waiting, decision.due), (1, Some(at(103))));
    assert_eq!(decision.basket.flushed, 0);
}

#[test]
fn a_paused_batch_lets_nothing_go_but_what_is_flushed() {
    let pause = || told(Tell::Pause { note: "full".to_owned() });
    let entries = [pause(), item(1), item(2), item(3)];
    let decision = decide(by(2, 10), &entries, 1_000);
    assert_eq!((decision.batches.len(), decision.waiting, decision.due), (0, 3, None));
    assert_eq!(decision.attention, Attention::At(Time::MAX), "no item wakes it");
    let entries = [pause(), item(1), item(2), item(3), told(Tell::Flush), item(4)];
    let decision = decide(by(2, 10), &entries, 1_000);
    assert_eq!(decision.batches, [vec![1, 2], vec![3]]);
    assert_eq!(decision.waiting, 1);
    let entries = [pause(), item(1), item(2), told(Tell::Resume)];
    assert_eq!(decide(by(2, 10), &entries, 3).batches, [[1, 2]]);
}

#[test]
fn removing_starts_or_discards_what_waits_and_loses_nothing_that_comes_later() {
    let start = decide(by(5, 100), &[item(1), told(Tell::Remove(Leftover::Start)), item(2)], 3);
    assert_eq!((start.batches, start.waiting), (vec![vec![0]], 1));
    assert!(start.basket.is_removed);
    let discard = decide(by(5, 100), &[item(1), told(Tell::Remove(Leftover::Discard)), item(2)], 3);
    assert_eq!((discard.batches.len(), discard.discarded, discard.waiting), (0, vec![0], 1));
    let late = by(5, 100).decide(discard.basket, &[item(2)], LIMIT, at(102));
    assert_eq!(late.batches, [[0]]);
    let again = by(5, 100).decide(late.basket, &[told(Tell::Declare)], LIMIT, at(103));
    assert!(!again.basket.is_removed);
}

#[test]
fn what_was_flushed_before_a_declaration_goes_before_it_is_heard() {
    let (flush, declare) = (told(Tell::Flush), told(Tell::Declare));
    let reach = |entries: &[Entry]| Basket::default().reach(entries);
    assert_eq!(reach(&[item(1), flush.clone(), declare.clone(), item(2)]), 2);
    assert_eq!(reach(&[item(1), told(Tell::Remove(Leftover::Start)), item(2), declare.clone()]), 3);
    assert_eq!(reach(&[item(1), told(Tell::Remove(Leftover::Discard)), declare.clone()]), 3);
    assert_eq!(reach(&[flush.clone(), item(1), declare.clone()]), 3);
    assert_eq!(reach(&[item(1), declare.clone(), flush]), 3);
    let behind = Basket { flushed: 1, ..Basket::default() };
    assert_eq!(behind.reach(&[item(1), declare.clone()]), 1, "what was flushed in an earlier turn");
    assert_eq!(behind.reach(&[declare]), 1, "and has gone");
}

#[test]
fn an_item_that_cannot_be_read_stays_and_lets_the_others_pass_until_it_is_discarded() {
    let entries = [item(1), Entry::Stuck, item(2)];
    let decision = decide(by(2, 100), &entries, 3);
    assert_eq!((decision.batches, decision.stuck), (vec![vec![0, 2]], vec![1]));
    let entries = [Entry::Stuck, told(Tell::Remove(Leftover::Discard)), Entry::Stuck];
    let decision = decide(by(2, 100), &entries, 3);
    assert_eq!((decision.discarded, decision.stuck), (vec![0], vec![2]));
}

#[test]
fn a_removed_batch_is_not_paused_because_nobody_could_resume_it() {
    let pause = told(Tell::Pause { note: "late".to_owned() });
    let entries = [told(Tell::Remove(Leftover::Start)), pause, item(1)];
    let decision = decide(by(5, 100), &entries, 101);
    assert_eq!((decision.basket.paused, decision.batches), (None, vec![vec![2]]));
}

#[test]
fn a_clock_that_was_put_back_keeps_no_item_waiting_for_the_time_that_it_lost() {
    let (hour, gathering) = (3_600_000, by(10, 5_000));
    let early = decide(gathering, &[item(hour), item(hour + 5)], 0);
    assert_eq!(early.batches, [[0, 1]]);
    let near = decide(gathering, &[item(1_000), item(1_005)], 0);
    assert_eq!((near.batches.len(), near.due), (0, Some(at(6_000))), "clocks differ a little");
    assert_eq!(near.attention, Attention::NextItem);
}

#[test]
fn a_batch_is_cut_before_it_is_too_long_to_be_an_input() {
    let long = |bytes| Entry::Item(Item { at: at(0), bytes });
    // [ + 499 + , + 498 + ] is a thousand.
    let decision = decide(by(10, 100), &[long(499), long(498), long(1)], 0);
    assert_eq!((decision.batches, decision.waiting), (vec![vec![0, 1]], 1));
    let decision = decide(by(10, 100), &[long(499), long(499), long(1)], 0);
    assert_eq!(decision.batches, [[0]]);
    let decision = decide(by(10, 100), &[long(5_000), long(1)], 0);
    assert_eq!(decision.batches, [[0]], "one that is too long by itself goes alone");
}

#[test]
fn more_than_fits_into_a_transaction_goes_in_several() {
    let entries: Vec<_> = std::iter::repeat_n(item(0), 1_500).chain([told(Tell::Flush)]).collect();
    let decision = decide(by(1, 100), &entries, 0);
    assert_eq!((decision.batches.len(), decision.due), (1_000, Some(at(0))));
    assert_eq!(decision.basket.flushed, 500, "the flush is not forgotten");
}

#[test]
fn more_bytes_than_one_transaction_takes_go_in_several() {
    let long = |_| Entry::Item(Item { at: at(0), bytes: 4 << 20 });
    let entries: Vec<_> = (0..10).map(long).collect();
    let decision = by(1, 100).decide(Basket::default(), &entries, 4 << 20, at(0));
    assert_eq!((decision.batches.len(), decision.waiting, decision.due), (4, 6, Some(at(0))));
    let decision = by(10, 100).decide(Basket::default(), &entries, usize::MAX, at(0));
    assert_eq!(decision.batches.len(), 1, "one that is longer goes alone");
}

#[test]
fn a_stream_is_looked_at_a_few_times_for_each_batch_and_single_items_as_they_come() {
    let gathering = by(10_000, 60_000);
    let (mut looks, mut now) = (0, 1_i64);
    // One item in each millisecond.
    loop {
        let entries: Vec<_> = (0..now).map(item).collect();
        let decision = gathering.decide(Basket::default(), &entries, usize::MAX, at(now));
        if !decision.batches.is_empty() {
            break;
        }
        looks += 1;
        now = match decision.attention {
            Attention::NextItem => now + 1,
            Attention::At(then) => then.0.div_euclid(1_000).max(now + 1),
        };
    }
    assert!((10_000..10_060).contains(&now), "{now}");
    assert!(looks < 300, "{looks} looks for 10,000 items");
    let seldom: Vec<_> = (0..5).map(|number| item(number * 1_000)).collect();
    assert_eq!(decide(gathering, &seldom, 4_001).attention, Attention::NextItem);
    assert_eq!(decide(gathering, &[], 0).attention, Attention::NextItem);
}

#[test]
fn settings_that_cannot_be_meant_are_refused_with_the_reason() {
    assert_eq!(by(100, 5_000).problems("index").len(), 0);
    let problems = Gathering { size: 0, age: Duration::ZERO }.problems("a b");
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems[1].contains("at least 1 item"), "{problems:?}");
    assert_eq!(by(MOST_ITEMS + 1, 1).problems("index").len(), 1);
    assert_eq!(by(1, 1).difference(&by(2, 1)), ["the size was 1, and is 2"]);
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let entry = prop_oneof![
        12 => (0_u64..50, 0_usize..400).prop_map(|(gap, bytes)| (gap, Some(bytes), Tell::Flush)),
        1 => Just((0, None, Tell::Flush)),
        1 => Just((0, None, Tell::Pause { note: String::new() })),
        2 => Just((0, None, Tell::Resume)),
        1 => Just((0, None, Tell::Declare)),
        1 => Just((0, None, Tell::Remove(Leftover::Start))),
        1 => Just((0, None, Tell::Remove(Leftover::Discard))),
    ];
    prop::collection::vec(entry, 0..80).prop_map(|entries| {
        let mut now = at(0);
        let dated = entries.into_iter().map(|(gap, bytes, tell)| match bytes {
            Some(bytes) => {
                now = now + millis(gap);
                Entry::Item(Item { at: now, bytes })
            }
            None => Entry::Told(tell),
        });
        dated.collect()
    })
}

/// The places of all items.
fn items(entries: &[Entry]) -> Vec<usize> {
    let is_item = |(place, entry): (usize, &Entry)| matches!(entry, Entry::Item(_)).then_some(place);
    entries.iter().enumerate().filter_map(is_item).collect()
}

proptest! {
    #[test]
    fn each_item_is_taken_once_or_discarded_or_waits_and_none_overtakes_another(
        entries in entries(), size in 1_usize..20, age in 1_u64..500, later in 0_i64..600,
    ) {
        let newest = entries.iter().rev().find_map(|entry| match entry {
            Entry::Item(item) => Some(item.at.0),
            Entry::Told(_) | Entry::Stuck => None,
        });
        let now = Time(newest.unwrap_or(0) + later * 1_000);
        let decision = by(size, age).decide(Basket::default(), &entries, LIMIT, now);
        let taken: Vec<usize> = decision.batches.concat();
        prop_assert!(taken.is_sorted() && decision.discarded.is_sorted());
        let mut all = [decision.discarded.clone(), taken.clone()].concat();
        let left: Vec<usize> = items(&entries).into_iter().filter(|place| !all.contains(place)).collect();
        prop_assert_eq!(left.len(), decision.waiting);
        prop_assert!(taken.last() < left.first() || left.is_empty() || taken.is_empty());
        all.extend(left);
        all.sort_unstable();
        prop_assert_eq!(all, items(&entries));
    }

    #[test]
    fn no_batch_is_empty_or_too_large_and_none_is_late(
        entries in entries(), size in 1_usize..20, age in 1_u64..500, later in 0_i64..600,
    ) {
        let bytes = |place: &usize| match &entries[*place] {
            Entry::Item(item) => item.bytes + 1,
            Entry::Told(_) | Entry::Stuck => 0,
        };
        let newest = entries.iter().rev().find_map(|entry| match entry {
            Entry::Item(item) => Some(item.at.0),
            Entry::Told(_) | Entry::Stuck => None,
        });
        let now = Time(newest.unwrap_or(0) + later * 1_000);
        let decision = by(size, age).decide(Basket::default(), &entries, LIMIT, now);
        for batch in &decision.batches {
            prop_assert!((1..=size).contains(&batch.len()));
            prop_assert!(batch.iter().map(bytes).sum::<usize>() < LIMIT || batch.len() == 1);
        }
        if decision.basket.paused.is_none() {
            prop_assert!(decision.waiting < size);
            prop_assert!(decision.oldest.is_none_or(|oldest| oldest + millis(age) > now));
            prop_assert_eq!(decision.due, decision.oldest.map(|oldest| oldest + millis(age)));
        }
    }

    /// Whoever takes what is due and decides again with the rest finds nothing more to take.
    #[test]
    fn deciding_twice_takes_nothing_twice(
        entries in entries(), size in 1_usize..20, age in 1_u64..500, now in 0_i64..3_000,
    ) {
        let gathering = by(size, age);
        let first = gathering.decide(Basket::default(), &entries, LIMIT, at(now));
        let gone = [first.discarded, first.batches.concat()].concat();
        let rest = items(&entries).into_iter().filter(|place| !gone.contains(place));
        let rest: Vec<Entry> = rest.map(|place| entries[place].clone()).collect();
        let second = gathering.decide(first.basket.clone(), &rest, LIMIT, at(now));
        prop_assert!(second.batches.is_empty());
        prop_assert_eq!((second.waiting, second.due), (first.waiting, first.due));
        prop_assert_eq!(second.basket, first.basket);
    }
}
