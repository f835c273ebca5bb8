//! What may be asked of a store in a commit, and what it answers.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use windlass_core::{ClaimId, RunId, RunState, Time};

use crate::{DefinitionId, NewSpread, Parent, Reach, SpreadKey, StepRow, Wait};

/// Changes to one run that are written together or not at all.
///
/// The units of a batch are written in order, and each sees what the earlier ones did. A unit that cannot
/// be written is refused alone; its neighbours in the batch are written. Only what a run's holder says is bound
/// together: once one such unit of a run was refused, every later one of that run in the same batch is refused with
/// [`Refusal::Earlier`], even one that could have been written. What strangers ask for meanwhile, and are refused, takes
/// nothing from the holder, nor from each other.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The run that changes.
    pub run: RunId,
    /// How it changes.
    pub act: Act,
}

/// A change of one run.
///
/// Writing an act again is harmless, so a batch whose answer was lost is sent again as it was.
///
/// **Acts that carry a claim** are written when the committing node holds the run under that claim. When the
/// run stands ended and its [`Act::End`] was written under that very claim, all that the claim had to say is
/// there: the answer is [`Written::Done`] with the time of that end, and nothing is written. In every other
/// case (another holder, no holder, no such run, no committing node) the refusal is [`Refusal::NotYours`]:
/// the run is to be dropped. So a repeated `Park` or `Release` is refused, and takes nothing from the next
/// holder.
///
/// **Acts of those who execute published attempts** ([`Act::Deliver`], [`Act::SaveSpread`]) carry the claim of that
/// attempt, and are written when the committing node holds it under that claim. Otherwise they are answered with
/// [`Written::TooLate`], which is no refusal: what the run's own holder says in the same batch is not touched by it.
///
/// **Acts that end a run** ([`Act::End`], [`Act::EndIdle`]) also tell its [parent](NewRun::parent), if it has one: they do
/// what an [`Act::Send`] of [`Parent::message`] to it would do. A parent that has ended, or is not there, is passed over in
/// silence.
#[derive(Clone, Debug)]
pub enum Act {
    /// Makes the run. Answered with [`Written::Started`], or with [`Written::Existing`] when the id or the
    /// key stands for a run already; then nothing changes, and who holds that run is to be read back.
    ///
    /// The id is looked at before the key. A key that has not lapsed stands for its run even when that
    /// run has ended; one that has lapsed passes to the new run.
    Start(Box<NewRun>),
    /// Adds records to a held run. A record that is there already is left as it is.
    ///
    /// With `forget`, all that was recorded before goes first, of every generation, and so do the saved values. When
    /// the first of the steps is there already, the act was written before: then nothing goes, so that sending it again
    /// takes nothing away that came after it. That step must therefore be one that no other act of the run adds, not
    /// even one whose steps were forgotten.
    Record {
        /// The holder's claim.
        claim: ClaimId,
        /// The steps to add.
        steps: Vec<StepRow>,
        /// Inbox rows that these steps took in; they are deleted. Numbers that are not in this run's
        /// inbox (any more) are passed over.
        consumed: Vec<i64>,
        /// Whether what was recorded before is forgotten. There must be a step then.
        forget: bool,
    },
    /// Keeps a value for the next attempt of a step, over the one kept before.
    Save {
        /// The holder's claim.
        claim: ClaimId,
        /// The step's name within its run.
        step: Arc<str>,
        /// The value, encoded.
        value: Bytes,
    },
    /// Adds the last records and ends the run. Its saved values, its inbox and what it has published go; the store remembers the
    /// claim, to know the same end when it is sent again.
    End {
        /// The holder's claim.
        claim: ClaimId,
        /// The last steps.
        steps: Vec<StepRow>,
        /// How it ended.
        end: NewEnd,
    },
    /// Adds records and gives the run up until `wait` is over. When an inbox row with a matching topic is
    /// left after `consumed`, or the time has come, the run is ready at once.
    Park {
        /// The holder's claim.
        claim: ClaimId,
        /// Steps to add first.
        steps: Vec<StepRow>,
        /// Inbox rows that were taken in.
        consumed: Vec<i64>,
        /// What wakes it.
        wait: Wait,
    },
    /// Gives the run up; anyone may claim it at once.
    Release {
        /// The holder's claim.
        claim: ClaimId,
    },
    /// Publishes attempts of a held run, so that any node may execute them. One that is published already only takes
    /// the version; one whose outcome was delivered is left alone.
    Publish {
        /// The holder's claim.
        claim: ClaimId,
        /// The version that is to execute them.
        definition: DefinitionId,
        /// The attempts.
        tasks: Vec<NewSpread>,
    },
    /// Takes back attempts of a held run that were published. Answered with [`Written::Withdrawn`].
    Withdraw {
        /// The holder's claim.
        claim: ClaimId,
        /// Which attempts.
        tasks: Vec<SpreadKey>,
        /// Whether those go too that a node holds.
        reach: Reach,
    },
    /// Says how a published attempt ended: its row goes, and its outcome is added to the run's inbox under
    /// [`OUTCOME`](crate::OUTCOME), which makes the run ready if it waits for that.
    Deliver {
        /// The claim under which the committing node holds the attempt.
        claim: ClaimId,
        /// Which attempt.
        task: SpreadKey,
        /// How it ended, encoded.
        outcome: Bytes,
    },
    /// Keeps a value for the next attempt of a step, over the one kept before, as [`Act::Save`] does.
    SaveSpread {
        /// The claim under which the committing node holds the attempt.
        claim: ClaimId,
        /// Which attempt.
        task: SpreadKey,
        /// The value, encoded.
        value: Bytes,
    },
    /// Adds a row to the inbox of a run that has not ended, and makes the run ready if it waits for the
    /// topic. Refused with [`Refusal::Unknown`], or with [`Refusal::Ended`] unless the message is a repeat.
    Send(NewMessage),
    /// Ends a run that nobody holds, without asking its code. Its inbox, its saved values and what it has published go.
    /// Refused with
    /// [`Refusal::Unknown`], [`Refusal::Ended`] (a repeat too), [`Refusal::Held`] when a node holds it, or
    /// [`Refusal::Begun`].
    EndIdle {
        /// Which runs may be ended so.
        only: Idle,
        /// How it ends.
        end: NewEnd,
    },
    /// Opens the next generation of an ended run and makes it ready: nothing recovered yet, its time limit
    /// counted from now, its version kept. Refused with [`Refusal::Unknown`], or with [`Refusal::Open`]
    /// when the run has not ended, or its last generation is not `after` (somebody reopened it already, or
    /// this is a repeat).
    Reopen {
        /// The generation that ended.
        after: u32,
    },
}

