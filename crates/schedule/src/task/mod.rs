// SPDX-License-Identifier: Apache-2.0
//! The task of a schedule: takes in what has happened, has `model::schedule::steps` decide, keeps
//! that, does it, waits; and again. It alone changes the schedule; others send it [`Order`]s and
//! look at the status that it publishes.
//!
//! What was decided is on its way to the disk before it is done. Where the disk takes nothing, it
//! is done all the same, and written once that works.

mod begin;
mod ends;
mod health;
mod keep;
mod leave;
mod orders;
mod sight;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use identity::Permit;
use model::error::Error;
use model::schedule::given;
use model::schedule::state::{Due, Entry, Event, RefusalKind, Run, Shape, State, Trigger};
use model::schedule::steps::{self, Effect};
use model::schedule::{Spec, When, Work};
use model::time::Timestamp;
use pod::Asking;
use store::Store;
use tenants::Tenants;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::act::{Actor, Left, Look};
use crate::handle::Settings;
use crate::kept::{Kept, Status, Wish};
use crate::watch::Feed;
use crate::yard::Yard;
use sight::Around;

pub(crate) use orders::Order;
pub(crate) use sight::Others;

/// Orders that wait for the task. Who has one more waits.
const QUEUE: usize = 16;
/// How long the task sleeps at most where it waits for a time: the clock may be set, and a machine
/// be suspended, meanwhile.
const LONGEST: Duration = Duration::from_secs(15);
/// Between two tries to stop a run, or to write.
const AGAIN: Duration = Duration::from_secs(2);
/// More runs than that can't begin while the disk takes nothing.
const JUMP: u64 = 1 << 20;

/// Something that has come of an act.
enum Happened {
    /// A start.
    Started(u64, Result<(), Error>),
    /// A run's end; `None`: with the node.
    Ended(u64, Option<(bool, String)>),
    /// A stop.
    Stopped(u64, Result<(), Error>),
    /// A pod's status is another one.
    Changed(u64),
    /// A record went, or stays.
    Forgotten,
    /// The files of a run could not be brought up to date.
    NotRefreshed(u64),
    /// What a run has answered, and what asks it.
    Asked(u64, Box<Asking>, (bool, String)),
}

/// How a task ends.
pub(crate) enum Over {
    /// The schedule was removed; who waits for that.
    Removed(Option<oneshot::Sender<Result<(), Error>>>),
    /// One of its jobs has panicked: what it was about isn't known.
    Broke,
}

/// What a task begins with.
pub(crate) struct Beginning {
    pub(crate) actor: Actor,
    pub(crate) store: Store,
    pub(crate) tenants: Tenants,
    pub(crate) settings: Arc<Settings>,
    pub(crate) yard: Arc<Yard>,
    pub(crate) others: Arc<dyn Others>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) status: watch::Sender<Arc<Status>>,
    pub(crate) kept: Kept,
}

/// Reaches a task.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) orders: mpsc::Sender<Order>,
    pub(crate) status: watch::Receiver<Arc<Status>>,
}

/// See the module.
pub(crate) struct Task {
    actor: Actor,
    store: Store,
    tenants: Tenants,
    settings: Arc<Settings>,
    yard: Arc<Yard>,
    others: Arc<dyn Others>,
    feed: Arc<Feed>,
    wish: Wish,
    /// The work of the last revision that was rolled out whole, where it is another one.
    stable: Option<(u64, Arc<Work>)>,
    state: State,
    history: Arc<VecDeque<Entry>>,
    keep: keep::Keeping,
    jobs: JoinSet<Happened>,
    /// Runs that are being stopped.
    stops: BTreeMap<u64, Ending>,
    /// Records that go once that their runs have ended is on the disk; whether by force.
    forgets: BTreeMap<u64, bool>,
    quiet_since: Option<std::time::Instant>,
    health: health::Health,
    inbox: mpsc::Receiver<Order>,
    status: watch::Sender<Arc<Status>>,
    removing: Option<Removing>,
    /// A removal that has failed is tried again then; how often it has.
    leave_again: Option<(Instant, u32)>,
}

/// A removal that a caller waits for: with the caller's permit.
struct Removing {
    permit: Permit,
    reply: oneshot::Sender<Result<(), Error>>,
}

/// A run that is being stopped.
#[derive(Default)]
struct Ending {
    /// When to ask again; `None`: a stop goes on.
    again: Option<Instant>,
    /// Failed tries in a row.
    failed: u32,
}

