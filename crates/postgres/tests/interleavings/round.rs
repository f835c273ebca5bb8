//! One meeting of two operations, and what the model says to it.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use windlass_core::NodeId;
use windlass_store::{Memory, Store, conformance::TestClock};

use crate::{
    acts::{
        FIRST, LATER, NEW, NEWER, ONE, SECOND, THREE, TWO, claim_of, etl, message, node_of, tasks_of, units,
    },
    ask::{Ask, Said, comparable, nameless, show},
    call::Way,
    database::Database,
    invariants,
    proxy::Stop,
    world::{Part, Stage, World},
};

/// Nothing that is asked takes longer, even when others hold what it needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of a meeting: the two answers, and all that can be seen afterwards.
#[derive(Clone, Debug)]
struct Outcome {
    first: Said,
    second: Said,
    seen: String,
}

/// A situation that can be made again and again, and what may happen in it.
pub struct Round {
    world: World,
    database: Database,
    parts: Vec<Part>,
    /// What was seen of tables that held the same.
    known: Mutex<HashMap<String, String>>,
}

impl Round {
    pub async fn of(world: World) -> Self {
        let database = Database::new().await;
        let parts = world.make(&Stage::Tables(&database)).await;
        database.remember().await;
        Self { world, database, parts, known: Mutex::default() }
    }

    /// Lets every operation meet every other, and its own repeat, before each statement. Answers how often they met,
    /// and what was wrong.
    pub async fn meet_all(&self) -> (usize, Vec<String>) {
        let (mut met, mut breaches) = (0, Vec::new());
        for first in 0..self.parts.len() {
            let statements = self.statements(first).await;
            for second in 0..self.parts.len() {
                if first != second && self.parts[first].is_holders && self.parts[second].is_holders {
                    continue;
                }
                // A function that is called again starts another run.
                if first == second && matches!(self.parts[first].ask, Ask::Call(_)) {
                    continue;
                }
                let orders = self.orders(first, second).await;
                for k in self.parts[first].ask.first_stop()..=statements {
                    met += 1;
                    if let Err(why) = self.meet(first, second, k, &orders).await {
                        let names = (self.parts[first].name, self.parts[second].name);
                        breaches.push(format!("{:?}: {} | {} at {k}: {why}", self.world, names.0, names.1));
                    }
                }
            }
        }
        (met, breaches)
    }

    /// The way on which every statement can be stopped.
    fn stopped(&self) -> Way {
        let Database { stopped, applications, schema, .. } = &self.database;
        Way { store: stopped.clone(), application: applications.stopped.clone(), schema: schema.clone() }
    }

    /// The way on which nobody is stopped.
    fn free(&self) -> Way {
        let Database { free, applications, schema, .. } = &self.database;
        Way { store: free.clone(), application: applications.free.clone(), schema: schema.clone() }
    }

    /// How many statements an operation has.
    async fn statements(&self, part: usize) -> usize {
        // The first time, a store may also tidy up after what was before.
        for _ in 0..2 {
            self.database.restore().await;
            self.database.proxy.count();
            self.stopped().put(self.parts[part].ask.clone()).await;
        }
        self.database.proxy.counted()
    }

    /// Lets `first` go as far as its `k`-th statement, then `second` as far as it gets, then both to their ends.
    async fn meet(&self, first: usize, second: usize, k: usize, orders: &[Outcome]) -> Result<(), String> {
        let Self { database, parts, .. } = self;
        database.restore().await;
        database.proxy.stop_at(Stop::Before(k));
        let mut one = tokio::spawn(self.stopped().put(parts[first].ask.clone()));
        tokio::select! {
            () = database.proxy.stopped() => {}
            said = &mut one => return Err(format!("it was not stopped: {said:?}")),
        }
        let mut two = tokio::spawn(self.free().put(parts[second].ask.clone()));
        let said_two = tokio::select! {
            said = &mut two => Some(said.unwrap()),
            () = database.until_it_waits("free") => None,
        };
        database.proxy.go_on();
        let waited = said_two.is_none();
        let both = async {
            let one = one.await.unwrap();
            let two = if let Some(said) = said_two { said } else { two.await.unwrap() };
            (one, two)
        };
        let Ok((one, two)) = tokio::time::timeout(PATIENCE, both).await else {
            return Err("they wait for each other".into());
        };
        if waited && first != second && !parts[second].ask.may_wait_for(&parts[first].ask) {
            return Err("a claim waits for somebody else".into());
        }
        let outcome = Outcome { first: one, second: two, seen: self.seen().await? };
        self.judge(first, second, &outcome, orders).await
    }

    /// All that can be seen of the tables as they are, which must be in order.
    async fn seen(&self) -> Result<String, String> {
        let contents = self.database.contents().await;
        if let Some(seen) = self.known.lock().get(&contents) {
            return Ok(seen.clone());
        }
        invariants::check(&self.database).await?;
        let seen = look(&*self.database.free).await;
        self.known.lock().insert(contents, seen.clone());
        Ok(seen)
    }