impl Act {
    /// The claim of whoever says with it that it holds the run.
    #[must_use]
    pub const fn holder(&self) -> Option<ClaimId> {
        match self {
            Self::Record { claim, .. }
            | Self::Save { claim, .. }
            | Self::End { claim, .. }
            | Self::Park { claim, .. }
            | Self::Release { claim }
            | Self::Publish { claim, .. }
            | Self::Withdraw { claim, .. } => Some(*claim),
            Self::Start(_)
            | Self::Send(_)
            | Self::EndIdle { .. }
            | Self::Reopen { .. }
            | Self::Deliver { .. }
            | Self::SaveSpread { .. } => None,
        }
    }

    /// Refuses what no store keeps: an end in a state that is not terminal, a wait in a state in which nothing
    /// waits, forgetting without a step to know it by, or a parent who would be told under the name of an event. Every
    /// store asks this before it looks at the run.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unfit`], saying why.
    pub fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::End { end, .. } | Self::EndIdle { end, .. } if !end.state.is_terminal() => {
                Err(Refusal::Unfit(format!("a run cannot end as {}", end.state)))
            }
            Self::Park { wait, .. } if !wait.is_fit() => {
                Err(Refusal::Unfit(format!("a run cannot wait as {}", wait.state)))
            }
            Self::Record { forget: true, steps, .. } if steps.is_empty() => {
                Err(Refusal::Unfit("forgetting needs a step to know it by".to_owned()))
            }
            Self::Start(new) => match &new.parent {
                Some(parent) if !parent.topic.starts_with('>') => {
                    Err(Refusal::Unfit(format!("a parent cannot be told under the topic `{}`", parent.topic)))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// Which unheld runs may be ended without their code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Only a run that no node ever held, in this generation or before. Else: [`Refusal::Begun`].
    NeverClaimed,
    /// Any run that nobody holds.
    Any,
}

/// A run to be made.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The workflow's name.
    pub workflow: Arc<str>,
    /// The queue it waits in.
    pub queue: Arc<str>,
    /// What it is counted by within its queue. The queue is declared with it, without limits, if it was not before.
    pub queue_key: Option<Arc<str>>,
    /// 0 is the most urgent, 9 the least.
    pub priority: u8,
    /// How long after the commit it may first run. `None` and less than a microsecond mean at once.
    /// Meanwhile it waits as pending, for no topic.
    pub delay: Option<Duration>,
    /// The longest it may take from then on.
    pub timeout: Option<Duration>,
    /// Its input, encoded.
    pub input: Bytes,
    /// The context it starts with, encoded.
    pub context: Option<Bytes>,
    /// The key that it must be alone with.
    pub key: Option<NewKey>,
    /// For search; kept as they are given.
    pub tags: Vec<String>,
    /// The run that this one is forked from.
    pub forked_from: Option<RunId>,
    /// The trace that its start belongs to.
    pub trace: Option<String>,
    /// The run that is told of each of its ends.
    pub parent: Option<Parent>,
    /// Records that it starts with (a fork's), all of generation 1, or of 0 where they count as older than the run.
    pub steps: Vec<StepRow>,
    /// Set when the committing node wants to hold it from the start. The store agrees only if there is a
    /// committing node, the run has no delay, its queue was not declared, and no run of the same workflow is ready in the
    /// same queue (this node could claim that one first); otherwise the run is made as if this were `None`.
    pub owner: Option<Owner>,
}

/// How the committing node would hold a new run.
#[derive(Clone, Debug)]
pub struct Owner {
    /// The claim to write.
    pub claim: ClaimId,
    /// The version that it will run under.
    pub definition: DefinitionId,
}

/// A key that a run is known by within its workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct NewKey {
    /// The key.
    pub key: String,
    /// A digest of the input, to tell a repeat from a mistake.
    pub digest: [u8; 16],
    /// How long the key is held.
    pub life: KeyLife,
    /// What happens when the key is taken by a run with another input.
    pub conflict: KeyConflict,
}

