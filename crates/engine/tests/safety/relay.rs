//! A program is killed at one boundary of a record after another, and comes one record further each time.
//!
//! Where a program is long, this sees as many kills as a sweep that runs it once for each boundary, in a small part of
//! the time; and what is left at the end was taken up hundreds of times.

use std::{collections::BTreeSet, sync::Arc};

use windlass::StepKind;
use windlass_store::{Act, Store, Unit};

use crate::{
    child::{Child, kill_me, was_killed},
    crash_sweep::Place,
    faulty::{Fault, Faulty},
    flow_sweep::Sweep,
    role::Boundary,
};

/// Where the boots of a program are killed, in turn. Those after the last come one record further.
const TURNS: [Boundary; 3] = [Boundary::BeforeRecord, Boundary::AfterStart, Boundary::AfterRecord];

/// How many steps in a row make a function of a hundred calls.
const LINKS: u64 = 90;

/// A store that ends this process at the boundary of a record, if it is to end there.
pub fn deadly(store: Arc<dyn Store>, kill: Option<Boundary>) -> Arc<dyn Store> {
    let ends = |act: &Act| match act {
        Act::Record { steps, .. } => steps.iter().any(|step| step.kind != StepKind::Started),
        act => matches!(act, Act::End { .. }),
    };
    let begins = |act: &Act| matches!(act, Act::Record { .. } | Act::End { .. });
    let kill_after = |store: &Faulty, is: fn(&Act) -> bool| {
        store.on_commit(move |_, units: &[Unit], fate| {
            if fate.is_ok() && units.iter().any(|unit| is(&unit.act)) {
                kill_me();
            }
        });
    };
    let faulty = Faulty::new(Arc::clone(&store));
    match kill {
        Some(Boundary::BeforeRecord) => {
            faulty.on_call(move |asked| if asked.commits(ends) { kill_me() } else { Fault::None })
        }
        Some(Boundary::AfterRecord) => kill_after(&faulty, ends),
        Some(Boundary::AfterStart) => kill_after(&faulty, begins),
        None | Some(Boundary::Before(_) | Boundary::After(_)) => return store,
    }
    Arc::new(faulty)
}

impl Sweep {
    /// Kills one boot after the other, until there is nothing left to record.
    fn relay(&self) {
        let (room, records) = (self.place.room(), self.facts.iter().map(BTreeSet::len).sum::<usize>());
        for boot in 0..TURNS.len() * 2 * records {
            let kill = TURNS[boot % TURNS.len()];
            let mut child = Child::spawn(self.role(&room, boot, Some(kill)));
            let status = child.end();
            if was_killed(status) {
                continue;
            }
            let story = format!("killed {boot} times");
            assert!(status.success(), "{story}: {status}\n{}", child.last_words());
            println!("{story}, for {records} records");
            assert!(boot > records, "so few kills for {records} records: {boot}");
            return self.check(&room, boot + 1, &story);
        }
        panic!("the program is not done after so many boots");
    }
}

#[test]
fn functions_in_a_file_that_are_killed_at_one_record_after_another_repeat_nothing_recorded() {
    Sweep::of(Place::InAFile, 3).relay();
}

#[test]
#[ignore = "it takes minutes"]
fn functions_of_a_hundred_calls_in_a_file_that_are_killed_at_one_record_after_another_repeat_nothing_recorded()
 {
    Sweep::of(Place::InAFile, LINKS).relay();
}

#[cfg(feature = "postgres")]
#[test]
#[ignore = "it takes minutes"]
fn functions_of_a_hundred_calls_on_postgres_that_are_killed_at_one_record_after_another_repeat_nothing_recorded()
 {
    Sweep::of(Place::on_postgres(), LINKS).relay();
}
