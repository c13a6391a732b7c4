// SPDX-License-Identifier: Apache-2.0
//! The task of a pod: sees, has `model::pod::steps` decide, does, waits; and again. It alone
//! changes the pod; others send it [`Order`]s and look at the status that it publishes.
//!
//! What takes time is done beside it (`jobs`) and comes back as an [`Event`]. What the next daemon
//! has to know is kept before what follows from it is done. All of it is polled in the tenant's
//! turns.

mod debug;
mod held;
mod jobs;
pub(crate) mod notes;
mod orders;

use std::sync::Arc;
use std::time::Duration;

use model::error::Error;
use model::exit::{Exit, How};
use model::label::Labels;
use model::name::Uid;
use model::pod::debug::Debug;
use model::pod::status::{Phase, PodStatus};
use model::pod::steps::{self, Count, Effect, Seen};
use model::pod::{PodSpec, qos};
use model::status::Meta;
use model::time::Timestamp;
use tenants::Share;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::elsewhere::Place;
use crate::kept::{Ended, Kept};
use crate::prober::{Failed, Finding};
use crate::reach::Ports;
use crate::sandbox::{Program, Sandbox};
use crate::watch::Feed;
use debug::Added;
use held::Held;
use notes::Notes;

/// Events that wait for the task. Who has one more waits.
pub(crate) const QUEUE: usize = 64;
/// How long the task sleeps at most: clocks are set.
const LONGEST: Duration = Duration::from_secs(30);

/// Who waits for a status.
pub(crate) type Answer = oneshot::Sender<Result<PodStatus, Error>>;

/// What can be asked of a pod's task.
pub(crate) enum Order {
    /// End all containers; answered when they have.
    Stop(Duration, Answer),
    /// Remove the pod; with `true` also where it runs.
    Remove(bool, oneshot::Sender<Result<(), Error>>),
    /// Change it, running.
    Update(Box<(PodSpec, Labels)>, Answer),
    /// Add a container; answered when its program runs.
    Debug(Box<Debug>, Answer),
}

/// Something that has happened to a container, by its number.
#[derive(Debug)]
pub(crate) enum Event {
    /// Its place could not be made.
    Refused(usize, Count, Error),
    /// Its program was started, or could not be.
    Started(usize, Count, Result<Program, Error>),
    /// A run has ended; its last word.
    Ended(usize, Uid, Exit, String),
    /// A run was found to be so.
    Found(usize, Uid, Finding),
    /// A stop could not be carried out.
    NotStopped(usize, Uid, Error),
    /// The program of a container that was added was started, or could not be.
    DebugStarted(usize, Result<Program, Error>),
    /// It has ended; its last word.
    DebugEnded(usize, Uid, Exit, String),
    /// The sandbox is gone.
    Gone,
}

/// What a task begins with.
pub(crate) struct Beginning {
    pub(crate) sandbox: Arc<dyn Sandbox>,
    pub(crate) meta: Meta,
    pub(crate) kept: Kept,
    pub(crate) questions: Arc<Semaphore>,
    /// The tenant's, of the daemon's time.
    pub(crate) share: Share,
    /// Who watches pods is told.
    pub(crate) feed: Arc<Feed>,
}

/// See the module.
pub(crate) struct Task {
    sandbox: Arc<dyn Sandbox>,
    meta: Meta,
    kept: Kept,
    questions: Arc<Semaphore>,
    share: Share,
    feed: Arc<Feed>,
    held: Vec<Held>,
    debug: Vec<Added>,
    notes: Notes,
    /// An update came while a container was being made: it may have been made as it was before.
    unsettled: bool,
    /// Its deadline has come, and was told.
    outlived: bool,
    jobs: JoinSet<()>,
    tell: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    orders: mpsc::Receiver<Order>,
    status: watch::Sender<PodStatus>,
    waiting: Vec<Answer>,
    removing: Vec<oneshot::Sender<Result<(), Error>>>,
}

/// Reaches a task.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) uid: Uid,
    pub(crate) orders: mpsc::Sender<Order>,
    pub(crate) status: watch::Receiver<PodStatus>,
    /// Its ports.
    pub(crate) ports: Arc<dyn Ports>,
    /// The class and the place of one that runs elsewhere.
    pub(crate) away: Option<(String, Place)>,
}

