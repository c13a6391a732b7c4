// SPDX-License-Identifier: Apache-2.0
//! Pods that run on another daemon, behind its API (ADR 90): a machine of its own, a microVM with
//! `auraed` in it. A class of sandboxes is the name of such a daemon; its pods run whole there,
//! with their containers, volumes and probes, and here is what this node has of them.
//!
//! On this node such a pod is a cell without anything in it: its name, its owner's quotas, its
//! sealed record. Its [`task`] passes on what is asked of it, and shows what the other daemon says.
//! The port [`Elsewhere`] is that daemon; `auraed` implements it with a client. How programs and
//! their logs are reached there is no matter of this crate ([`crate::Pods::away`] says whose a path
//! is).

mod lost;
mod shape;
pub(crate) mod task;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use model::error::{Error, Reason};
use model::label::Labels;
use model::name::{ObjectPath, Tenant, Uid};
use model::pod::PodSpec;
use model::pod::debug::Debug;
use model::pod::spec::{Container, Draft, Pull};
use model::pod::status::PodStatus;
use tokio::sync::watch;

use crate::cell::CLASS;
use crate::reach::Stream;

/// A pod of this node that runs elsewhere, where it has the same name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Whose it is, on both.
    pub tenant: Tenant,
    /// Its path, on both.
    pub path: ObjectPath,
    /// Which run, on this node: it is known by that there.
    pub uid: Uid,
    /// Who asked for it is no administrator, and gets no more than a member there.
    pub for_a_member: bool,
}

/// What is known of a pod elsewhere.
#[derive(Clone, Debug)]
pub enum Seen {
    /// Nothing yet.
    Unknown,
    /// The other daemon doesn't answer: why.
    Silent(String),
    /// It isn't there.
    Absent,
    /// As the other daemon says it.
    Is(Arc<PodStatus>),
}

/// Another daemon. All calls but [`Elsewhere::stop`] and [`Elsewhere::remove`] have bounds of
/// their own; what can't be reached is `DEGRADED`.
pub trait Elsewhere: Send + Sync {
    /// The name of its class.
    fn class(&self) -> &str;

    /// Brings the images that a pod names, and runs it. One that runs already is left as it is; an
    /// earlier one of this node's under the name goes first.
    fn begin<'a>(
        &'a self,
        at: &'a Place,
        labels: &'a Labels,
        spec: &'a PodSpec,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Changes it.
    fn update<'a>(
        &'a self,
        at: &'a Place,
        labels: &'a Labels,
        spec: &'a PodSpec,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Adds a container.
    fn debug<'a>(&'a self, at: &'a Place, debug: &'a Debug) -> BoxFuture<'a, Result<(), Error>>;

    /// Ends its containers; resolves when they have.
    fn stop<'a>(&'a self, at: &'a Place, grace: Duration) -> BoxFuture<'a, Result<(), Error>>;

    /// Removes it; what isn't there is removed.
    fn remove<'a>(&'a self, at: &'a Place, force: bool) -> BoxFuture<'a, Result<(), Error>>;

    /// Connects to a port of it.
    fn dial<'a>(
        &'a self,
        at: &'a Place,
        port: u16,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Box<dyn Stream>, Error>>;

    /// Whether a pod that is shown so has that spec, as far as is shown: secrets aren't.
    fn is_of(&self, shown: &PodSpec, spec: &PodSpec) -> bool;

    /// What is known of it, from now on.
    fn follow(&self, at: &Place) -> watch::Receiver<Seen>;

    /// It is no pod of this node's any more.
    fn forget(&self, at: &Place);

    /// A tenant was removed, which had no pod any more.
    fn tenant_is_gone(&self, tenant: &Tenant);

    /// This node's pods that are there, each time that the other daemon was asked for all of them.
    fn found(&self) -> BoxFuture<'_, Vec<Place>>;
}

/// Whose a path is that isn't this daemon's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Of the daemon that has it.
    pub class: String,
    /// It is the pod itself, which has a place on this node as well.
    pub is_the_pod: bool,
}

/// The daemons of this node's classes.
#[derive(Clone, Default)]
pub struct Classes {
    /// By the name of their class.
    pub others: BTreeMap<String, Arc<dyn Elsewhere>>,
    /// Where pods run that name no class. `None`: in a cell.
    pub default: Option<String>,
}