/// How long a key stands for its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLife {
    /// As long as the run's record is kept.
    Kept,
    /// For this long after the start: it has lapsed when that time has come.
    For(Duration),
}

/// The topics of messages that tell a run to end: to be cancelled, and to be terminated.
pub const STOPS: [&str; 2] = ["!cancel", "!terminate"];

/// What a start does when its key belongs to a run. The later start's choice counts.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyConflict {
    /// It answers with that run if it has the same input, and is refused with [`Refusal::KeyTaken`] if it has another.
    Refuse,
    /// It answers with that run, whatever its input is.
    ReturnExisting,
    /// It is refused with [`Refusal::KeyTaken`] if that run has not ended, or if the key was given a
    /// [time](KeyLife::For). Else the key passes to the new run.
    Reject,
    /// The key passes to the new run. If the other was never claimed it ends, as if by [`Act::EndIdle`]; if it was, and
    /// has not ended, it is told to, as if by [`Act::Send`].
    Replace(Box<Replace>),
    /// If that run was never claimed, and was not told to [stop](STOPS), it takes the new input and context, waits for the
    /// new [delay](NewRun::delay) from now on, and is the answer. Else the key passes to the new run.
    Debounce,
}

impl KeyConflict {
    /// Whether it looks at more than whether the key is taken, and by which input.
    #[must_use]
    pub const fn looks_at_the_run(&self) -> bool {
        matches!(self, Self::Reject | Self::Replace(_) | Self::Debounce)
    }
}

