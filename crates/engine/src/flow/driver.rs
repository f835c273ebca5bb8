//! Driving a durable function: letting it hear of what is recorded, seeing to its waits, and parking it.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};
use tracing::Dispatch;
use windlass_core::{CallKind, Divergence, Failure, FailureKind, Time};
use windlass_store::InboxRow;

use super::{
    Flow, FlowCode, ForeignWaits, LookBack,
    dry::Replayed,
    scene::{self, Scene, State, Status},
    undo::{Halted, put_in_order},
    waker::{FunctionWaker, ours},
};
use crate::{Body, BoxFuture, Call, Cx, Slot, attempt::guard, run_loop::Mail};

/// Drives a durable function to its end.
pub(super) struct Driver {
    scene: Arc<Scene>,
    cx: Cx,
    phase: Phase,
    waker: Arc<FunctionWaker>,
    /// The same, as its futures get it.
    own: Waker,
    /// Whether the function has to be asked whatever woke it.
    ask: bool,
    timer: Option<(Time, Pin<Box<Sleep>>)>,
    seating: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Until when it waits without a slot, if it does.
    deferred: Option<Time>,
    grace: Option<Instant>,
    reported: bool,
    /// Who was last told to be woken.
    known: Option<Waker>,
    /// Whether it has said since that it waits.
    has_rested: bool,
    /// What a function is made from, again and again.
    again: Option<(Call, FlowCode)>,
    /// Whether the function is being run again from its top although nothing was lost.
    is_rehearsal: bool,
    /// How the function ended, while what it left out is looked back at.
    ended: Option<Box<Body>>,
}

type Closing = Pin<Box<dyn Future<Output = Result<(), Halted>> + Send>>;

/// What a function heard of, if it did, and whom to wake.
type Heard = Result<Option<Option<Waker>>, Divergence>;

enum Phase {
    /// The function runs.
    Function(BoxFuture),
    /// It failed, and its run is asked for the verdict.
    Failed(Box<Failure>),
    /// Things are put in order; then the function ends like this.
    Closing(Closing, Option<Box<Body>>),
    /// The next round is about to begin.
    Continuing(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// The run is somebody else's business from here on.
    Over,
}

impl Driver {
    pub(super) fn new(scene: Arc<Scene>, call: Call, code: &FlowCode) -> Self {
        let cx = call.cx().clone();
        let function = make(&scene, &call, code);
        Self { again: Some((call, Arc::clone(code))), ..Self::of_task(scene, cx, function) }
    }

    /// Drives a task of a graph, whose body is run again by its next attempt.
    pub(super) fn of_task(scene: Arc<Scene>, cx: Cx, function: BoxFuture) -> Self {
        let waker = Arc::<FunctionWaker>::default();
        let own = Waker::from(Arc::clone(&waker));
        scene.set_wakers(&own);
        Self {
            scene,
            cx,
            phase: Phase::Function(function),
            waker,
            own,
            ask: true,
            timer: None,
            seating: None,
            deferred: None,
            grace: None,
            reported: false,
            known: None,
            has_rested: false,
            again: None,
            is_rehearsal: false,
            ended: None,
        }
    }

    /// Notes who is woken when there is something to do. From here on it does not wait.
    fn set_driver(&mut self, waker: &Waker) {
        let is_known = self.known.as_ref().is_some_and(|known| known.will_wake(waker));
        if is_known && !self.has_rested {
            return;
        }
        self.scene.set_driver(waker);
        self.has_rested = false;
        if !is_known {
            self.waker.set_driver(waker);
            self.known = Some(waker.clone());
        }
    }

    /// Whether it has the slot that it needs.
    fn has_seat(&self) -> bool {
        let link = self.cx.inner().link().filter(|_| !self.scene.is_dry());
        self.seating.is_none() && link.is_none_or(|link| link.seat.is_taken())
    }