impl Task {
    /// A task and what reaches it. What an earlier daemon has begun is gone on with.
    pub(crate) fn new(beginning: Beginning) -> (Self, Handle) {
        let Beginning {
            sandbox,
            meta,
            kept,
            questions,
            share,
            feed,
        } = beginning;
        let (tell, events) = mpsc::channel(QUEUE);
        let (orders, inbox) = mpsc::channel(QUEUE);
        let held = kept.spec.all().map(|container| {
            let name = &container.name;
            let told = |run| sandbox.told(name, run);
            Held::found(sandbox.program(name), kept.ends.get(name), told)
        });
        let held = held.collect();
        let debug = kept.debug.iter();
        let debug = debug.map(|it| {
            let word = sandbox.told(&it.container.name, 0);
            Added::found(it, sandbox.program(&it.place()), word)
        });
        let debug = debug.collect();
        let (status, published) =
            watch::channel(first_status(&meta, &kept.spec, sandbox.class().into()));
        let handle = Handle {
            uid: meta.uid,
            orders,
            status: published,
            ports: sandbox.clone(),
            away: None,
        };
        let mut task = Self {
            notes: Notes::new(&kept.events),
            sandbox,
            meta,
            kept,
            questions,
            share,
            feed,
            held,
            debug,
            unsettled: false,
            outlived: false,
            jobs: JoinSet::new(),
            tell,
            events,
            orders: inbox,
            status,
            waiting: Vec::new(),
            removing: Vec::new(),
        };
        let step = task.decide();
        task.outlived = step.outlived && step.phase.is_final();
        // Who keeps the handle tells the feed: a watcher that is woken before finds no pod.
        task.show(step.phase);
        (task, handle)
    }

    /// Runs until the pod is gone. Returns who waits for that.
    pub(crate) async fn run(mut self) -> Vec<oneshot::Sender<Result<(), Error>>> {
        self.watch_sandbox();
        if let Err(error) = self.sandbox.settle(&self.kept.spec).await {
            tracing::error!(pod = %self.meta.path, %error, "a pod can't be prepared");
            self.notes.add("", said(&error));
        }
        self.hear().await;
        self.resume_debug();
        for number in 0..self.held.len() {
            self.resume(number);
        }
        loop {
            let step = self.decide();
            self.tell_deadline(step.outlived);
            for effect in &step.effects {
                self.carry_out(*effect);
            }
            // What was begun just now is seen.
            let step = match step.effects.is_empty() {
                true => step,
                false => self.decide(),
            };
            if step.phase.is_final() || self.kept.stop.is_some() {
                self.end_debug();
            }
            self.publish(step.phase);
            if step.phase.is_final() && self.over().await {
                break;
            }
            self.tell(step.phase).await;
            let pause = step.wake.map_or(LONGEST, |wake| wake.since(runtime::now()));
            tokio::select! {
                // The task has a sender itself.
                Some(event) = self.events.recv() => {
                    if let Event::Gone = event {
                        break;
                    }
                    self.happened(event).await;
                }
                Some(order) = self.orders.recv() => self.ordered(order).await,
                Some(_) = self.jobs.join_next() => {}
                () = tokio::time::sleep(pause.min(LONGEST)) => {}
            }
        }
        self.jobs.shutdown().await;
        self.sandbox.clean().await;
        runtime::queue::close(&mut self.orders).await;
        self.removing
    }

    fn decide(&self) -> steps::Step {
        let seen: Vec<Seen> = self.held.iter().map(|held| held.seen).collect();
        let stopping = self.kept.stop.is_some();
        let begun = self.meta.created;
        steps::next(&self.kept.spec, &seen, stopping, begun, runtime::now())
    }

    /// Once, as an event. What an earlier daemon has told is with the pod's events.
    fn tell_deadline(&mut self, outlived: bool) {
        let deadline = self.kept.spec.active_deadline.unwrap_or_default();
        if outlived && !self.outlived {
            let words = format!(
                "DeadlineExceeded: it was there for the {} s of its active_deadline",
                deadline.as_secs_f64()
            );
            self.notes.add("", words);
        }
        self.outlived = outlived;
    }