    /// What the model gives for the one after the other, both ways.
    async fn orders(&self, first: usize, second: usize) -> [Outcome; 2] {
        let (parts, _) = model(self.world).await;
        let (one, two) = (&parts[first].ask, &parts[second].ask);
        [self.order(one, two, false).await, self.order(one, two, true).await]
    }

    async fn order(&self, first: &Ask, second: &Ask, reversed: bool) -> Outcome {
        let (_, store) = model(self.world).await;
        let (first, second) = (first.clone(), second.clone());
        let (first, second) = if reversed {
            let second = second.put(&store).await;
            (first.put(&store).await, second)
        } else {
            let first = first.put(&store).await;
            (first, second.put(&store).await)
        };
        Outcome { first, second, seen: look(&store).await }
    }

    /// Finds an order of the two in which the model gives the same, or what may be instead: see [`Ask::or_less`].
    async fn judge(
        &self,
        first: usize,
        second: usize,
        outcome: &Outcome,
        orders: &[Outcome],
    ) -> Result<(), String> {
        for model in orders {
            let agrees = outcome.first.agrees_with(&model.first) && outcome.second.agrees_with(&model.second);
            if agrees && outcome.seen == model.seen {
                return Ok(());
            }
        }
        let (parts, _) = model(self.world).await;
        let (one, two) = (&parts[first].ask, &parts[second].ask);
        // A claim passes over a child that is just being ended, and takes its parent, which hears of that when it is held:
        // as if the claim had come later, but for the inbox that it brought.
        let [forth, back] = orders else { unreachable!("there are two orders") };
        let is_passed = one.ends_idle()
            && outcome.first.agrees_with(&forth.first)
            && outcome.second.is_before(&forth.second)
            && outcome.seen == forth.seen
            || two.ends_idle()
                && outcome.second.agrees_with(&back.second)
                && outcome.first.is_before(&back.first)
                && outcome.seen == back.seen;
        if is_passed {
            return Ok(());
        }
        // A claim that is sent again gets what it got: whatever it does not hear of, nobody runs.
        let is_repeat = first == second && matches!(one, Ask::Claim(_) | Ask::ClaimTasks(_));
        let or_less = |ask: &Ask| if is_repeat { Vec::new() } else { ask.or_less() };
        let ones: Vec<_> = [vec![one.clone()], or_less(one)].concat();
        let twos: Vec<_> = [vec![two.clone()], or_less(two)].concat();
        for (at_one, less_one) in ones.iter().enumerate() {
            for (at_two, less_two) in twos.iter().enumerate() {
                for reversed in [false, true] {
                    let model = self.order(less_one, less_two, reversed).await;
                    let agrees = |at, said: &Said, model: &Said, ask: &Ask| match at {
                        0 => said.agrees_with(model),
                        _ => said.agrees_with_less(model, ask),
                    };
                    if agrees(at_one, &outcome.first, &model.first, one)
                        && agrees(at_two, &outcome.second, &model.second, two)
                        && outcome.seen == model.seen
                    {
                        return Ok(());
                    }
                }
            }
        }
        Err(format!("as if neither had come first: {outcome:#?}\nbut the model gives {orders:#?}"))
    }
}

async fn model(world: World) -> (Vec<Part>, Memory) {
    let clock = TestClock::new();
    let reader = clock.clone();
    let store = Memory::new(move || reader.now());
    let parts = world.make(&Stage::Model(&store, &clock)).await;
    (parts, store)
}

/// All that can be seen, and at last what a newcomer can claim.
async fn look(store: &dyn Store) -> String {
    let mut seen = String::new();
    let runs = [vec![FIRST, SECOND, NEW, NEWER], LATER.to_vec()].concat();
    for &run in &runs {
        seen += &show(store.load(run).await.map(|image| image.map(comparable)));
        seen.push('\n');
    }
    let nodes = store.nodes().await.map(|mut nodes| {
        nodes.iter_mut().for_each(nameless);
        nodes
    });
    seen += &show(nodes);
    seen += &show(store.queues(None).await);
    for key in ["k", "l"] {
        seen += &show(store.by_key(etl(), key.into()).await);
    }
    for node in [ONE, TWO, THREE] {
        let inbox = store.inbox(node, None).await;
        seen += &show(inbox.map(|rows| rows.into_iter().map(|row| (row.run, row.topic)).collect::<Vec<_>>()));
        seen += &show(store.held_tasks(node).await);
    }
    let ends = store.ends(runs).await.map(|mut ends| {
        ends.sort_by_key(|(run, _)| *run);
        ends
    });
    seen += &show(ends);
    // Whether a message is known is seen when it is sent again.
    let again = vec![(FIRST, message("go", Some("k")))];
    seen += &show(store.commit(None, units(again)).await);
    let newcomer = NodeId::from_bytes([7; 16]);
    store.join(node_of(newcomer)).await.unwrap();
    seen += &format!("\n{:?}", claim_of(newcomer, 100).put(store).await);
    seen += &format!("\n{:?}", tasks_of(newcomer, 101).put(store).await);
    seen
}
