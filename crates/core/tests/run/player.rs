//! Plays a random workflow to its end, with every kind of trouble on the way.

use std::time::Duration;

use windlass_core::{Ended, Failure, LaneId, Order, Rest};

use crate::{
    dice::Dice,
    script::{self, Shape},
    world::{Setup, World},
};

/// What may happen to a run beside its own work.
#[derive(Clone, Copy, Debug)]
pub struct Trouble {
    /// How many things happen before the run is left in peace.
    pub events: usize,
    /// Whether processes may die.
    pub crashes: bool,
    /// Whether a person may end the run.
    pub endings: bool,
    /// How many deaths in a row are allowed.
    pub max_recoveries: u32,
}

/// Plays one run to its end.
pub fn play(shape: Shape, trouble: Trouble) -> World {
    let mut setup = Setup::new(script::workflow(shape));
    let mut dice = Dice::of(&[shape.seed, 5]);
    setup.context = script::initial_context(shape.seed);
    setup.fan_limit = 1 + dice.below(4) as u32;
    setup.max_recoveries = trouble.max_recoveries;
    let mut player = Player { shape, world: World::new(setup), dice };
    player.world.slow_to_isolate = player.dice.chance(50);
    player.play(trouble);
    player.world
}

/// Plays the next generation of a run that has ended.
pub fn play_again(shape: Shape, trouble: Trouble, mut world: World) -> World {
    world.retry();
    let mut player = Player { shape, dice: Dice::of(&[shape.seed, 6, u64::from(world.generation)]), world };
    player.play(trouble);
    player.world
}

/// Plays a run whose processes die nearly every time.
pub fn play_dying(shape: Shape, max_recoveries: u32) -> World {
    let mut setup = Setup::new(script::workflow(shape));
    setup.context = script::initial_context(shape.seed);
    setup.max_recoveries = max_recoveries;
    let mut player = Player { shape, world: World::new(setup), dice: Dice::of(&[shape.seed, 7]) };
    while player.world.end.is_none() {
        match player.dice.below(5) {
            0 => player.some_attempt_ends(),
            1 => player.time_passes(),
            2 | 3 => player.world.commit_all(),
            _ => player.world.crash(),
        }
    }
    player.world
}

struct Player {
    shape: Shape,
    world: World,
    dice: Dice,
}

impl Player {
    fn play(&mut self, trouble: Trouble) {
        for _ in 0..trouble.events {
            if self.world.end.is_some() {
                return;
            }
            self.something_happens(trouble);
        }
        self.peace();
    }

    fn something_happens(&mut self, trouble: Trouble) {
        match self.dice.below(100) {
            0..=39 => self.some_attempt_ends(),
            40..=64 => {
                let most = self.world.flights.len();
                let count = 1 + self.dice.below(most.max(1));
                self.world.commit(count.min(most));
            }
            65..=74 => {
                self.world.isolate_all();
                self.time_passes();
            }
            75..=78 => self.some_attempt_waits(),
            79..=84 if trouble.crashes => self.world.crash(),
            85..=88 => self.give_up(),
            89..=91 => self.world.order(Order::Pause),
            92..=95 => self.world.order(Order::Resume),
            96 if trouble.endings => self.world.order(Order::Cancel { reason: "enough".to_owned() }),
            97 if trouble.endings && self.dice.chance(30) => {
                self.world.order(Order::Terminate { reason: "now".to_owned() });
            }
            _ => self.world.pass(Duration::ZERO),
        }
    }

    fn some_attempt_ends(&mut self) {
        let lanes: Vec<LaneId> = self.world.live.keys().copied().collect();
        if !lanes.is_empty() {
            let lane = *self.dice.pick(&lanes);
            self.attempt_ends(lane);
        }
    }

    fn attempt_ends(&mut self, lane: LaneId) {
        let live = self.world.live[&lane].clone();
        let world = &mut self.world;
        // What was told to stop may still be quicker.
        let cut = live.stopped && self.dice.chance(70) || world.halted && self.dice.chance(50);
        let late = live.deadline.is_some_and(|deadline| deadline <= world.now);
        let ended = if cut {
            Ended::Cut
        } else if late {
            Ended::Failed(Failure::deadline_exceeded(Duration::from_secs(1)))
        } else {
            script::outcome(self.shape.seed, world.generation, lane, live.number)
        };
        world.finish(lane, ended);
    }

    fn some_attempt_waits(&mut self) {
        let lanes: Vec<(LaneId, bool)> =
            self.world.live.iter().map(|(id, live)| (*id, live.deferred)).collect();
        if lanes.is_empty() {
            return;
        }
        match *self.dice.pick(&lanes) {
            (lane, true) => self.world.undefer(lane),
            (lane, false) => {
                let until = self.world.now + Duration::from_secs(self.dice.below(5) as u64);
                self.world.defer(lane, until);
            }
        }
    }

    fn time_passes(&mut self) {
        let span = match self.world.run.next_tick() {
            Some(at) if self.dice.chance(60) => at.since(self.world.now),
            _ => Duration::from_millis(self.dice.below(2_000) as u64),
        };
        self.world.pass(span);
    }

    /// The node parks the run, or stops and releases it.
    fn give_up(&mut self) {
        if self.dice.chance(30) {
            self.world.halt();
        }
        if self.world.run.rest() != Rest::Busy {
            self.world.change_hands();
        }
    }

    /// Nothing more comes from outside: the run has to end by itself.
    fn peace(&mut self) {
        if self.world.halted {
            self.stop_everything();
        }
        self.world.slow_to_isolate = false;
        self.world.isolate_all();
        self.world.order(Order::Resume);
        let most = 50_000;
        for _ in 0..most {
            self.world.commit_all();
            if self.world.end.is_some() {
                return;
            }
            if let Some(lane) = self.world.live.keys().next().copied() {
                self.attempt_ends(lane);
                continue;
            }
            let rest = self.world.run.rest();
            let due = self.world.run.next_tick();
            match (rest, due) {
                (Rest::Waiting(Some(until)), Some(due)) => {
                    assert_eq!(until, due, "nothing is deferred, so only a tick can help");
                    self.world.pass(due.since(self.world.now));
                }
                // A node that was told to give the run up does so.
                (Rest::Halted, _) => self.world.change_hands(),
                stuck => panic!("the run is stuck: {stuck:?}, {:?}", self.world.run.tasks()),
            }
        }
        panic!("the run did not end within {most} events");
    }

    fn stop_everything(&mut self) {
        let lanes: Vec<LaneId> = self.world.live.keys().copied().collect();
        for lane in lanes {
            self.world.finish(lane, Ended::Cut);
        }
        self.world.commit_all();
        if self.world.end.is_none() {
            self.world.change_hands();
        }
    }
}