    /// All has ended. Whether the pod is gone with it.
    async fn over(&mut self) -> bool {
        if self.kept.stop.is_some() {
            let status = self.status.borrow().clone();
            for waiter in self.waiting.drain(..) {
                let _ = waiter.send(Ok(status.clone()));
            }
        }
        if self.removing.is_empty() {
            return false;
        }
        let Err(error) = self.sandbox.remove().await else {
            return true;
        };
        for waiter in self.removing.drain(..) {
            let _ = waiter.send(Err(error.clone()));
        }
        false
    }

    fn seen(&self, number: usize) -> Seen {
        self.held.get(number).map_or(Seen::Absent, |held| held.seen)
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Start(number, count) => {
                if let Some(held) = self.held.get_mut(number) {
                    held.seen = Seen::Starting(count);
                }
                self.begin_start(number, count);
            }
            Effect::Stop(number) => {
                if let Some(held) = self.held.get_mut(number)
                    && let Seen::Running(run) = held.seen
                {
                    held.seen = Seen::Stopping(run.count);
                    held.watch = None;
                }
                self.begin_stop(number, true);
            }
        }
    }

    async fn happened(&mut self, event: Event) {
        match event {
            Event::Started(number, count, Ok(program)) => {
                self.note(number, "started");
                self.began(number, program, count);
                self.settle_again().await;
            }
            Event::Started(number, count, Err(error)) => {
                self.note(number, said(&error));
                if let Some(held) = self.held.get_mut(number) {
                    held.word.clear();
                }
                // As a program that fails at once: the restart policy says what comes of it.
                self.ended(number, ended(count, None, None), error.to_string())
                    .await;
            }
            Event::Refused(number, count, error) => {
                if let Some(held) = self.held.get_mut(number) {
                    // The first time waits, too.
                    let in_a_row = count.in_a_row.max(1);
                    let end = ended(Count { in_a_row, ..count }, None, None).end();
                    held.seen = Seen::Refused(end);
                    held.message = said(&error);
                }
                self.note(number, said(&error));
            }
            Event::DebugStarted(number, started) => self.debug_started(number, started),
            Event::DebugEnded(number, uid, exit, word) => {
                self.debug_ended(number, uid, exit, word);
            }
            Event::Ended(number, uid, exit, word) => {
                let held = self.held.get_mut(number);
                if let Some(held) = held.filter(|held| held.uid == Some(uid)) {
                    held.word = word;
                    let end = ended(held.count(), Some(exit), held.since);
                    let message = held.message.clone();
                    self.ended(number, end, message).await;
                }
            }
            Event::Found(number, uid, finding) => self.found(number, uid, finding),
            Event::NotStopped(number, uid, error) => {
                let held = self.held.get(number).filter(|held| held.uid == Some(uid));
                if held.is_some_and(|held| matches!(held.seen, Seen::Stopping(_))) {
                    tracing::warn!(pod = %self.meta.path, %error, "a container can't be stopped");
                }
            }
            Event::Gone => {}
        }
    }

    async fn ended(&mut self, number: usize, end: Ended, message: String) {
        let name = self.kept.spec.all().nth(number).map(|it| it.name.clone());
        if let Some(exit) = end.exit {
            self.note(number, ended_words(exit));
        }
        if let Some(held) = self.held.get_mut(number) {
            held.seen = Seen::Ended(end.end());
            held.exit = end.exit;
            held.watch = None;
            held.uid = None;
            held.message = message;
        }
        if let Some(name) = name {
            self.kept.ends.insert(name, end);
        }
        self.kept.events = self.notes.kept();
        if let Err(error) = self.sandbox.keep(&self.kept).await {
            // The record of the run itself says it, too, as long as that is kept.
            tracing::warn!(pod = %self.meta.path, %error, "the end of a container is not kept");
        }
    }

    fn found(&mut self, number: usize, uid: Uid, finding: Finding) {
        let held = self
            .held
            .get_mut(number)
            .filter(|held| held.uid == Some(uid));
        let Some(held) = held else { return };
        let Seen::Running(run) = &mut held.seen else {
            return;
        };
        match finding {
            Finding::Started => {
                let first = !run.started;
                run.started = true;
                if first {
                    self.note_started(number, uid);
                }
            }
            Finding::Ready => {
                run.ready = true;
                held.message.clone_from(&held.stopped_for);
            }
            Finding::NotReady(why) => {
                // Asked again and again, it is no news.
                let is_news = run.ready || held.message != why;
                run.ready = false;
                held.message.clone_from(&why);
                if is_news {
                    self.note(number, why);
                }
            }
            Finding::Unhealthy(Failed { why, grace }) => {
                held.grace = grace;
                run.unhealthy = true;
                run.ready = false;
                held.stopped_for.clone_from(&why);
                held.message.clone_from(&why);
                self.note(number, why);
            }
        }
    }

    /// Lets clients see it; whether it is another than before.
    fn show(&self, phase: Phase) -> bool {
        let spec = &self.kept.spec;
        // Nothing is started any more.
        let over = phase.is_final() || self.kept.stop.is_some();
        let inits = spec.init_containers.len();
        let restart = |number: usize| {
            let restart = match number < inits {
                true => spec.restart.of_init(),
                false => spec.restart,
            };
            (!over).then_some(restart)
        };
        let containers = spec.all().zip(&self.held).enumerate();
        let containers: Vec<_> = containers
            .map(|(number, (container, held))| held.status(container, restart(number)))
            .collect();
        let lasting = spec.all().zip(&containers).enumerate();
        let mut lasting =
            lasting.filter(|(number, (container, _))| container.sidecar || *number >= inits);
        let status = PodStatus {
            meta: self.meta.clone(),
            spec: spec.clone(),
            phase,
            stopping: self.kept.stop.is_some(),
            ready: !phase.is_final() && lasting.all(|(_, (_, status))| status.ready),
            qos: qos::class(spec),
            sandbox_class: self.sandbox.class().into(),
            containers,
            debug: self.debug.iter().map(Added::status).collect(),
            events: self.notes.all(),
            // Of the cell, which is looked at when a caller asks.
            network: None,
            host_addresses: Vec::new(),
        };
        self.status.send_if_modified(|published| {
            let changed = *published != status;
            *published = status;
            changed
        })
    }

    /// The same, and tells watchers where it is another.
    fn publish(&self, phase: Phase) {
        if self.show(phase) {
            let key = (self.meta.tenant.clone(), self.meta.path.clone());
            self.feed.changed(&key, self.meta.uid);
        }
    }

    /// What happened to a container, for people.
    fn note(&mut self, number: usize, message: impl Into<String>) {
        let name = self.kept.spec.all().nth(number);
        let name = name.map_or("", |container| &container.name);
        self.notes.add(name, message);
    }
}

