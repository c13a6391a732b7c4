// SPDX-License-Identifier: Apache-2.0
//! What this node knows of its pods on the daemon of a class: one watch for all of them, begun anew
//! whenever it breaks. Pods are known by the mark that they bear there, never by their name alone.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
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

/// The most pods that are known, and the most of a snapshot that are looked at for strays.
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
    /// The last one has come to its end, and the watch goes on.
    is_whole: bool,
    /// Why the other daemon doesn't answer, as long as it doesn't.
    silent: Option<String>,
    by_uid: BTreeMap<Uid, Entry>,
    /// Those of the snapshot that goes on, if one does.
    listed: Option<Vec<Place>>,
}

struct Entry {
    /// The snapshot in which it was there last.
    in_snapshot: u64,
    seen: watch::Sender<Seen>,
}

impl Entry {
    /// It isn't there; whether any part of this node cares.
    fn is_absent(&self) -> bool {
        self.seen.send_replace(Seen::Absent);
        self.seen.receiver_count() > 0
    }
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

    /// What is heard of a pod counts also where it was heard before: a daemon begins to watch
    /// before it knows which pods it keeps.
    pub(super) fn follow(&self, at: &Place) -> watch::Receiver<Seen> {
        let mut pods = self.pods();
        let seen = match &pods.silent {
            Some(why) => Seen::Silent(why.clone()),
            None if pods.is_whole => Seen::Absent,
            None => Seen::Unknown,
        };
        let entry = pods.by_uid.entry(at.uid).or_insert_with(|| Entry {
            in_snapshot: 0,
            seen: watch::Sender::new(seen),
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
        let (snapshot, is_full) = (pods.snapshot, pods.by_uid.len() >= MOST);
        let entry = match pods.by_uid.entry(mark) {
            Slot::Vacant(_) if is_full => return,
            slot => slot.or_insert_with(|| Entry {
                in_snapshot: snapshot,
                seen: watch::Sender::new(Seen::Unknown),
            }),
        };
        entry.in_snapshot = snapshot;
        entry.seen.send_replace(Seen::Is(Arc::new(status)));
    }

    fn begin_snapshot(&self) {
        let mut pods = self.pods();
        pods.snapshot += 1;
        (pods.is_whole, pods.silent) = (false, None);
        pods.listed = Some(Vec::new());
    }

    /// What wasn't in the snapshot isn't there; what was begun meanwhile is.
    fn end_snapshot(&self) {
        let mut pods = self.pods();
        let snapshot = pods.snapshot;
        pods.is_whole = true;
        let is_there = |entry: &Entry| entry.in_snapshot == snapshot;
        pods.by_uid
            .retain(|_, entry| is_there(entry) || entry.is_absent());
        let listed = pods.listed.take();
        drop(pods);
        self.found
            .send_replace((snapshot, listed.unwrap_or_default()));
    }

    fn silent(&self, why: &str) {
        let mut pods = self.pods();
        (pods.is_whole, pods.silent) = (false, Some(why.to_owned()));
        for entry in pods.by_uid.values() {
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
                if let Some(mark) = meta.and_then(|meta| self.mark(&meta)) {
                    let by_uid = &mut self.pods().by_uid;
                    by_uid.retain(|uid, entry| *uid != mark || entry.is_absent());
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

#[cfg(test)]
mod tests {
    use model::object::Kind;
    use model::pod::PodSpec;
    use model::pod::qos::Qos;
    use model::pod::spec::{Container, Draft};
    use model::pod::status::Phase;

    use super::*;

    const ONE: Uid = Uid([1; 16]);
    const TWO: Uid = Uid([2; 16]);

    fn at(uid: Uid) -> Place {
        Place {
            tenant: "acme".parse().unwrap(),
            path: "web".parse().unwrap(),
            uid,
            for_a_member: false,
        }
    }

    fn spec() -> PodSpec {
        let container = Container {
            name: "app".to_owned(),
            entrypoint: vec!["true".to_owned()],
            ..Container::default()
        };
        let draft = Draft {
            containers: vec![container],
            ..Draft::default()
        };
        draft.try_into().unwrap()
    }

    fn status(mirror: &Mirror, uid: Uid) -> PodStatus {
        let labels = mirror.marked(&at(uid), &Labels::default());
        PodStatus {
            meta: Meta {
                tenant: "acme".parse().unwrap(),
                path: "web".parse().unwrap(),
                uid: Uid([9; 16]),
                kind: Kind::Cell,
                labels: Labels::new(labels).unwrap(),
                generation: 1,
                revision: 1,
                created: model::time::Timestamp::default(),
            },
            spec: spec(),
            phase: Phase::Running,
            stopping: false,
            ready: true,
            qos: Qos::BestEffort,
            sandbox_class: "cell".into(),
            containers: Vec::new(),
            debug: Vec::new(),
            events: Vec::new(),
            network: None,
            host_addresses: Vec::new(),
        }
    }

    fn is(seen: &watch::Receiver<Seen>) -> &'static str {
        match *seen.borrow() {
            Seen::Unknown => "unknown",
            Seen::Silent(_) => "silent",
            Seen::Absent => "absent",
            Seen::Is(_) => "there",
        }
    }

    #[test]
    fn what_was_heard_before_a_pod_is_followed_counts() {
        let mirror = Mirror::new("node".to_owned());
        mirror.begin_snapshot();
        mirror.is(status(&mirror, ONE));
        mirror.end_snapshot();
        assert_eq!(is(&mirror.follow(&at(ONE))), "there");
        // All that is there was heard.
        assert_eq!(is(&mirror.follow(&at(TWO))), "absent");
        mirror.silent("it has gone");
        assert_eq!(is(&mirror.follow(&at(Uid([3; 16])))), "silent");
    }

    #[test]
    fn what_is_in_no_snapshot_is_absent_but_what_was_begun_meanwhile() {
        let mirror = Mirror::new("node".to_owned());
        let (one, two) = (mirror.follow(&at(ONE)), mirror.follow(&at(TWO)));
        assert_eq!((is(&one), is(&two)), ("unknown", "unknown"));
        mirror.put(ONE, status(&mirror, ONE));
        mirror.begin_snapshot();
        mirror.put(TWO, status(&mirror, TWO));
        mirror.end_snapshot();
        assert_eq!((is(&one), is(&two)), ("absent", "there"));
        assert_eq!(mirror.uid_there(&at(TWO)), Some(Uid([9; 16])));
        assert_eq!(mirror.uid_there(&at(ONE)), None);
    }

    #[test]
    fn another_nodes_pods_are_none_of_this_one() {
        let (mirror, other) = (
            Mirror::new("node".to_owned()),
            Mirror::new("far".to_owned()),
        );
        assert_eq!(mirror.mark(&status(&mirror, ONE).meta), Some(ONE));
        assert_eq!(mirror.mark(&status(&other, ONE).meta), None);
    }
}
