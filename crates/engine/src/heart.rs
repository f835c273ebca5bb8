//! The lease: heartbeats, judging other nodes, and starting afresh when this one was fenced.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep, sleep_until, timeout};
use windlass_core::{ClaimId, NodeId, RunId, Time};
use windlass_store::{Death, Heartbeat, NewNode, NodeRow, Place, Pulse, StoreError};

use crate::{
    Error,
    boxed::boxed,
    clock::awake_or_not,
    grip::{Grip, Grips, LONG},
    metric,
    node::Node,
    reserved::is_reserved,
    run_loop::Mail,
    take_up::take_up,
};

/// How many runs one transaction of a sweep releases: others write in between.
const SWEEP: usize = 500;
/// Nobody expires before this has passed.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// How often the lease and the attempts are looked at, at least.
const LOOK: Duration = Duration::from_secs(1);
/// A busy database takes so long for anything, so that no heartbeat is given up earlier.
const BRIEFEST: Duration = Duration::from_secs(1);

/// Keeps this node's lease, and takes over from nodes that have lost theirs.
///
/// Woken by the next heartbeat, by the instant at which another node's lease runs out, by word that a
/// process is gone, and by the loss of this node's own lease.
pub(crate) struct Heart {
    node: Arc<Node>,
    /// The name that this process last had.
    id: Option<NodeId>,
    /// When the last heartbeat was answered, on a clock that counts suspend.
    answered: i64,
    /// The heartbeats since the view of the others was last interrupted.
    seen: u32,
    /// When the last view was taken, by the store's clock.
    last_view: Option<Time>,
    next_beat: Instant,
    /// How often the lease and the attempts are looked at, at least.
    look: Duration,
    others: Vec<NodeRow>,
    /// Whether the user's threads took up the last thing they were given.
    alive: Arc<AtomicBool>,
    probed: Instant,
    stuck: bool,
    /// What kept a thread at the last look.
    grips: Grips,
}

impl Heart {
    /// Joins, and returns with the first lease.
    pub(crate) async fn start(node: Arc<Node>) -> Result<Self, Error> {
        let now = Instant::now();
        // Under virtual time nothing can be suspended or stuck, and every look is an event to be played.
        let look = if node.options.virtual_time { node.options.heartbeat } else { LOOK };
        let mut heart = Self {
            node,
            id: None,
            answered: awake_or_not(),
            seen: 0,
            last_view: None,
            next_beat: now,
            look,
            others: Vec::new(),
            alive: Arc::new(AtomicBool::new(true)),
            probed: now,
            stuck: false,
            grips: Grips::default(),
        };
        let name = heart.node.options.name.clone();
        heart.join(name).await?;
        heart.beat().await?;
        Ok(heart)
    }

    async fn join(&mut self, name: Option<String>) -> Result<(), Error> {
        let options = &self.node.options;
        let id = NodeId::new();
        let new = NewNode {
            id,
            name: name.clone(),
            version: options.version.clone(),
            queues: options.queues.keys().map(ToString::to_string).collect(),
            stale_after: options.stale_after,
        };
        let (asked, asked_at) = (self.lease_clock(), Instant::now());
        let joined = self.node.hub.store.join(new).await?;
        self.node.hub.clock.follow(joined.now);
        self.answered = asked;
        self.node.renew_lease(asked_at);
        self.seen = 0;
        self.last_view = None;
        self.id = Some(id);
        self.node.hub.identity.assume(id);
        tracing::info!(node = %id, name, "the engine joined");
        if !joined.fenced.is_empty() {
            tracing::info!(predecessors = joined.fenced.len(), "predecessors of the same name were fenced");
        }
        Ok(())
    }