pub(crate) fn first_status(meta: &Meta, spec: &PodSpec, class: Arc<str>) -> PodStatus {
    PodStatus {
        meta: meta.clone(),
        spec: spec.clone(),
        phase: Phase::Pending,
        stopping: false,
        ready: false,
        qos: qos::class(spec),
        sandbox_class: class,
        containers: Vec::new(),
        debug: Vec::new(),
        events: Vec::new(),
        network: None,
        host_addresses: Vec::new(),
    }
}

/// An end that is seen now, of a run that began then.
fn ended(count: Count, exit: Option<Exit>, since: Option<Timestamp>) -> Ended {
    let now = runtime::now();
    let at = exit.and_then(|exit| exit.finished).unwrap_or(now);
    Ended {
        restarts: count.restarts,
        in_a_row: count.in_a_row,
        at,
        ran: since.map_or(Duration::ZERO, |since| at.since(since)),
        success: exit.is_some_and(|exit| exit.how == How::Code(0)),
        exit,
    }
}

fn ended_words(exit: Exit) -> String {
    match exit.how {
        How::Code(code) => format!("ended with exit code {code}"),
        How::Signal(number) => format!("was killed by signal {number}"),
        How::Unknown => "ended; how is not known".to_owned(),
    }
}

/// An error in one line.
pub(crate) fn said(error: &Error) -> String {
    match &error.hint {
        Some(hint) => format!("{error}: {hint}"),
        None => error.to_string(),
    }
}
