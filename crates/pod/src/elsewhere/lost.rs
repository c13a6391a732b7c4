// SPDX-License-Identifier: Apache-2.0
//! The daemon of a class that this node's configuration doesn't name any more. Pods that run there
//! are shown as silent, and stay until the class is back or their cells are removed.

use std::time::Duration;

use futures_util::future::BoxFuture;
use model::error::{Error, Reason};
use model::label::Labels;
use model::name::Tenant;
use model::pod::PodSpec;
use model::pod::debug::Debug;
use tokio::sync::watch;

use super::{Elsewhere, Place, Seen};
use crate::reach::Stream;

/// See the module.
pub(super) struct Lost {
    class: String,
    seen: watch::Sender<Seen>,
}

impl Lost {
    pub(super) fn new(class: &str) -> Self {
        let why =
            format!("the node's configuration has no sandboxes of the class {class} any more");
        Self {
            class: class.to_owned(),
            seen: watch::Sender::new(Seen::Silent(why)),
        }
    }

    fn refuse<'a, T: Send + 'a>(&self) -> BoxFuture<'a, Result<T, Error>> {
        let class = &self.class;
        let message = format!("this node has no sandboxes of the class {class} any more");
        let error = Error::new(Reason::Degraded, message);
        let hint = format!("configure sandboxes.{class} again and restart the daemon");
        Box::pin(std::future::ready(Err(error.hint(hint))))
    }
}

impl Elsewhere for Lost {
    fn class(&self) -> &str {
        &self.class
    }

    fn begin<'a>(
        &'a self,
        _: &'a Place,
        _: &'a Labels,
        _: &'a PodSpec,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.refuse()
    }

    fn update<'a>(
        &'a self,
        _: &'a Place,
        _: &'a Labels,
        _: &'a PodSpec,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.refuse()
    }

    fn debug<'a>(&'a self, _: &'a Place, _: &'a Debug) -> BoxFuture<'a, Result<(), Error>> {
        self.refuse()
    }

    fn stop<'a>(&'a self, _: &'a Place, _: Duration) -> BoxFuture<'a, Result<(), Error>> {
        self.refuse()
    }

    fn remove<'a>(&'a self, _: &'a Place, _: bool) -> BoxFuture<'a, Result<(), Error>> {
        self.refuse()
    }

    fn dial<'a>(
        &'a self,
        _: &'a Place,
        _: u16,
        _: Duration,
    ) -> BoxFuture<'a, Result<Box<dyn Stream>, Error>> {
        self.refuse()
    }

    fn is_of(&self, _: &PodSpec, _: &PodSpec) -> bool {
        false
    }

    fn follow(&self, _: &Place) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    fn forget(&self, _: &Place) {}

    fn tenant_is_gone(&self, _: &Tenant) {}

    fn found(&self) -> BoxFuture<'_, Vec<Place>> {
        Box::pin(std::future::pending())
    }
}
