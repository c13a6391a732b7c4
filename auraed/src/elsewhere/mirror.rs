// SPDX-License-Identifier: Apache-2.0
//! What this node knows of its pods on the daemon of a class: one watch for all of them, begun anew
//! whenever it breaks. Pods are known by the mark that they bear there, never by their name alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::convert::pod as convert;
use api::pod::v0 as wire;
use model::label::Labels;
use model::name::{Tenant, Uid};
use model::pod::status::PodStatus;
use model::status::Meta;
use pod::{Place, Seen};
use tokio::sync::watch;
use tonic::Status;

use super::link::{self, Link};

/// The label that says which node a pod is of: [`Mirror::node`].
pub(super) const NODE: &str = "sandbox.aurae/node";
/// The label that says which run of a pod of that node it is.
pub(super) const POD: &str = "sandbox.aurae/pod";

/// The most pods of a snapshot that are looked at for strays.
const MOST: usize = 1 << 16;

/// The wait after a watch that broke; each is twice the one before.
const FIRST: Duration = Duration::from_millis(100);
/// The longest of them.
const LONGEST: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct Mirror {
    /// What this node's pods bear.
    node: String,
    pods: Mutex<Pods>,
    /// The pods of the last whole snapshot, and how many there were before.
    found: watch::Sender<(u64, Vec<Place>)>,
}

#[derive(Default)]
struct Pods {
    /// Counts snapshots.
    snapshot: u64,
    by_uid: BTreeMap<Uid, Entry>,
    /// Those of the snapshot that goes on, if one does.
    listed: Option<Vec<Place>>,
}

struct Entry {
    /// The snapshot in which it was there last.
    in_snapshot: u64,
    seen: watch::Sender<Seen>,
}

/// Whether the watch goes on.
enum Then {
    On,
    Anew(String),
}

impl Mirror {
    pub(super) fn new(node: String) -> Self {
        Self {
            node,
            pods: Mutex::default(),
            found: watch::Sender::new((0, Vec::new())),
        }
    }

    fn pods(&self) -> MutexGuard<'_, Pods> {
        // Nothing panics while it is held.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod's labels with its mark.
    pub(super) fn marked(&self, at: &Place, labels: &Labels) -> BTreeMap<String, String> {
        let mut map = BTreeMap::from(labels.sent());
        map.insert(NODE.to_owned(), self.node.clone());
        map.insert(POD.to_owned(), at.uid.to_string());
        map
    }

    /// Which run of a pod of this node it is; `None`: it isn't this node's.
    pub(super) fn mark(&self, meta: &Meta) -> Option<Uid> {
        let ours = meta.labels.get(NODE) == Some(&self.node);
        let uid = meta.labels.get(POD)?;
        ours.then(|| uid.parse().ok()).flatten()
    }

    pub(super) fn follow(&self, at: &Place) -> watch::Receiver<Seen> {
        let mut pods = self.pods();
        let entry = pods.by_uid.entry(at.uid).or_insert_with(|| Entry {
            in_snapshot: 0,
            seen: watch::Sender::new(Seen::Unknown),
        });
        entry.seen.subscribe()
    }

    pub(super) fn forget(&self, at: &Place) {
        self.pods().by_uid.remove(&at.uid);
    }

    /// The uid that a pod has there, where it is known.
    pub(super) fn uid_there(&self, at: &Place) -> Option<Uid> {
        let pods = self.pods();
        match &*pods.by_uid.get(&at.uid)?.seen.borrow() {
            Seen::Is(status) => Some(status.meta.uid),
            Seen::Unknown | Seen::Silent(_) | Seen::Absent => None,
        }
    }

    /// The other daemon says that of a pod.
    pub(super) fn put(&self, mark: Uid, status: PodStatus) {
        let mut pods = self.pods();
        let snapshot = pods.snapshot;
        if let Some(entry) = pods.by_uid.get_mut(&mark) {
            entry.in_snapshot = snapshot;
            entry.seen.send_replace(Seen::Is(Arc::new(status)));
        }
    }

    fn begin_snapshot(&self) {
        let mut pods = self.pods();
        pods.snapshot += 1;
        pods.listed = Some(Vec::new());
    }