    /// Takes a slot; answers whether there is one.
    fn is_seated(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(seating) = &mut self.seating {
            if seating.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.seating = None;
        }
        let Some(link) = self.cx.inner().link().filter(|_| !self.scene.is_dry()) else { return true };
        if link.seat.try_take(link.host.slots()) {
            return true;
        }
        let mine = self.cx.clone();
        let mut seating: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            if let Some(link) = mine.inner().link() {
                link.seat.take(link.host.slots()).await;
            }
        });
        let seated = seating.as_mut().poll(cx).is_ready();
        if !seated {
            self.seating = Some(seating);
        }
        seated
    }

    /// Lets the function go on for as long as there is something for it to hear.
    fn run(&mut self, cx: &mut Context<'_>) -> Poll<Body> {
        loop {
            let Some((heard, doing)) = self.hear(cx) else { return Poll::Pending };
            let heard = match heard {
                Ok(heard) => heard,
                Err(divergence) => return self.block(&divergence),
            };
            let is_news = heard.is_some();
            if is_news && self.may_rehearse() {
                self.rehearse();
                continue;
            }
            // It is asked anyway, so that only those in between need to know.
            let woken = heard.flatten().filter(|waker| !waker.will_wake(&self.own));
            ours(|| woken.map(Waker::wake));
            let woken = self.waker.take_woken();
            if is_news || woken || std::mem::take(&mut self.ask) {
                let Phase::Function(function) = &mut self.phase else { return Poll::Pending };
                let function = function.as_mut();
                let mut own = Context::from_waker(&self.own);
                let polled = guard(|| ours(|| doing.quietly(|| function.poll(&mut own))));
                let misfit = (doing != Doing::New).then(|| self.scene.state().misfit.take()).flatten();
                if let Some(divergence) = misfit {
                    return self.block(&divergence);
                }
                match polled {
                    // Code that wakes itself is asked again when others have had their turn: whoever woke it has
                    // woken us too.
                    Ok(Poll::Pending) if self.waker.is_woken() => return Poll::Pending,
                    Ok(Poll::Pending) => continue,
                    Ok(Poll::Ready(body)) => return self.returned(body),
                    Err(panic) => return self.returned(Err(panic)),
                }
            }
            let mut state = self.scene.state();
            let settled = state.journal.settle();
            if matches!(settled, Ok(false)) && !state.needs_attention() && !self.scene.is_dry() {
                return Poll::Pending;
            }
            drop(state);
            match settled {
                // It waits for something else before it calls what is recorded.
                Err(_) if self.is_astray() => return self.stray(),
                Err(divergence) => return self.block(&divergence),
                Ok(true) if self.scene.is_dry() => return self.replayed(),
                Ok(true) => {
                    self.is_rehearsal = false;
                    let waiting = self.scene.state().waiting();
                    ours(|| waiting.into_iter().for_each(Waker::wake));
                    self.ask = true;
                }
                Ok(false) if self.attend() => {}
                // A visit of a state waits for its next attempt.
                Ok(false) if self.scene.is_dry() => return self.replayed(),
                Ok(false) => match self.lost() {
                    Some(divergence) => return self.block(&divergence),
                    None => return Poll::Pending,
                },
            }
        }
    }

    /// Lets the function hear of the next thing, and says what it does because of it. `None` if there is something for it,
    /// and no slot.
    fn hear(&mut self, cx: &mut Context<'_>) -> Option<(Heard, Doing)> {
        let has_seat = self.has_seat() && self.deferred.is_none();
        let mut state = self.scene.state();
        if !has_seat && (self.ask || self.waker.is_woken() || state.journal.is_behind()) {
            drop(state);
            if !self.is_seated(cx) {
                return None;
            }
            self.undefer();
            state = self.scene.state();
        }
        let heard = state.hear();
        let doing = match (state.journal.is_live(), state.journal.is_behind()) {
            (true, _) => Doing::New,
            (false, true) => Doing::Again,
            (false, false) => Doing::Unknown,
        };
        Some((heard, doing))
    }

    /// Whether the function waits, and has called nothing that it could wait for.
    fn is_astray(&self) -> bool {
        self.scene.state().open.is_empty() && self.scene.next_input().is_none()
    }

    fn stray(&mut self) -> Poll<Body> {
        match self.scene.is_dry() {
            true => self.end_replay(Replayed::Strays(self.foreign_failure())),
            false => Poll::Pending,
        }
    }

    /// A replay that does nothing has come to where something new would begin.
    fn replayed(&mut self) -> Poll<Body> {
        if self.is_astray() {
            return self.stray();
        }
        let continues = self.scene.next_input().is_some();
        let replayed = if continues { Replayed::Continues } else { Replayed::Waits(self.scene.waits_for()) };
        self.end_replay(replayed)
    }

    fn end_replay(&mut self, replayed: Replayed) -> Poll<Body> {
        self.leave(Phase::Over);
        self.scene.state().replayed = Some(Box::new(replayed));
        Poll::Ready(Err(cut_off()))
    }

    /// The function has returned.
    fn returned(&mut self, body: Body) -> Poll<Body> {
        if self.scene.is_task() {
            // What it has started, and does not wait for any more, is seen to when its run ends.
            self.leave(Phase::Over);
            return Poll::Ready(body);
        }
        let looked_back = self.scene.state().looking_back.take();
        if let Some(visit) = looked_back {
            return self.looked_back(&visit);
        }
        let checked = self.scene.state().journal.check_all_called();
        if let Err(divergence) = checked {
            return self.block(&divergence);
        }
        if self.scene.is_dry() {
            return self.end_replay(Replayed::Returned(body.map(drop)));
        }
        let failure = match body {
            // It was to be stopped, and its verdict stands: what it did is undone.
            Ok(_) if self.scene.state().closing.is_some() => cut_off(),
            Ok(done) if self.scene.state().children.is_empty() => {
                self.leave(Phase::Over);
                return Poll::Ready(Ok(done));
            }
            Ok(done) => {
                let scene = Arc::clone(&self.scene);
                let closing = async move {
                    scene.stop_children().await;
                    Ok(())
                };
                self.begin_closing(Box::pin(closing), Ok(done));
                return Poll::Pending;
            }
            Err(failure) => failure,
        };
        let state = self.scene.state();
        // What is being recorded, or was and has not been heard of, may have to be undone too.
        let has_nothing = state.undos.is_empty() && state.passed.is_empty() && state.children.is_empty();
        let is_in_order = has_nothing && state.is_quiet();
        drop(state);
        if is_in_order {
            self.leave(Phase::Over);
            return Poll::Ready(Err(failure));
        }
        // Whoever hears all news of the run decides what its verdict is.
        self.scene.cell.tell(Mail::Failing(self.scene.lane, failure.clone()));
        self.leave(Phase::Failed(Box::new(failure)));
        Poll::Pending
    }

    /// All visits that were passed over have been looked back at; or one of them is not what it was.
    fn looked_back(&mut self, last: &str) -> Poll<Body> {
        let checked = self.scene.state().journal.check_looked_back(last);
        match checked {
            Err(divergence) => self.block(&divergence),
            Ok(()) => {
                let body = self.ended.take().map_or_else(|| Err(cut_off()), |body| *body);
                self.put_in_order(body);
                Poll::Pending
            }
        }
    }

    /// Says that a visit which is looked back at waits for something that it called, and is not recorded.
    fn lost(&self) -> Option<Divergence> {
        let state = self.scene.state();
        let visit = state.looking_back.as_ref().filter(|_| state.has_waits())?;
        let unheard = state.journal.check_looked_back(visit).err();
        Some(unheard.unwrap_or_else(|| state.journal.not_called(visit, CallKind::Visit)))
    }

    /// Whether nothing is under way that running the function again would do twice.
    fn may_rehearse(&self) -> bool {
        if !self.scene.cell.node.options.rehearse {
            return false;
        }
        let state = self.scene.state();
        !self.waker.is_foreign()
            && state.rehearses
            && state.journal.is_live()
            && state.looking_back.is_none()
            // What follows the end of a visit is ours.
            && !state.journal.has_just_left()
            && state.is_quiet()
            && !state.is_busy()
    }

    /// Runs the function again from its top: it has to come to the same point.
    fn rehearse(&mut self) {
        // The calls that it has made are forgotten with it.
        self.leave(Phase::Over);
        self.scene.rewind();
        self.begin_anew();
        self.is_rehearsal = true;
    }

    /// Runs the function from its top.
    fn begin_anew(&mut self) {
        if let Some((call, code)) = &mut self.again {
            call.set_input(self.scene.input());
            self.phase = Phase::Function(make(&self.scene, call, code));
            self.ask = true;
        }
    }

    fn block(&mut self, divergence: &Divergence) -> Poll<Body> {
        if self.scene.is_dry() {
            return self.end_replay(Replayed::Diverged(divergence.clone()));
        }
        self.leave(Phase::Over);
        if self.is_rehearsal {
            return Poll::Ready(Err(Failure::permanent(format!(
                "the function does not do the same when it is run again: {divergence}"
            ))));
        }
        self.scene.cell.tell(Mail::Blocked(divergence.to_string()));
        Poll::Pending
    }

    fn surrender(&mut self) -> Poll<Body> {
        self.leave(Phase::Over);
        self.scene.cell.tell(Mail::Surrender);
        Poll::Pending
    }

    /// Sees to the calls that end by themselves. Answers whether the function may go on because of it.
    fn attend(&mut self) -> bool {
        let mut state = self.scene.state();
        if state.must_not_rest() {
            let woken = state.stop_resting();
            drop(state);
            let goes_on = !woken.is_empty();
            ours(|| woken.into_iter().for_each(Waker::wake));
            return goes_on;
        }
        if !state.may_begin() {
            return false;
        }
        if let Some(visit) = state.ready_visit() {
            drop(state);
            ours(|| visit.wake());
            return true;
        }
        if state.waits.is_empty() {
            return false;
        }
        let now = self.scene.now();
        let mut again = Vec::new();
        let mut children = Vec::new();
        let mut due: Vec<(Time, u64)> = Vec::new();
        let State { open, waits, .. } = &mut *state;
        for number in waits.iter() {
            let Some(call) = open.get_mut(number) else { continue };
            if call.kind == CallKind::Child {
                children.extend(child_turn(*number, call, &self.scene));
            }
            let Some(at) = call.due.filter(|at| *at <= now) else { continue };
            match (&call.status, call.kind) {
                (Status::Backoff, _) => {
                    (call.status, call.due) = (Status::Waiting, None);
                    again.extend(call.waker.clone());
                }
                (Status::Waiting, CallKind::Sleep) => due.push((at, *number)),
                _ => {}
            }
        }
        due.sort_unstable();
        let mut records: Vec<_> = due.into_iter().filter_map(|(_, number)| state.end_wait(number)).collect();
        let event =
            if state.is_quiet() && records.is_empty() { self.take_event(&mut state, now) } else { None };
        let promises = state.promises();
        drop(state);
        let goes_on = !again.is_empty();
        for turn in children {
            match turn {
                ChildTurn::Begin(number, id) => self.scene.begin_child(number, &id),
                ChildTurn::Start(number) => self.scene.start_child(number),
                ChildTurn::Ended(number, row) => self.scene.hear_of_child(number, &row),
            }
        }
        for (id, kind) in records.drain(..) {
            self.scene.end_wait(&id, kind, now, None);
        }
        if let Some((id, row)) = event {
            self.scene.end_wait(&id, CallKind::Event, now, row);
        }
        for (id, kind, due) in promises {
            self.scene.promise(&id, kind, due);
        }
        ours(|| again.into_iter().for_each(Waker::wake));
        goes_on
    }

    /// One event that has come, or one wait for an event whose time is over. There is never more than one on its way:
    /// hearing of the first may be the end of the wait for the second, which then stays in the mailbox.
    fn take_event(&self, state: &mut State, now: Time) -> Option<(Arc<str>, Option<InboxRow>)> {
        let mut mailbox = self.scene.cell.mailbox();
        for number in &state.waits {
            let Some(call) = state.open.get(number) else { continue };
            let (Status::Waiting, CallKind::Event, Some(topic)) = (&call.status, call.kind, &call.topic)
            else {
                continue;
            };
            let found = mailbox.iter().position(|row| {
                // What came too late is the next one's.
                *row.topic == **topic && call.due.is_none_or(|due| row.at <= due)
            });
            let row = found.map(|at| mailbox.remove(at));
            if row.is_some() || call.due.is_some_and(|due| due <= now) {
                let number = *number;
                let (id, _) = state.end_wait(number)?;
                return Some((id, row));
            }
        }
        None
    }

    /// Says what the function waits for, so that it may be parked; or that it does not wait.
    fn rest(&mut self, cx: &mut Context<'_>) {
        let mut state = self.scene.state();
        let next = state.attended().filter_map(|call| call.due).min().filter(|_| state.may_begin());
        let is_held = state.is_paused && !state.is_busy();
        let waits = match self.scene.is_task() {
            true => !state.is_busy() && state.awaits(),
            false => is_held || (!state.is_busy() && state.has_waits() && !self.waker.is_foreign()),
        };
        let topics = state.attended().filter_map(|call| call.topic.as_deref().map(str::to_owned)).collect();
        // Whatever it waits for, its task has to end by its deadline.
        let deadline = self.cx.inner().limits.deadline.map(|(at, _)| at);
        let until = next.into_iter().chain(deadline).min().unwrap_or(Time::MAX);
        self.has_rested = true;
        let has_to_say = state.set_rest(if is_held { Vec::new() } else { topics }, waits.then_some(until));
        drop(state);
        if waits {
            self.deferred.take_if(|_| has_to_say);
            self.defer(until);
        } else {
            self.undefer();
        }
        self.set_timer(next, cx);
    }

    fn set_timer(&mut self, next: Option<Time>, cx: &mut Context<'_>) {
        let clock = &self.scene.cell.node.hub.clock;
        let Some(next) = next else { return self.timer = None };
        let now = clock.now();
        if self.timer.as_ref().is_none_or(|(at, _)| *at != next) {
            self.timer = Some((next, Box::pin(sleep_until(clock.instant(next)))));
        }
        while let Some((_, timer)) = &mut self.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            if next <= clock.now() && next > now {
                // It fell due just now.
                return cx.waker().wake_by_ref();
            }
            // The clock follows the store's, and may have been set back meanwhile.
            timer.as_mut().reset(Instant::now() + Duration::from_millis(1));
        }
    }

    fn defer(&mut self, until: Time) {
        if self.deferred != Some(until) {
            self.deferred = Some(until);
            let (lane, attempt) = (self.scene.lane, self.cx.attempt());
            self.scene.cell.tell(Mail::Deferred(lane, attempt, until));
        }
        self.cx.inner().pulse.hold();
        if let Some(link) = self.cx.inner().link() {
            link.seat.vacate(link.host.slots());
        }
    }

    fn undefer(&mut self) {
        if self.deferred.take().is_some() {
            self.cx.inner().pulse.go_on();
            self.scene.cell.tell(Mail::Undeferred(self.scene.lane, self.cx.attempt()));
        }
    }

    /// Looks whether the function waits for something that is not recorded. Answers why that fails it.
    fn foreign(&mut self) -> Option<Failure> {
        let is_mine = self.scene.is_task() || !self.waker.is_foreign();
        if is_mine || std::mem::replace(&mut self.reported, true) {
            return None;
        }
        let failure = self.foreign_failure();
        match self.scene.cell.node.options.foreign {
            ForeignWaits::Fail => return Some(failure),
            ForeignWaits::Warn => {
                let (run, workflow) = (self.scene.cell.subject.run, self.cx.workflow());
                tracing::warn!(%run, workflow, "{}; it is never parked", failure.message);
            }
            ForeignWaits::Allow => {}
        }
        None
    }

    fn foreign_failure(&self) -> Failure {
        let last = self.scene.state().journal.last().map(|id| format!(" after `{id}`"));
        Failure::permanent(format!(
            "the function waits{} for something that is not recorded (a timer, a channel, a task of its own), and may take \
             another path when it is run again: use `cx.sleep`, `cx.event`, `cx.step` and `windlass::select!`",
            last.unwrap_or_default()
        ))
    }

    /// Whether the running steps have had the time they get to end by themselves.
    fn has_had_grace(&mut self, cx: &mut Context<'_>) -> bool {
        let state = self.scene.state();
        if !state.journal.is_live() {
            return false;
        }
        if !state.stop_running() {
            return !state.is_busy();
        }
        drop(state);
        let until =
            *self.grace.get_or_insert_with(|| Instant::now() + self.scene.cell.node.options.cancel_grace);
        let mut timer = Box::pin(sleep_until(until));
        let is_over = timer.as_mut().poll(cx).is_ready();
        self.timer = Some((Time(0), timer));
        is_over
    }
}