impl Task {
    /// A task and what reaches it.
    pub(crate) fn new(beginning: Beginning) -> (Self, Handle) {
        let Beginning {
            actor,
            store,
            tenants,
            settings,
            yard,
            others,
            feed,
            status,
            kept,
        } = beginning;
        let history = Arc::new(kept.history);
        let published = status.subscribe();
        let (orders, inbox) = mpsc::channel(QUEUE);
        let task = Self {
            actor,
            store,
            tenants,
            settings,
            yard,
            others,
            feed,
            wish: kept.wish,
            stable: None,
            state: kept.state,
            history,
            keep: keep::Keeping::new(kept.lines),
            jobs: JoinSet::new(),
            stops: BTreeMap::new(),
            forgets: BTreeMap::new(),
            quiet_since: None,
            health: health::Health::default(),
            inbox,
            status,
            removing: None,
            leave_again: None,
        };
        let handle = Handle {
            orders,
            status: published,
        };
        (task, handle)
    }

    /// Runs until the schedule is removed.
    pub(crate) async fn run(mut self) -> Over {
        let over = self.look_after().await;
        runtime::queue::close(&mut self.inbox).await;
        over
    }

    async fn look_after(&mut self) -> Over {
        let runtime = self.actor.ports.runtime.clone();
        // What cells of an earlier daemon are is known then.
        runtime.logs_are_known().await;
        self.actor.ports.pods.are_known().await;
        self.load_stable().await;
        self.resume();
        let mut news = self.yard.news.subscribe();
        let mut grants = self.actor.ports.identity.changes();
        loop {
            // What happens while it goes down is not the workloads' doing; nothing begins.
            let wake = match runtime.goes_down() {
                // What ends now is written, or the next daemon takes it for the workload's doing.
                true => {
                    self.keep().await;
                    Some(AGAIN)
                }
                false => self.step().await,
            };
            if self.may_leave() && self.forgotten().await {
                break;
            }
            let looks = self.depends();
            let refused = self.state.refusal.as_ref();
            let refused = refused.is_some_and(|it| it.kind == RefusalKind::Permission);
            let pause = self.sooner(wake).map(|wake| wake.min(LONGEST));
            tokio::select! {
                Some(order) = self.inbox.recv() => self.ordered(order).await,
                Some(joined) = self.jobs.join_next() => match joined {
                    Ok(happened) => self.happened(happened),
                    Err(_) => return Over::Broke,
                },
                // The senders live as long as the subsystem.
                _ = news.changed(), if looks => {}
                _ = grants.changed(), if refused => self.ask_soon(),
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
        self.jobs.shutdown().await;
        Over::Removed(self.removing.take().map(|removing| removing.reply))
    }

    fn spec(&self) -> Arc<Spec> {
        self.wish.spec.clone()
    }

    /// The owner may be allowed to by now. Schedules ask one after the other, each at a moment of
    /// its own within two seconds: a grant to another user must not start them all at once.
    fn ask_soon(&mut self) {
        let [first, ..] = self.wish.uid.0;
        let wait = u64::from(first) * 8_000_000;
        let soon = Timestamp(runtime::now().0.saturating_add(wait));
        self.state.held_until = self.state.held_until.map(|held| held.min(soon));
    }

    fn depends(&self) -> bool {
        let spec = &self.wish.spec;
        let given = given::mentioned(&spec.work).next().is_some();
        !spec.needs.is_empty() || given || matches!(spec.when, When::After { .. })
    }

    /// Goes on with the runs of an earlier daemon, also with those that it could not write down.
    fn resume(&mut self) {
        let known = self.state.numbers;
        for (number, object) in self.actor.labelled() {
            if number > known && number - known <= JUMP {
                self.unknown(number, object.meta().created);
            }
        }
        // A daemon may have died between the word that files are given and the deed.
        self.state.runs.iter_mut().for_each(|run| run.configs = 0);
        for run in self.state.runs.clone() {
            let whole = run.began.is_some();
            match self.actor.look(&run.shape, run.number, whole) {
                // What is left of the cell of one that has ended is stopped yet.
                Look::Living | Look::Ended(Some(_)) => {
                    self.event(Event::Began(run.number));
                    self.watch(run.number);
                }
                Look::Absent if run.began.is_none() => {
                    self.event(Event::NotBegun(run.number));
                    self.forgets.insert(run.number, true);
                }
                Look::Absent | Look::Ended(None) => self.lost(run.number),
            }
        }
    }

    /// A run that was begun while the disk took nothing.
    fn unknown(&mut self, number: u64, began: Timestamp) {
        let known = self.state.runs.iter().any(|run| run.number == number);
        if known {
            return;
        }
        let due = Due {
            at: began,
            by: Trigger::Restart,
            attempt: 0,
        };
        let shape = match self.actor.left(number) {
            Left::Pod(..) => Shape::Pod,
            Left::Cell(..) | Left::Programs(_) | Left::Nothing => Shape::of(&self.wish.spec.work),
        };
        // It is what was wanted last.
        self.state.due = None;
        self.state.numbers = self.state.numbers.max(number);
        let mut run = Run::new(number, shape, due);
        (run.began, run.revision) = (Some(began), self.state.revision);
        self.state.runs.push(run);
    }

    /// Decides, keeps and does. Answers when to look again.
    async fn step(&mut self) -> Option<Duration> {
        let now = runtime::now();
        let spec = self.spec();
        let mut around = Around {
            others: &*self.others,
            actor: &self.actor,
            settings: &self.settings,
            stable: self.stable.as_ref(),
            health: spec.health.is_some().then_some(&self.health),
            since: std::cell::Cell::new(self.quiet_since),
        };
        let step = match self.state.leaving {
            Some(_) => self.leaving(),
            None => steps::advance(&spec, &mut self.state, &around, now),
        };
        self.quiet_since = *around.since.get_mut();
        for entry in step.entries {
            self.note(entry);
        }
        self.keep().await;
        self.forget_old();
        let mut begun = false;
        for effect in step.effects {
            match effect {
                Effect::Start(number) => self.start(number),
                Effect::Stop(number) => begun |= self.stop(number),
                Effect::Refresh(number) => self.refresh(number),
                Effect::Leave => {
                    self.leave_by_itself();
                    begun = true;
                }
            }
        }
        for number in self.health.failed() {
            begun |= self.stop(number);
        }
        self.publish(step.why);
        let wake = step.wake.map(|wake| wake.since(now));
        let again = begun || self.keep.is_behind();
        match again {
            true => Some(wake.map_or(AGAIN, |wake| wake.min(AGAIN))),
            false => wake,
        }
    }

    fn event(&mut self, event: Event) {
        let spec = self.spec();
        let entry = self.state.happened(&spec, event, runtime::now());
        if let Some(entry) = entry {
            self.note(entry);
        }
    }

    fn job(&mut self, job: impl Future<Output = Happened> + Send + 'static) {
        let share = self.tenants.share(&self.wish.named.tenant);
        self.jobs.spawn(share.run(job));
    }

    fn shape(&self, number: u64) -> Option<Shape> {
        let run = self.state.runs.iter().find(|run| run.number == number)?;
        Some(run.shape.clone())
    }

    /// Begins to stop a run, where it has begun. Whether that is to be tried again.
    fn stop(&mut self, number: u64) -> bool {
        let run = self.state.runs.iter().find(|it| it.number == number);
        let began = run.filter(|it| it.began.is_some());
        let waits = self.stops.get(&number).map(|ending| ending.again);
        let going = match waits {
            None => false,
            Some(None) => return false,
            Some(Some(again)) => again > Instant::now(),
        };
        let Some(shape) = began.map(|run| run.shape.clone()).filter(|_| !going) else {
            return going;
        };
        self.stops.entry(number).or_default().again = None;
        let (actor, owner) = (self.actor.clone(), self.acts_for());
        let permit = match self.permit_of_removal(&shape, number) {
            Ok(permit) => permit,
            Err(error) => {
                self.job(async move { Happened::Stopped(number, Err(error)) });
                return false;
            }
        };
        self.job(async move {
            Happened::Stopped(number, actor.stop(&owner, &shape, number, permit).await)
        });
        false
    }

    fn watch(&mut self, number: u64) {
        let Some(shape) = self.shape(number) else {
            return;
        };
        let (actor, owner) = (self.actor.clone(), self.wish.owner.clone());
        self.job(async move { Happened::Ended(number, actor.ended(&owner, &shape, number).await) });
        self.watch_pod(number);
        self.ask(number);
    }

    /// Others may need a pod to be ready.
    fn watch_pod(&mut self, number: u64) {
        let shape = self.shape(number);
        let seen = shape.and_then(|shape| self.actor.changes(&shape, number));
        if let Some(mut status) = seen {
            status.mark_unchanged();
            self.job(async move {
                match status.changed().await {
                    Ok(()) => Happened::Changed(number),
                    Err(_) => Happened::Forgotten,
                }
            });
        }
    }

    fn happened(&mut self, happened: Happened) {
        match happened {
            Happened::Started(number, Ok(())) => {
                self.event(Event::Began(number));
                self.watch(number);
            }
            Happened::Started(number, Err(error)) => {
                let kind = model::schedule::state::RefusalKind::of(&error);
                self.event(Event::Refused(number, kind, said(&error)));
            }
            Happened::Ended(number, end) => self.ended(number, end),
            Happened::Stopped(number, Ok(())) => {
                // Its end comes by itself; a stop of what began just now is asked for again.
                let again = Some(Instant::now() + AGAIN);
                self.stops.insert(number, Ending { again, failed: 0 });
            }
            Happened::Stopped(number, Err(error)) => self.not_stopped(number, error),
            Happened::Changed(number) => {
                if self.state.runs.iter().any(|run| run.number == number) {
                    self.watch_pod(number);
                }
            }
            Happened::Forgotten => {}
            Happened::NotRefreshed(number) => self.event(Event::NotRefreshed(number)),
            Happened::Asked(number, asking, verdict) => self.asked(number, *asking, verdict),
        }
    }
}

/// An error in one line.
fn said(error: &Error) -> String {
    match &error.hint {
        Some(hint) => format!("{error}: {hint}"),
        None => error.to_string(),
    }
}