    pub(crate) async fn run(mut self) {
        let node = Arc::clone(&self.node);
        let mut hints = node.hub.store.hints();
        loop {
            let Some(id) = node.id() else {
                self.start_afresh().await;
                if node.leaving.is_cancelled() || node.hub.closed.is_cancelled() {
                    return;
                }
                continue;
            };
            let wake = self.next_beat.min(Instant::now() + self.look).min(self.next_expiry());
            tokio::select! {
                () = sleep_until(wake) => {}
                () = node.hub.identity.lost(Some(id)) => continue,
                () = node.hub.closed.cancelled() => return,
                hint = hints.recv() => match hint {
                    Ok(windlass_store::Hint::Gone(gone)) if gone != id => self.next_beat = Instant::now(),
                    // Changes are the watcher's business, and a missed word is made up for by a heartbeat.
                    _ => continue,
                },
            }
            self.watch_lease(id);
            self.look_at_threads();
            self.probe();
            node.watchdog.report(node.hub.clock.now());
            if Instant::now() >= self.next_beat.min(self.next_expiry()) {
                self.beat_within_lease(id).await;
            }
        }
    }

    /// The time by which a lease is measured. Under virtual time there is no suspend.
    fn lease_clock(&self) -> i64 {
        if self.node.options.virtual_time { self.node.hub.clock.now().0 } else { awake_or_not() }
    }

    fn lease_left(&self) -> Duration {
        let used = Duration::from_micros(u64::try_from(self.lease_clock() - self.answered).unwrap_or(0));
        self.node.options.lease().saturating_sub(used)
    }

    /// Stops acting before others may declare this node dead.
    fn watch_lease(&self, id: NodeId) {
        if self.lease_left().is_zero() {
            tracing::error!(node = %id, "no heartbeat was answered for the length of the lease; what runs is cancelled");
            self.node.hub.identity.lose(Some(id));
        }
    }

