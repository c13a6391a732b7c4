// SPDX-License-Identifier: Apache-2.0
//! The task of a pod that runs elsewhere: passes on what is asked of it, shows what the other
//! daemon says of it, and removes it there when its place on this node is gone, whatever has ended
//! that. What takes time is done beside it.
//!
//! The spec is kept here before it is sent; the next daemon compares what is there with it, and
//! sends it again where a death has come between the two.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use model::error::{Error, Reason};
use model::label::Labels;
use model::pod::debug::{self, Debug};
use model::pod::env::{EnvVar, From};
use model::pod::status::{Event, PodStatus};
use model::pod::volume::{Source, Volume};
use model::pod::{PodSpec, update};
use model::status::Meta;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::shape::{lost, plain, shaped, together, unseen};
use super::{Elsewhere, Place, Seen, brought, sent, until_removed};
use crate::kept::Kept;
use crate::reach::{Ports, Stream};
use crate::sandbox::Sandbox;
use crate::task::notes::Notes;
use crate::task::{Answer, Handle, Order, QUEUE, first_status, said};
use crate::watch::Feed;

/// The wait after the first failure of what is tried again; each is twice the one before.
pub(super) const FIRST: Duration = Duration::from_secs(1);
/// The longest of them.
const LONGEST: Duration = Duration::from_secs(60);
/// How long a pod may be missing there: a daemon gives an init that is silent 20 s.
const LOST: Duration = Duration::from_secs(30);
/// How long the task sleeps at most.
const LOOK: Duration = Duration::from_secs(30);
/// How long the other daemon's status may lag behind its answers.
const LAG: Duration = Duration::from_secs(10);

/// What a task begins with.
pub(crate) struct Beginning {
    pub(crate) there: Arc<dyn Elsewhere>,
    /// Its place on this node.
    pub(crate) own: Arc<dyn Sandbox>,
    pub(crate) at: Place,
    pub(crate) meta: Meta,
    pub(crate) kept: Kept,
    pub(crate) feed: Arc<Feed>,
}

/// What was done beside the task.
enum Done {
    /// The pod runs there, or doesn't; how long to wait then.
    Begun(Result<(), Error>, Duration),
    /// A spec that was kept is there now, or isn't; how long to wait then.
    Settled(Result<(), Error>, Duration),
    /// An order, and who has given it.
    Carried(Result<(), Error>, Answer),
    /// A container was added, or couldn't be: its name, and who has added it.
    Added(Result<(), Error>, String, Answer),
    /// It is removed there, or can't be; and who wants it to go.
    Removed(Result<(), Error>, oneshot::Sender<Result<(), Error>>),
}

/// See the module.
pub(crate) struct AwayTask {
    there: Arc<dyn Elsewhere>,
    own: Arc<dyn Sandbox>,
    at: Place,
    meta: Meta,
    kept: Kept,
    feed: Arc<Feed>,
    seen: watch::Receiver<Seen>,
    /// What has happened to it there, as it was last told.
    theirs: Vec<Event>,
    /// Since when it isn't there, as that daemon says.
    absent: Option<Instant>,
    notes: Notes,
    /// What is kept may be newer than what is there.
    unsettled: bool,
    /// Sends what was kept.
    sending: Option<AbortHandle>,
    jobs: JoinSet<Done>,
    orders: mpsc::Receiver<Order>,
    status: watch::Sender<PodStatus>,
    removing: Vec<oneshot::Sender<Result<(), Error>>>,
}

/// The ports of a pod elsewhere.
struct PortsThere {
    there: Arc<dyn Elsewhere>,
    at: Place,
}