    /// What wasn't in the snapshot isn't there; what was begun meanwhile is.
    fn end_snapshot(&self) {
        let mut pods = self.pods();
        let snapshot = pods.snapshot;
        for entry in pods.by_uid.values().filter(|it| it.in_snapshot < snapshot) {
            entry.seen.send_replace(Seen::Absent);
        }
        let listed = pods.listed.take();
        drop(pods);
        self.found
            .send_replace((snapshot, listed.unwrap_or_default()));
    }

    fn silent(&self, why: &str) {
        for entry in self.pods().by_uid.values() {
            entry.seen.send_replace(Seen::Silent(why.to_owned()));
        }
    }

    /// The pods of each whole snapshot after this one.
    pub(super) async fn found(&self, after: u64) -> (u64, Vec<Place>) {
        let mut found = self.found.subscribe();
        let next = found.wait_for(|(snapshot, _)| *snapshot > after).await;
        // The sender is this one's.
        next.map(|found| found.clone()).unwrap_or_default()
    }

    /// Watches for as long as the node has a daemon.
    pub(super) async fn run(&self, link: &Link, own: &Tenant) {
        let mut pause = FIRST;
        loop {
            let before = self.found.borrow().0;
            let why = self.watch(link, own).await;
            tracing::warn!(
                class = link.class(),
                why,
                "pods elsewhere are not seen; tried again"
            );
            link.is_silent(Some(&why));
            self.silent(&why);
            if self.found.borrow().0 > before {
                pause = FIRST;
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST);
        }
    }

    /// One watch, until it breaks: why.
    async fn watch(&self, link: &Link, own: &Tenant) -> String {
        let asked = wire::WatchRequest {
            tenant: "*".to_owned(),
            selector: format!("{NODE}={}", self.node),
            resume_token: String::new(),
        };
        let node = match link.own().await {
            Ok(node) => node,
            Err(error) => return error.message.clone(),
        };
        let mut events = match link::pods(&node).watch(asked).await {
            Ok(answer) => answer.into_inner(),
            Err(status) => return said(&status),
        };
        link.is_silent(None);
        self.begin_snapshot();
        loop {
            match events.message().await {
                Ok(Some(event)) => match self.happened(event, own) {
                    Then::On => {}
                    Then::Anew(why) => return why,
                },
                Ok(None) => return "it has ended the watch".to_owned(),
                Err(status) => return said(&status),
            }
        }
    }

    fn happened(&self, event: wire::WatchEvent, own: &Tenant) -> Then {
        use wire::watch_event::Type;
        match event.r#type() {
            Type::Added | Type::Changed => {
                let status = event.pod.map(|pod| convert::status(own, pod));
                let Some(Ok(status)) = status else {
                    let why = "its answer is not understood";
                    return Then::Anew(format!("{why}: {}", problem(status)));
                };
                self.is(status);
            }
            Type::Removed => {
                let meta = event.pod.and_then(|pod| convert::meta(own, pod.meta).ok());
                if let Some(mark) = meta.and_then(|meta| self.mark(&meta))
                    && let Some(entry) = self.pods().by_uid.get(&mark)
                {
                    entry.seen.send_replace(Seen::Absent);
                }
            }
            Type::SnapshotEnd => self.end_snapshot(),
            Type::Reset => self.begin_snapshot(),
            Type::Unspecified => {}
        }
        Then::On
    }

    fn is(&self, status: PodStatus) {
        let Some(uid) = self.mark(&status.meta) else {
            return;
        };
        if let Some(listed) = &mut self.pods().listed
            && listed.len() < MOST
        {
            listed.push(Place {
                tenant: status.meta.tenant.clone(),
                path: status.meta.path.clone(),
                uid,
                for_a_member: false,
            });
        }
        self.put(uid, status);
    }
}

fn problem(status: Option<model::error::Result<PodStatus>>) -> String {
    match status {
        Some(Err(error)) => {
            let field = error.field.as_deref().unwrap_or_default();
            format!("{field} {error}")
        }
        Some(Ok(_)) | None => "a pod is missing".to_owned(),
    }
}

fn said(status: &Status) -> String {
    match status.message() {
        "" => status.code().to_string(),
        message => message.to_owned(),
    }
}