    async fn beat_within_lease(&mut self, id: NodeId) {
        // One that is not answered must leave enough of the lease for others, on other connections.
        let patience = self.lease_left().min((self.node.options.lease() / 3).max(BRIEFEST));
        match timeout(patience, self.beat()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the heartbeat failed");
                self.next_beat = Instant::now() + (self.node.options.heartbeat / 5).min(LOOK);
            }
            Err(_) => self.watch_lease(id),
        }
    }

    /// Says that this node lives, and looks after the others.
    async fn beat(&mut self) -> Result<(), Error> {
        let Some(id) = self.node.id() else { return Ok(()) };
        let (sent, sent_at) = (self.lease_clock(), Instant::now());
        let running = u32::try_from(self.node.held()).unwrap_or(u32::MAX);
        let ended = self.node.throughput.of_the_last_minute(self.node.hub.clock.now());
        let since = self.node.point();
        let beat = match self.node.hub.store.heartbeat(id, Pulse { running, ended }).await {
            Ok(beat) => beat,
            Err(StoreError::Fenced) => {
                self.node.hub.identity.lose(Some(id));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.answered = sent;
        self.node.renew_lease(sent_at);
        self.node.hub.clock.follow(beat.now);
        self.next_beat = Instant::now() + self.node.options.heartbeat;
        self.note_view(beat.now);
        let Heartbeat { now, others, gone, inbox, strangers } = beat;
        let own = self.node.options.queues.keys().map(Arc::clone);
        self.node.guests.learn_served(&others, own);
        self.others = others;
        self.node.deliver(inbox, since);
        if self.node.guests.len() > 0 {
            // What was withdrawn is found out now at the latest.
            self.node.guests.changed.notify_one();
        }
        for (run, claim) in strangers {
            self.adopt(id, run, claim).await?;
        }
        for (run, claim) in self.node.forsaken.beat() {
            match self.adopt(id, run, claim).await {
                Ok(()) => self.node.forsaken.settled(run, claim),
                Err(error) => tracing::warn!(%run, %error, "a run that was dropped cannot be taken up yet"),
            }
        }
        self.judge(id, now, &gone.into_iter().collect()).await
    }

    /// Takes up a run that this node holds, and of which it was never told or has dropped what it knew.
    async fn adopt(&self, id: NodeId, run: RunId, claim: ClaimId) -> Result<(), Error> {
        let node = &self.node;
        if node.cell(run).is_some() || node.stopping.is_cancelled() {
            return Ok(());
        }
        let Some(image) = node.hub.store.load(run).await? else { return Ok(()) };
        if image.standing.place != (Place::Owned { node: id, claim }) || node.cell(run).is_some() {
            return Ok(());
        }
        tracing::warn!(%run, workflow = %image.run.workflow, "this node holds a run with which nothing went on; it goes on now");
        // Whether there is room or not, it is here.
        node.occupy(usize::from(!is_reserved(&image.run.workflow)));
        let adopter = Arc::clone(node);
        node.user.spawn(async move { take_up(&adopter, id, claim, image) });
        Ok(())
    }

    /// After an outage every node looks stale to every other, so a view that was interrupted judges nobody
    /// for two heartbeats.
    fn note_view(&mut self, now: Time) {
        let gap = self.last_view.map_or(Duration::ZERO, |last| now.since(last));
        let interrupted =
            gap > self.node.options.heartbeat * 2 || self.last_view.is_some_and(|last| now < last);
        self.seen = if interrupted { 0 } else { self.seen + 1 };
        self.last_view = Some(now);
    }

    fn may_judge(&self) -> bool {
        self.seen > 2
    }

    /// When the first of the others may be declared dead.
    fn next_expiry(&self) -> Instant {
        let far = Instant::now() + FOREVER;
        if !self.may_judge() {
            return far;
        }
        let first = self
            .others
            .iter()
            .filter(|other| !other.dead)
            .map(|other| other.heartbeat_at + other.stale_after);
        first.min().map_or(far, |at| self.node.hub.clock.instant(at + Duration::from_millis(1)))
    }

    async fn judge(&mut self, id: NodeId, now: Time, gone: &HashSet<NodeId>) -> Result<(), Error> {
        let mut dead = self.others.iter().any(|other| other.dead);
        for other in self.others.iter().filter(|other| !other.dead) {
            let stale = now.since(other.heartbeat_at) > other.stale_after;
            let why = match (gone.contains(&other.id), stale && self.may_judge()) {
                (true, _) => Death::Gone,
                (false, true) => Death::Stale,
                (false, false) => continue,
            };
            if self.node.hub.store.declare_dead(id, other.id, why).await? {
                tracing::warn!(node = %other.id, name = other.name.as_deref(), pid = other.pid, ?why, "a node is dead");
                dead = true;
            }
        }
        // What is not there any more needs no watching.
        self.others.retain(|other| !other.dead && !gone.contains(&other.id));
        if dead { self.sweep(id).await } else { Ok(()) }
    }

    async fn sweep(&self, id: NodeId) -> Result<(), Error> {
        loop {
            let swept = self.node.hub.store.sweep(id, SWEEP).await?;
            if swept.released > 0 {
                metric::runs_recovered(swept.released);
                tracing::info!(runs = swept.released, "runs of dead nodes may be claimed");
                self.node.claim.notify_one();
            }
            if swept.tasks > 0 {
                tracing::info!(tasks = swept.tasks, "published attempts of dead nodes may be claimed");
                self.node.guests.changed.notify_one();
            }
            if !swept.more {
                return Ok(());
            }
        }
    }

    /// This process may not act under its old name any more: it drops everything, and joins under a new one.
    async fn start_afresh(&mut self) {
        metric::fenced();
        self.node.tell_all(|| Mail::Vanish);
        self.node.guests.all().iter().for_each(|guest| guest.vanish());
        self.wait_for_silence().await;
        self.node.forget_all();
        let mut pause = Duration::from_millis(50);
        while !self.node.leaving.is_cancelled() && !self.node.hub.closed.is_cancelled() {
            match self.come_back().await {
                Ok(()) if self.node.leaving.is_cancelled() => return self.leave_again().await,
                Ok(()) => {
                    self.next_beat = Instant::now();
                    self.node.claim.notify_one();
                    self.node.guests.changed.notify_one();
                    return;
                }
                Err(error) => tracing::warn!(%error, "the engine cannot join; trying again"),
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.node.hub.closed.cancelled() => return,
            }
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    /// Gives up a name that whoever stops the engine did not know yet.
    async fn leave_again(&self) {
        let Some(id) = self.id else { return };
        match timeout(LOOK, self.node.hub.store.leave(id)).await {
            Ok(Ok(()) | Err(StoreError::Fenced)) => self.node.hub.identity.give_up(id),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the engine joined while it was stopped, and cannot leave")
            }
            Err(_) => {
                tracing::warn!("the engine joined while it was stopped, and its leaving is not answered")
            }
        }
    }

    /// Gives back what the old name still holds, if it was not declared dead, so that nobody has to wait for
    /// its lease; then joins under a new one.
    async fn come_back(&mut self) -> Result<(), Error> {
        let old = self.id;
        if let Some(old) = old {
            match timeout(LOOK, self.node.hub.store.leave(old)).await {
                Ok(Ok(()) | Err(StoreError::Fenced)) => self.node.hub.identity.give_up(old),
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => return Err(Error::deadline("giving up the old name", LOOK)),
            }
        }
        self.join_again(old).await
    }

    /// Joins under the instance's name, unless a successor has it: a new boot fences its predecessor, and not
    /// the other way round.
    async fn join_again(&mut self, old: Option<NodeId>) -> Result<(), Error> {
        let mut name = self.node.options.name.clone();
        if name.is_some() {
            let nodes = self.node.hub.store.nodes().await?;
            let successor = nodes.iter().find(|node| !node.dead && Some(node.id) != old && node.name == name);
            if let Some(successor) = successor {
                tracing::warn!(
                    name,
                    pid = successor.pid,
                    "another process has taken this one's name; it goes on without"
                );
                name = None;
            }
        }
        self.join(name).await
    }

    /// Waits until the dropped futures are gone; code that does not yield cannot be waited for.
    async fn wait_for_silence(&self) {
        let node = &self.node;
        let silent = async {
            while !node.is_silent() {
                let released = node.released.notified();
                if node.is_silent() {
                    break;
                }
                released.await;
            }
        };
        let patience = node.options.cancel_grace;
        if timeout(patience, silent).await.is_err() {
            tracing::error!(
                runs = node.held(),
                published = node.guests.len(),
                "some attempts do not yield, and go on although the lease is lost"
            );
        }
    }

    /// Names the attempts that keep their threads. Under virtual time none does.
    fn look_at_threads(&mut self) {
        if self.node.options.virtual_time {
            return;
        }
        for (grip, kept_for) in self.grips.look(Instant::now(), self.node.grips()) {
            let Grip { run, workflow, step, attempt, .. } = grip;
            tracing::error!(
                %run, %workflow, %step, attempt, ?kept_for,
                "the attempt keeps a thread of the program's runtime and does not yield: make the task a plain function \
                 (it runs on the blocking pool) or yield in it"
            );
        }
    }

    /// Finds out whether the user's threads still take anything up.
    fn probe(&mut self) {
        if self.alive.swap(false, Ordering::AcqRel) {
            self.probed = Instant::now();
            self.stuck = false;
            let alive = Arc::clone(&self.alive);
            self.node.user.spawn(boxed(async move { alive.store(true, Ordering::Release) }));
        } else if self.probed.elapsed() > LONG && !self.stuck {
            self.stuck = true;
            tracing::error!(
                busy_for = ?self.probed.elapsed(), kept_by = self.grips.names(),
                "no thread of the program's runtime takes up new work: code that does not yield, or blocks, holds them \
                 all; make such tasks plain functions (they run on the blocking pool) or yield in them"
            );
        }
    }
}