/// How a run goes whose key passes to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Replace {
    /// The end of one that was never claimed.
    pub end: NewEnd,
    /// What one that was is told.
    pub order: NewMessage,
}

/// How a run ends. The store adds the time.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEnd {
    /// One of the terminal states.
    pub state: RunState,
    /// The run's output, encoded.
    pub output: Option<Bytes>,
    /// Why it did not complete, encoded.
    pub failure: Option<Bytes>,
}

/// A row for a run's inbox. The store adds number and time.
///
/// Topics that begin with `!` or `>` are the engine's own: an order, or what a run hears of its children ([`Parent`]). Their
/// bodies are plain text. Every other topic is the name of an event, whose body is JSON: as the engine's codec keeps it, or
/// as plain text, which applications write in their own transactions.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    /// What it is about.
    pub topic: String,
    /// The rest, encoded.
    pub body: Bytes,
    /// Sending the same key to the same run and topic again changes nothing, and is answered as done. A key
    /// is known while its row lies in the inbox and, once the row was taken in, as long as the run is
    /// kept. A row that an end threw away takes its key along, and so does one of a child (`>`) that was taken in: each
    /// of them ends once, and a run may have any number of them.
    pub key: Option<String>,
}

/// What a unit did.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// The run is made.
    Started {
        /// When.
        at: Time,
        /// Whether the committing node holds it.
        owned: bool,
    },
    /// The key or the id stood for this run already.
    Existing {
        /// The run that was there.
        run: RunId,
    },
    /// It is done.
    Done {
        /// The time of this commit; for a repeat of what an ended run's last claim had to say, the time of
        /// that end.
        at: Time,
    },
    /// What was to be withdrawn is not published any more, but for some.
    Withdrawn {
        /// The time of this commit.
        at: Time,
        /// Attempts among those named of which an outcome is there or may still come, in the order in which they
        /// were named. It is the same when it is asked again.
        out: Vec<SpreadKey>,
    },
    /// Nothing was written: the committing node does not hold that published attempt any more. It was withdrawn, its
    /// run has ended, or this was said before.
    TooLate,
}

/// Why a unit was not written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The committing node does not hold the run under that claim any more.
    #[error("the run is held by another claim")]
    NotYours,
    /// There is no such run.
    #[error("there is no such run")]
    Unknown,
    /// The run has ended.
    #[error("the run has ended: {0}")]
    Ended(RunState),
    /// A node holds the run, so it must be asked.
    #[error("the run is held by a node")]
    Held,
    /// The run was claimed before, so its code must be asked.
    #[error("the run has begun")]
    Begun,
    /// The run is not at the end that was to be reopened.
    #[error("the run has not ended, or was reopened already")]
    Open,
    /// The run's parent has not taken in yet that it ended.
    #[error("the run's parent has not heard of its end yet")]
    Awaited,
    /// The run's key was given a life that is not over.
    #[error("the run's key stands for it until its time is over")]
    Keyed,
    /// Somebody else is at the run or at its key, or there was no time left for it.
    #[error("somebody else is at the run just now")]
    Busy,
    /// The run is gone for all who look, but not yet all that belonged to it: that goes when the same is asked again.
    #[error("the run is gone, but not all that belonged to it is")]
    Unfinished,
    /// The key belongs to a run with another input.
    #[error("the key belongs to run {run}, which has another input")]
    KeyTaken {
        /// The run that has the key.
        run: RunId,
    },
    /// An earlier unit of the run's holder in the same batch was refused.
    #[error("an earlier record of the same run was refused")]
    Earlier,
    /// The record cannot be kept as it is: see [`Act::check`].
    #[error("{0}")]
    Unfit(String),
}