impl Future for Driver {
    type Output = Body;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Body> {
        let this = self.get_mut();
        this.set_driver(cx.waker());
        loop {
            match &mut this.phase {
                Phase::Function(_) => {
                    if this.scene.is_dry() {
                        return this.run(cx);
                    }
                    let polled = match this.foreign() {
                        Some(failure) => this.returned(Err(failure)),
                        None => this.run(cx),
                    };
                    let Phase::Function(_) = this.phase else {
                        if polled.is_ready() || matches!(this.phase, Phase::Over) {
                            return polled;
                        }
                        continue;
                    };
                    let mut state = this.scene.state();
                    let (is_halted, is_closing) = (state.is_halted, state.closing.is_some());
                    let (is_busy, is_looking_back) = (state.is_busy(), state.looking_back.is_some());
                    let continues = state.continues();
                    if is_busy && state.waits.is_empty() && !is_halted && !is_closing && !continues {
                        // Most often it waits for a record that is on its way, and for nothing else.
                        state.set_rest(Vec::new(), None);
                        drop(state);
                        this.undefer();
                        this.timer = None;
                        return Poll::Pending;
                    }
                    drop(state);
                    // What a task waits for is one of several things that its run does, and the run leaves when it can.
                    if is_halted && !is_busy && !this.scene.is_task() {
                        return this.surrender();
                    }
                    if is_closing && !is_looking_back && this.has_had_grace(cx) {
                        this.put_in_order(Err(cut_off()));
                        continue;
                    }
                    if let Some(input) = this.scene.next_input().filter(|_| !is_closing && !is_halted) {
                        this.begin_round(input);
                        continue;
                    }
                    if is_closing {
                        return Poll::Pending;
                    }
                    this.rest(cx);
                    return Poll::Pending;
                }
                Phase::Failed(failure) => {
                    if this.scene.state().closing.is_none() {
                        return Poll::Pending;
                    }
                    let failure = Failure::clone(failure);
                    this.put_in_order(Err(failure));
                }
                Phase::Closing(closing, body) => match closing.as_mut().poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(Halted)) => return this.surrender(),
                    Poll::Ready(Ok(())) => {
                        let body = body.take().map_or_else(|| Err(cut_off()), |body| *body);
                        this.phase = Phase::Over;
                        return Poll::Ready(body);
                    }
                },
                Phase::Continuing(continuing) => match continuing.as_mut().poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => {
                        this.begin_anew();
                    }
                },
                Phase::Over => return Poll::Pending,
            }
        }
    }
}