impl Ports for PortsThere {
    fn dial(
        &self,
        host: Option<IpAddr>,
        port: u16,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<Box<dyn Stream>, Error>> {
        match host {
            None => self.there.dial(&self.at, port, timeout),
            // Probes are the other daemon's.
            Some(_) => Box::pin(std::future::ready(Err(Error::internal(
                "a host was dialled through a pod elsewhere",
            )))),
        }
    }
}

impl AwayTask {
    /// A task and what reaches it. What an earlier daemon has begun is gone on with.
    pub(crate) fn new(beginning: Beginning) -> (Self, Handle) {
        let Beginning {
            there,
            own,
            at,
            meta,
            kept,
            feed,
        } = beginning;
        let (orders, inbox) = mpsc::channel(QUEUE);
        let seen = there.follow(&at);
        let (status, published) = watch::channel(PodStatus {
            containers: kept.spec.all().map(unseen).collect(),
            ..first_status(&meta, &kept.spec, there.class().into())
        });
        let ports = PortsThere {
            there: there.clone(),
            at: at.clone(),
        };
        let handle = Handle {
            uid: meta.uid,
            orders,
            status: published,
            ports: Arc::new(ports),
            away: Some((there.class().to_owned(), at.clone())),
        };
        let mut task = Self {
            theirs: Vec::new(),
            absent: None,
            notes: Notes::new(&kept.events),
            there,
            own,
            at,
            meta,
            kept,
            feed,
            seen,
            unsettled: true,
            sending: None,
            jobs: JoinSet::new(),
            orders: inbox,
            status,
            removing: Vec::new(),
        };
        // Who keeps the handle tells the feed.
        task.show();
        (task, handle)
    }

