// SPDX-License-Identifier: Apache-2.0
//! The task of a schedule: takes in what has happened, has `model::schedule::steps` decide, keeps
//! that, does it, waits; and again. It alone changes the schedule; others send it [`Order`]s and
//! look at the status that it publishes.
//!
//! What was decided is on its way to the disk before it is done. Where the disk takes nothing, it
//! is done all the same, and written once that works.

mod keep;
mod orders;
mod sight;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use identity::Permit;
use model::error::Error;
use model::schedule::state::{Due, Entry, Event, Run, State, Trigger};
use model::schedule::steps::{self, Effect, Step};
use model::schedule::{Spec, When, Why, Work};
use model::time::Timestamp;
use store::Store;
use tenants::Tenants;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::act::{Actor, Look};
use crate::kept::{Kept, Status, Wish};
use crate::room::Room;
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
}

/// What a task begins with.
pub(crate) struct Beginning {
    pub(crate) actor: Actor,
    pub(crate) store: Store,
    pub(crate) tenants: Tenants,
    pub(crate) room: Room,
    pub(crate) yard: Arc<Yard>,
    pub(crate) others: Arc<dyn Others>,
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
    room: Room,
    yard: Arc<Yard>,
    others: Arc<dyn Others>,
    wish: Wish,
    state: State,
    history: Arc<VecDeque<Entry>>,
    keep: keep::Keeping,
    jobs: JoinSet<Happened>,
    /// Runs that are being stopped, and when a failed stop is tried again.
    stops: BTreeMap<u64, Option<Instant>>,
    quiet_since: Option<std::time::Instant>,
    inbox: mpsc::Receiver<Order>,
    status: watch::Sender<Arc<Status>>,
    removing: Option<Removing>,
}

/// A removal that goes on: with the permit of who asked.
struct Removing {
    permit: Permit,
    reply: oneshot::Sender<Result<(), Error>>,
}

impl Task {
    /// A task and what reaches it.
    pub(crate) fn new(beginning: Beginning) -> (Self, Handle) {
        let Beginning {
            actor,
            store,
            tenants,
            room,
            yard,
            others,
            kept,
        } = beginning;
        let history = Arc::new(kept.history);
        let first = Status {
            wish: kept.wish.clone(),
            state: kept.state.clone(),
            why: Why::Starting,
            history: history.clone(),
            ready: false,
            unwritten: false,
        };
        let (status, published) = watch::channel(Arc::new(first));
        let (orders, inbox) = mpsc::channel(QUEUE);
        let task = Self {
            actor,
            store,
            tenants,
            room,
            yard,
            others,
            wish: kept.wish,
            state: kept.state,
            history,
            keep: keep::Keeping::new(kept.lines),
            jobs: JoinSet::new(),
            stops: BTreeMap::new(),
            quiet_since: None,
            inbox,
            status,
            removing: None,
        };
        let handle = Handle {
            orders,
            status: published,
        };
        (task, handle)
    }