impl Driver {
    fn put_in_order(&mut self, body: Body) {
        let passed = std::mem::take(&mut self.scene.state().passed);
        if let Some(first) = passed.first() {
            self.undefer();
            self.scene.state().looking_back = Some(Arc::clone(&first.visit));
            (self.ended, self.ask) = (Some(Box::new(body)), true);
            let (scene, cx) = (Arc::clone(&self.scene), self.cx.clone());
            return self.leave(Phase::Function(Box::pin(LookBack::all(scene, cx, passed))));
        }
        self.begin_closing(Box::pin(put_in_order(Arc::clone(&self.scene))), body);
    }

    fn begin_closing(&mut self, closing: Closing, body: Body) {
        self.undefer();
        self.leave(Phase::Closing(closing, Some(Box::new(body))));
    }

    fn begin_round(&mut self, input: Slot) {
        self.undefer();
        let scene = Arc::clone(&self.scene);
        let continuing = async move {
            scene.stop_children().await;
            scene.begin_round(input).await;
        };
        self.leave(Phase::Continuing(Box::pin(continuing)));
    }

    /// Drops the function, and what still runs of it.
    fn leave(&mut self, next: Phase) {
        let before = std::mem::replace(&mut self.phase, next);
        if guard(|| drop(before)).is_err() {
            tracing::error!(run = %self.scene.cell.subject.run, "the function panicked when it was dropped");
        }
    }
}