impl Classes {
    /// Where a pod is to run; `None`: in a cell of this node.
    ///
    /// # Errors
    /// `UNSUPPORTED`: there is no such class here. A pod is never kept apart by less than it asks
    /// for, nor by something else.
    pub(crate) fn of(&self, spec: &PodSpec) -> Result<Option<&Arc<dyn Elsewhere>>, Error> {
        let asked = spec.sandbox_class.as_ref();
        let asked = asked
            .map(|class| class.as_str())
            .or(self.default.as_deref());
        let class = match asked {
            None | Some(CLASS) => return Ok(None),
            Some(class) => class,
        };
        self.others.get(class).map(Some).ok_or_else(|| {
            let offers = self.offers();
            let message =
                format!("this node has no sandboxes of the class {class}; it offers: {offers}");
            Error::new(Reason::Unsupported, message).field("pod.spec.sandbox_class")
        })
    }

    /// The daemon of a pod that was begun; one whose class isn't configured any more never answers.
    pub(crate) fn named(&self, class: &str) -> Arc<dyn Elsewhere> {
        let known = self.others.get(class).cloned();
        known.unwrap_or_else(|| Arc::new(lost::Lost::new(class)))
    }

    /// The default first.
    fn offers(&self) -> String {
        let default = self.default.as_deref().unwrap_or(CLASS);
        let all = self.others.keys().map(String::as_str).chain([CLASS]);
        let others = all.filter(|class| *class != default);
        let all: Vec<_> = std::iter::once(default).chain(others).collect();
        all.join(", ")
    }
}

/// Removes a pod there, however long the other daemon is silent.
pub(crate) async fn until_removed(there: &dyn Elsewhere, at: &Place) {
    let mut pause = task::FIRST;
    while let Err(error) = there.remove(at, true).await {
        tracing::warn!(pod = %at.path, %error, ?pause, "a pod stays behind elsewhere; tried again");
        tokio::time::sleep(pause).await;
        pause = task::longer(pause);
    }
}

/// The spec that the other daemon is sent: this node has chosen the class, and has brought the
/// images.
///
/// # Errors
/// None: it is no less a spec than before.
pub(crate) fn sent(spec: &PodSpec) -> Result<PodSpec, Error> {
    let mut draft = Draft::clone(spec);
    draft.sandbox_class = None;
    let all = draft.init_containers.iter_mut();
    all.chain(&mut draft.containers).for_each(brought);
    draft.try_into()
}

/// The same of a container.
pub(crate) fn brought(container: &mut Container) {
    if !container.image.is_empty() {
        container.pull = Pull::Never;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(class: Option<&str>) -> PodSpec {
        let container = Container {
            name: "app".to_owned(),
            image: "app:1".to_owned(),
            pull: Pull::Always,
            ..Container::default()
        };
        let draft = Draft {
            containers: vec![container],
            sandbox_class: class.map(|it| it.parse().unwrap()),
            ..Draft::default()
        };
        draft.try_into().unwrap()
    }

    fn classes(default: Option<&str>) -> Classes {
        let vm: Arc<dyn Elsewhere> = Arc::new(lost::Lost::new("vm"));
        Classes {
            others: BTreeMap::from([("vm".to_owned(), vm)]),
            default: default.map(str::to_owned),
        }
    }

    #[test]
    fn a_pod_is_kept_apart_as_it_asks_and_by_the_default_otherwise() {
        let class = |default, asked| {
            let classes = classes(default);
            let found = classes.of(&spec(asked)).unwrap();
            found.map(|it| it.class().to_owned())
        };
        assert_eq!(class(None, None), None);
        assert_eq!(class(None, Some("vm")).as_deref(), Some("vm"));
        assert_eq!(class(Some("vm"), None).as_deref(), Some("vm"));
        assert_eq!(class(Some("vm"), Some("cell")), None);
        let none = classes(Some("vm"));
        let refused = none.of(&spec(Some("gvisor"))).err().unwrap();
        assert_eq!(refused.reason, Reason::Unsupported);
        assert!(
            refused.message.ends_with("it offers: vm, cell"),
            "{refused}"
        );
    }

    #[test]
    fn the_other_daemon_is_sent_neither_the_class_nor_a_wish_to_pull() {
        let sent = sent(&spec(Some("vm"))).unwrap();
        assert_eq!(sent.sandbox_class, None);
        assert_eq!(sent.containers[0].pull, Pull::Never);
    }
}