    /// Runs until the schedule is removed. Returns who waits for that.
    pub(crate) async fn run(mut self) -> Option<oneshot::Sender<Result<(), Error>>> {
        let runtime = self.actor.ports.runtime.clone();
        // What cells of an earlier daemon are is known then.
        runtime.logs_are_known().await;
        self.resume();
        let mut news = self.yard.news.subscribe();
        let mut grants = self.actor.ports.identity.changes();
        loop {
            // What happens while it goes down is not the workloads' doing; nothing begins.
            let wake = match runtime.goes_down() {
                true => Some(AGAIN),
                false => self.step().await,
            };
            if self.removing.is_some() && self.state.runs.is_empty() && self.forgotten().await {
                break;
            }
            let looks = self.depends();
            let refused = self.state.refusal.is_some();
            let pause = wake.map(|wake| wake.min(LONGEST));
            tokio::select! {
                Some(order) = self.inbox.recv() => self.ordered(order).await,
                Some(Ok(happened)) = self.jobs.join_next() => self.happened(happened),
                // The senders live as long as the subsystem.
                _ = news.changed(), if looks => {}
                _ = grants.changed(), if refused => self.state.held_until = None,
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
        self.jobs.shutdown().await;
        self.removing.map(|removing| removing.reply)
    }

    fn spec(&self) -> Arc<Spec> {
        self.wish.spec.clone()
    }

    fn depends(&self) -> bool {
        !self.wish.spec.needs.is_empty() || matches!(self.wish.spec.when, When::After { .. })
    }

    /// Goes on with the runs of an earlier daemon, also with those that it could not write down.
    fn resume(&mut self) {
        let known = self.state.numbers;
        for (number, object) in self.actor.labelled() {
            if number > known {
                self.unknown(number, object.meta().created);
            }
        }
        let spec = self.spec();
        for run in self.state.runs.clone() {
            let whole = run.began.is_some();
            match self.actor.look(&spec.work, run.number, whole) {
                Look::Living => {
                    self.event(Event::Began(run.number));
                    self.watch(run.number);
                }
                Look::Ended(Some((success, words))) => {
                    self.event(Event::Began(run.number));
                    self.ended(run.number, Some((success, words)));
                }
                Look::Absent if run.began.is_none() => {
                    self.event(Event::NotBegun(run.number));
                    self.forget(run.number);
                }
                Look::Absent | Look::Ended(None) => self.ended(run.number, None),
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
        // It is what was wanted last.
        self.state.due = None;
        self.state.numbers = self.state.numbers.max(number);
        self.state.runs.push(Run {
            number,
            due,
            began: Some(began),
            stopping: None,
        });
    }

    /// Decides, keeps and does. Answers when to look again.
    async fn step(&mut self) -> Option<Duration> {
        let now = runtime::now();
        let spec = self.spec();
        let mut around = Around {
            others: &*self.others,
            tenant: &self.wish.named.tenant,
            room: &self.room,
            since: std::cell::Cell::new(self.quiet_since),
        };
        let step = match self.removing {
            Some(_) => leaving(&self.state),
            None => steps::advance(&spec, &mut self.state, &around, now),
        };
        self.quiet_since = *around.since.get_mut();
        for entry in step.entries {
            self.note(entry);
        }
        self.keep().await;
        let mut begun = false;
        for effect in step.effects {
            match effect {
                Effect::Start(number) => self.start(number),
                Effect::Stop(number) => begun |= self.stop(number),
            }
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

    fn start(&mut self, number: u64) {
        let (actor, spec) = (self.actor.clone(), self.spec());
        let (owner, yard) = (self.wish.owner.clone(), self.yard.clone());
        self.job(async move {
            // Closed never.
            let _place = yard.starts.acquire().await;
            Happened::Started(number, actor.start(&owner, &spec, number).await)
        });
    }

    /// Begins to stop a run, where it has begun. Whether that is to be tried again.
    fn stop(&mut self, number: u64) -> bool {
        let began = self
            .state
            .runs
            .iter()
            .any(|it| it.number == number && it.began.is_some());
        let going = match self.stops.get(&number) {
            None => false,
            Some(None) => return false,
            Some(Some(again)) => *again > Instant::now(),
        };
        if !began || going {
            return going;
        }
        self.stops.insert(number, None);
        let (actor, spec, owner) = (self.actor.clone(), self.spec(), self.wish.owner.clone());
        let permit = match self.permit_of_removal(number) {
            Ok(permit) => permit,
            Err(error) => {
                self.job(async move { Happened::Stopped(number, Err(error)) });
                return false;
            }
        };
        self.job(async move {
            Happened::Stopped(number, actor.stop(&owner, &spec.work, number, permit).await)
        });
        false
    }

    /// Whoever removes a schedule ends its runs.
    fn permit_of_removal(&self, number: u64) -> Result<Option<Permit>, Error> {
        let Some(removing) = &self.removing else {
            return Ok(None);
        };
        let run = self.wish.named.run(number)?;
        let effects = crate::effects::stop(&self.wish.spec.work, &run);
        removing.permit.part(effects).map(Some)
    }

    fn watch(&mut self, number: u64) {
        let (actor, spec, owner) = (self.actor.clone(), self.spec(), self.wish.owner.clone());
        self.job(
            async move { Happened::Ended(number, actor.ended(&owner, &spec.work, number).await) },
        );
        self.watch_pod(number);
    }

    /// Others may need a pod to be ready.
    fn watch_pod(&mut self, number: u64) {
        let run = self.wish.named.run(number).ok();
        let pod = matches!(self.wish.spec.work, Work::Pod { .. });
        let seen = run.filter(|_| pod).and_then(|run| {
            let pods = &self.actor.ports.pods;
            pods.seen(&self.wish.named.tenant, &run)
        });
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
                self.stops.insert(number, Some(Instant::now() + AGAIN));
            }
            Happened::Stopped(number, Err(error)) => self.not_stopped(number, error),
            Happened::Changed(number) => {
                if self.state.runs.iter().any(|run| run.number == number) {
                    self.watch_pod(number);
                }
            }
            Happened::Forgotten => {}
        }
    }

    fn not_stopped(&mut self, number: u64, error: Error) {
        let name = &self.wish.named.name;
        tracing::warn!(schedule = %name, number, %error, "a run can't be stopped");
        self.stops.insert(number, Some(Instant::now() + AGAIN));
        // Who wanted it removed is told, and may ask again.
        if let Some(removing) = self.removing.take() {
            let _ = removing.reply.send(Err(error));
        }
    }

    fn ended(&mut self, number: u64, end: Option<(bool, String)>) {
        self.stops.remove(&number);
        let end = end.filter(|_| !self.actor.ports.runtime.goes_down());
        self.event(match end {
            Some((success, words)) => Event::Ended(number, success, words),
            None => Event::Lost(number),
        });
        let spec = self.spec();
        // A pod that has ended costs a process.
        let keep = match spec.work {
            Work::Pod { .. } => u64::from(spec.history()).min(1),
            _ => u64::from(spec.history()),
        };
        if let Some(old) = number.checked_sub(keep).filter(|old| *old > 0) {
            self.forget(old);
        }
    }

    /// Removes what is left of a run.
    fn forget(&mut self, number: u64) {
        let (actor, spec, owner) = (self.actor.clone(), self.spec(), self.wish.owner.clone());
        self.job(async move {
            if let Err(error) = actor.forget(&owner, &spec.work, number, None).await {
                tracing::debug!(number, %error, "the record of an old run stays");
            }
            Happened::Forgotten
        });
    }
}

/// What goes on while a schedule is removed: its runs end, none begins.
fn leaving(state: &State) -> Step {
    let runs = state.runs.iter().map(|run| Effect::Stop(run.number));
    Step {
        effects: runs.collect(),
        entries: Vec::new(),
        wake: None,
        why: Why::Running,
    }
}

/// An error in one line.
fn said(error: &Error) -> String {
    match &error.hint {
        Some(hint) => format!("{error}: {hint}"),
        None => error.to_string(),
    }
}