/// What is to be done about a child.
enum ChildTurn {
    Begin(u64, Arc<str>),
    Start(u64),
    Ended(u64, InboxRow),
}

fn child_turn(number: u64, call: &mut scene::Call, scene: &Scene) -> Option<ChildTurn> {
    match call.status {
        Status::Waiting => {
            call.status = Status::Starting;
            Some(ChildTurn::Begin(number, Arc::clone(&call.id)))
        }
        Status::Started => {
            call.status = Status::Running;
            Some(ChildTurn::Start(number))
        }
        Status::Away => {
            let mut mailbox = scene.cell.mailbox();
            let at = mailbox.iter().position(|row| call.topic.as_deref() == Some(&*row.topic))?;
            call.status = Status::Recording;
            Some(ChildTurn::Ended(number, mailbox.remove(at)))
        }
        _ => None,
    }
}

fn make(scene: &Arc<Scene>, call: &Call, code: &FlowCode) -> BoxFuture {
    let flow = Flow::new(Arc::clone(scene), call.cx().clone(), "".into());
    guard(|| code(call.clone(), flow)).unwrap_or_else(|panic| Box::pin(async { Err(panic) }))
}

/// What a function does when it is polled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// What it has not done before.
    New,
    /// What it did before.
    Again,
    /// What follows the last record, whether or not it came so far before.
    Unknown,
}

impl Doing {
    /// Polls the function. What it logs when it does something again was logged before.
    fn quietly<T>(self, poll: impl FnOnce() -> T) -> T {
        match self {
            Self::Again => tracing::dispatcher::with_default(&Dispatch::none(), poll),
            Self::New | Self::Unknown => poll(),
        }
    }
}

/// What a function returns that was stopped because its run was.
pub(super) fn cut_off() -> Failure {
    Failure { kind: FailureKind::Cancelled, ..Failure::permanent("the run was stopped") }
}