    /// Runs until the pod is gone, here and there. Returns who waits for that.
    pub(crate) async fn run(mut self) -> Vec<oneshot::Sender<Result<(), Error>>> {
        let own = self.own.clone();
        let mut gone = own.gone();
        self.resume().await;
        loop {
            self.relabel();
            self.publish();
            self.settle();
            let pause = self.pause();
            tokio::select! {
                () = &mut gone => break,
                // The sender is as old as the other daemon's port.
                Ok(()) = self.seen.changed() => {}
                Some(order) = self.orders.recv() => self.ordered(order).await,
                Some(Ok(done)) = self.jobs.join_next() => self.done(done).await,
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.jobs.shutdown().await;
        until_removed(&*self.there, &self.at).await;
        self.there.forget(&self.at);
        self.own.clean().await;
        runtime::queue::close(&mut self.orders).await;
        self.removing
    }

    /// How long there is nothing to look at.
    fn pause(&self) -> Duration {
        let left = self
            .absent
            .map(|since| LOST.saturating_sub(since.elapsed()));
        let left = left.filter(|left| !left.is_zero());
        left.map_or(LOOK, |left| left.min(LOOK))
    }

    /// What was begun just now is kept as begun; what no daemon knows to be there is begun.
    async fn resume(&mut self) {
        if self.is_begun() {
            self.keep_begun().await;
        } else {
            self.begin(Duration::ZERO);
        }
    }

    fn is_begun(&self) -> bool {
        self.kept.away.as_ref().is_some_and(|away| away.begun)
    }

    /// Without it the next daemon would begin it once more, which changes nothing.
    async fn keep_begun(&mut self) {
        if let Some(away) = &mut self.kept.away {
            away.begun = true;
        }
        if let Err(error) = self.own.keep(&self.kept).await {
            tracing::warn!(pod = %self.meta.path, %error, "that a pod was begun is not kept");
        }
    }

    fn begin(&mut self, pause: Duration) {
        let (there, at) = (self.there.clone(), self.at.clone());
        let (labels, spec) = (self.meta.labels.clone(), self.kept.spec.clone());
        self.jobs.spawn(async move {
            tokio::time::sleep(pause).await;
            let begun = begin(&*there, &at, &labels, &spec).await;
            Done::Begun(begun, longer(pause))
        });
    }

    /// What is there is brought to what was kept, where a death came between the two.
    fn settle(&mut self) {
        if !self.unsettled || !self.is_begun() {
            return;
        }
        let Seen::Is(status) = self.seen.borrow().clone() else {
            return;
        };
        self.unsettled = false;
        // Whether a secret is another one isn't shown.
        let same = !has_secrets(&self.kept.spec)
            && sent(&self.kept.spec).is_ok_and(|spec| self.there.is_of(&status.spec, &spec))
            && self.meta.labels.sent() == status.meta.labels.told();
        if !same && !status.phase.is_final() && !status.stopping {
            self.send(Duration::ZERO);
        }
    }

    /// Labels may be changed at its place, too, of which no order comes.
    fn relabel(&mut self) {
        let now = self.own.labels();
        let Some(labels) = now.filter(|labels| *labels != self.meta.labels) else {
            return;
        };
        self.meta.labels = labels;
        self.unsettled = true;
    }

    fn send(&mut self, pause: Duration) {
        let (there, at) = (self.there.clone(), self.at.clone());
        let (labels, spec) = (self.meta.labels.clone(), self.kept.spec.clone());
        let sending = self.jobs.spawn(async move {
            tokio::time::sleep(pause).await;
            let sent = send(&*there, &at, &labels, &spec).await;
            Done::Settled(sent, longer(pause))
        });
        self.sending = Some(sending);
    }

    async fn done(&mut self, done: Done) {
        match done {
            Done::Begun(Ok(()), _) => self.keep_begun().await,
            Done::Begun(Err(error), pause) => {
                self.notes.add("", said(&error));
                self.begin(pause);
            }
            Done::Settled(Ok(()), _) => {}
            Done::Settled(Err(error), pause) => {
                self.notes
                    .add("", format!("an update is not complete: {error}"));
                if error.reason == Reason::Degraded {
                    self.send(pause);
                }
            }
            Done::Carried(done, answer) => self.answer(done, answer),
            Done::Added(added, name, answer) => {
                if added.is_err() {
                    self.take_out(&name).await;
                }
                self.answer(added, answer);
            }
            Done::Removed(Ok(()), waiter) => {
                self.removing.push(waiter);
                self.remove_place().await;
            }
            Done::Removed(Err(error), waiter) => drop(waiter.send(Err(error))),
        }
    }

    /// Tells how it is now, or what has failed.
    fn answer(&mut self, done: Result<(), Error>, answer: Answer) {
        self.publish();
        let status = done.map(|()| self.status.borrow().clone());
        // Who has gone away doesn't ask any more.
        let _ = answer.send(status);
    }

    /// A container that was refused there isn't one of the pod's.
    async fn take_out(&mut self, name: &str) {
        self.kept.debug.retain(|it| it.container.name != name);
        if let Err(error) = self.own.keep(&self.kept).await {
            tracing::warn!(pod = %self.meta.path, %error, "a container that isn't there is kept");
        }
    }

    /// Who waits for its end is answered when the place is gone.
    async fn remove_place(&mut self) {
        let Err(error) = self.own.remove().await else {
            return;
        };
        for waiter in self.removing.drain(..) {
            let _ = waiter.send(Err(error.clone()));
        }
    }

    async fn ordered(&mut self, order: Order) {
        let (there, at) = (self.there.clone(), self.at.clone());
        let seen = self.seen.clone();
        match order {
            Order::Stop(grace, answer) => {
                self.notes.add("", format!("asked to end within {grace:?}"));
                self.jobs.spawn(async move {
                    let stopped = there.stop(&at, grace).await;
                    if stopped.is_ok() {
                        until_shown(seen, |status| status.phase.is_final()).await;
                    }
                    Done::Carried(stopped, answer)
                });
            }
            Order::Remove(force, waiter) => {
                self.jobs
                    .spawn(async move { Done::Removed(there.remove(&at, force).await, waiter) });
            }
            Order::Update(update, answer) => {
                let (spec, labels) = *update;
                let updated = self.update(spec, &labels).await;
                if let Ok(wanted) = updated.clone().and_then(|()| sent(&self.kept.spec)) {
                    until_shown(seen, |status| there.is_of(&status.spec, &wanted)).await;
                }
                self.answer(updated, answer);
            }
            Order::Debug(debug, answer) => self.add(*debug, answer).await,
        }
    }

    /// As of a pod here: kept before its first effect, and put back where that is refused.
    async fn update(&mut self, spec: PodSpec, labels: &Labels) -> Result<(), Error> {
        update::check(&self.kept.spec, &spec)?;
        debug::check_weight(&spec, &self.kept.debug)?;
        let kept = Kept {
            spec,
            ..self.kept.clone()
        };
        self.own.admit(&kept)?;
        self.own.keep(&kept).await?;
        // An older one is not to come after it; where it has, that is seen.
        if let Some(older) = self.sending.take().filter(|older| !older.is_finished()) {
            older.abort();
            self.unsettled = true;
        }
        let updated = match send(&*self.there, &self.at, labels, &kept.spec).await {
            Ok(()) => self.own.label(labels).await,
            refused => refused,
        };
        if let Err(error) = updated {
            // Whatever of it is there already is taken back.
            self.unsettled = true;
            if let Err(error) = self.own.keep(&self.kept).await {
                tracing::error!(pod = %self.meta.path, %error, "an update is not taken back");
            }
            return Err(error);
        }
        self.kept = kept;
        self.meta.labels = self.meta.labels.relabelled(labels)?;
        Ok(())
    }

    /// Counted here, checked there as well.
    async fn add(&mut self, new: Debug, answer: Answer) {
        let mut kept = self.kept.clone();
        kept.debug.push(new.clone());
        let admitted = debug::check(&self.kept.spec, &self.kept.debug, &new)
            .and_then(|()| self.own.admit(&kept));
        let kept_now = match admitted {
            Ok(()) => self.own.keep(&kept).await,
            refused => refused,
        };
        if let Err(error) = kept_now {
            let _ = answer.send(Err(error));
            return;
        }
        self.kept = kept;
        let (there, at, seen) = (self.there.clone(), self.at.clone(), self.seen.clone());
        self.jobs.spawn(async move {
            let name = new.container.name.clone();
            let mut debug = new;
            brought(&mut debug.container);
            let added = there.debug(&at, &debug).await;
            if added.is_ok() {
                let there = |status: &PodStatus| status.debug.iter().any(|it| it.name == name);
                until_shown(seen, there).await;
            }
            Done::Added(added, name, answer)
        });
    }

    /// Whether it has been gone for so long that it won't come back. A daemon that has just begun
    /// may not yet have heard of all that runs there.
    fn is_lost(&mut self, seen: &Seen) -> bool {
        let is_absent = matches!(seen, Seen::Absent) && self.is_begun();
        let since = self.absent.filter(|_| is_absent);
        self.absent = is_absent.then(|| since.unwrap_or_else(Instant::now));
        self.absent.is_some_and(|since| since.elapsed() >= LOST)
    }

    /// Lets clients see what is known; whether it is another than before.
    fn show(&mut self) -> bool {
        let seen = self.seen.borrow_and_update().clone();
        let last = self.status.borrow().clone();
        let is_lost = self.is_lost(&seen) && !last.phase.is_final();
        let status = match seen {
            Seen::Is(status) => {
                self.theirs = status.events.iter().map(plain).collect();
                shaped(&self.kept, &status)
            }
            Seen::Silent(why) => {
                self.notes.add_once(silence(&why));
                PodStatus {
                    ready: false,
                    ..last
                }
            }
            Seen::Absent if is_lost => {
                self.notes
                    .add("", "it is no more on the daemon of its class");
                lost(last)
            }
            Seen::Absent if self.absent.is_some() => PodStatus {
                ready: false,
                ..last
            },
            Seen::Unknown | Seen::Absent => last,
        };
        let status = PodStatus {
            events: together(&self.theirs, self.notes.all()),
            meta: self.meta.clone(),
            spec: self.kept.spec.clone(),
            sandbox_class: self.there.class().into(),
            ..status
        };
        self.status.send_if_modified(|published| {
            let changed = *published != status;
            *published = status;
            changed
        })
    }

    /// The same, and tells watchers where it is another.
    fn publish(&mut self) {
        if self.show() {
            let key = (self.meta.tenant.clone(), self.meta.path.clone());
            self.feed.changed(&key, self.meta.uid);
        }
    }
}

/// Runs a pod elsewhere, where it isn't there yet.
pub(crate) async fn begin(
    there: &dyn Elsewhere,
    at: &Place,
    labels: &Labels,
    spec: &PodSpec,
) -> Result<(), Error> {
    there.begin(at, labels, &sent(spec)?).await
}

async fn send(
    there: &dyn Elsewhere,
    at: &Place,
    labels: &Labels,
    spec: &PodSpec,
) -> Result<(), Error> {
    there.update(at, labels, &sent(spec)?).await
}

fn has_secrets(spec: &PodSpec) -> bool {
    let secret = |it: &EnvVar| matches!(it.from, From::Secret(_));
    let files = |it: &Volume| matches!(&it.source, Source::Files(files) if files.secret);
    spec.all().any(|it| it.env.iter().any(secret)) || spec.volumes.iter().any(files)
}

pub(super) fn longer(pause: Duration) -> Duration {
    pause.saturating_mul(2).clamp(FIRST, LONGEST)
}

fn silence(why: &str) -> String {
    format!("the daemon of its class doesn't answer: {why}")
}

/// Waits until what was answered is shown, too: who asks next is to find it.
async fn until_shown(mut seen: watch::Receiver<Seen>, shows: impl Fn(&PodStatus) -> bool) {
    let shows = |seen: &Seen| match seen {
        Seen::Is(status) => shows(status),
        Seen::Absent => true,
        Seen::Unknown | Seen::Silent(_) => false,
    };
    // A daemon that falls silent after its answer shows it later.
    let _ = tokio::time::timeout(LAG, seen.wait_for(shows)).await;
}
