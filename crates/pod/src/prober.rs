// SPDX-License-Identifier: Apache-2.0
//! Watches over one run of a container: what is done after its start, then its probes, for as long
//! as it runs. It tells the pod's task what it finds ([`Finding`]) and decides nothing.
//!
//! ```text
//! post_start ──► startup, until it succeeds ──► STARTED ──► liveness  ──► UNHEALTHY
//!     │ fails        │ fails                        └─────► readiness ──► READY, NOT READY
//!     └──────────────┴──► UNHEALTHY
//! ```

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use model::name::Uid;
use model::pod::probe::Probe;
use model::pod::spec::Container;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use crate::ask;
use crate::asking::Asking;
use crate::sandbox::Sandbox;
use crate::task::Event;

/// Something that was found about a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    /// What is asked after its start was done.
    Started,
    /// Its readiness probe says so, or it has none.
    Ready,
    /// Its readiness probe says that it isn't; why.
    NotReady(String),
    /// It is to be stopped; why.
    Unhealthy(Failed),
}

/// Why a container is to be stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failed {
    pub(crate) why: String,
    /// How long it has to end, where the probe says so.
    pub(crate) grace: Option<Duration>,
}

/// How long what is done after the start may take.
const POST_START: Duration = Duration::from_secs(600);

/// What a watch needs.
pub(crate) struct Watch {
    pub(crate) sandbox: Arc<dyn Sandbox>,
    pub(crate) container: Container,
    /// What is asked after its start was done before, for an earlier daemon.
    pub(crate) started: bool,
    /// When it was started: delays count from there.
    pub(crate) since: Instant,
    /// Of the tenant: how many questions it may have open.
    pub(crate) questions: Arc<Semaphore>,
    /// Which run, for the task.
    pub(crate) run: (usize, Uid),
    pub(crate) events: mpsc::Sender<Event>,
}

impl Watch {
    /// Runs until it is dropped, or the container is to be stopped.
    pub(crate) async fn run(self) {
        let unhealthy = self.unhealthy().await;
        self.tell(Finding::Unhealthy(unhealthy)).await;
    }

    async fn tell(&self, finding: Finding) {
        // The task is gone with the pod.
        let (number, uid) = self.run;
        let _ = self.events.send(Event::Found(number, uid, finding)).await;
    }

    /// Resolves with the reason for which the container is to be stopped.
    async fn unhealthy(&self) -> Failed {
        if !self.started
            && let Err(why) = self.start().await
        {
            return why;
        }
        self.tell(Finding::Started).await;
        tokio::select! {
            why = self.live() => why,
            never = self.readiness() => never,
        }
    }

    async fn start(&self) -> Result<(), Failed> {
        let name = &self.container.name;
        if let Some(hook) = &self.container.post_start {
            let done = ask::hook(&*self.sandbox, name, hook, POST_START).await;
            done.map_err(|e| Failed {
                why: format!("post_start failed: {e}"),
                grace: None,
            })?;
        }
        if let Some(probe) = &self.container.startup {
            let mut asking = self.asking(probe);
            return match self.verdict(&mut asking).await {
                (true, _) => Ok(()),
                (false, why) => Err(Failed {
                    why: format!("the startup probe failed: {why}"),
                    grace: probe.grace,
                }),
            };
        }
        Ok(())
    }

    async fn live(&self) -> Failed {
        let Some(probe) = &self.container.liveness else {
            return pending().await;
        };
        let mut asking = self.asking(probe);
        loop {
            if let (false, why) = self.verdict(&mut asking).await {
                return Failed {
                    why: format!("the liveness probe failed: {why}"),
                    grace: probe.grace,
                };
            }
        }
    }

    async fn readiness<T>(&self) -> T {
        let Some(probe) = &self.container.readiness else {
            self.tell(Finding::Ready).await;
            return pending().await;
        };
        let mut asking = self.asking(probe);
        loop {
            let finding = match self.verdict(&mut asking).await {
                (true, _) => Finding::Ready,
                (false, why) => Finding::NotReady(format!("the readiness probe failed: {why}")),
            };
            self.tell(finding).await;
        }
    }

    fn asking(&self, probe: &Probe) -> Asking {
        Asking::new(probe.clone(), self.since)
    }

    async fn verdict(&self, asking: &mut Asking) -> (bool, String) {
        let name = &self.container.name;
        asking.verdict(&*self.sandbox, name, &self.questions).await
    }
}
