// SPDX-License-Identifier: Apache-2.0
//! The methods of the port, for a cell of this node; what they do is next door.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use model::error::Error;
use model::exit::Exit;
use model::label::Labels;
use model::name::Uid;
use model::pod::PodSpec;
use model::pod::debug::Debug;
use model::pod::spec::Container;
use model::pod::steps::Count;

use super::{CellSandbox, GET, UPDATE_CELL, WAIT, program_of};
use crate::kept::Kept;
use crate::reach::{Ports, Reach, Stream};
use crate::sandbox::{Program, Ran, Sandbox};

impl Reach for CellSandbox {
    fn exec<'a>(
        &'a self,
        container: &'a str,
        argv: &'a [String],
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Exit, Error>> {
        Box::pin(self.exec_now(container, argv, timeout))
    }
}

impl Ports for CellSandbox {
    fn dial(
        &self,
        host: Option<IpAddr>,
        port: u16,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<Box<dyn Stream>, Error>> {
        Box::pin(async move {
            let permit = self.permit(GET, &self.path)?;
            let pod = self.pod();
            let dialed = self.runtime.dial(permit, &pod, (host, port), timeout).await;
            dialed.map(|stream| Box::new(stream) as Box<dyn Stream>)
        })
    }
}

impl Sandbox for CellSandbox {
    fn class(&self) -> &'static str {
        super::CLASS
    }

    fn settle<'a>(&'a self, spec: &'a PodSpec) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.settle_now(spec))
    }

    fn labels(&self) -> Option<Labels> {
        let seen = self.runtime.seen(&self.tenant, &self.path)?;
        Some(seen.meta().labels.clone())
    }

    fn label<'a>(&'a self, labels: &'a Labels) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.label_now(labels))
    }

    fn tell(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.tell_now())
    }

    fn debug<'a>(&'a self, debug: &'a Debug) -> BoxFuture<'a, Result<Program, Error>> {
        Box::pin(self.debug_now(debug))
    }

    fn make<'a>(&'a self, container: &'a Container) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.make_now(container))
    }

    fn start<'a>(
        &'a self,
        container: &'a Container,
        count: Count,
    ) -> BoxFuture<'a, Result<Program, Error>> {
        Box::pin(self.start_now(container, count))
    }

    fn program(&self, container: &str) -> Option<Program> {
        let object = self
            .runtime
            .seen(&self.tenant, &self.main(container).ok()?)?;
        program_of(&object)
    }

    fn started<'a>(&'a self, container: &'a str, uid: Uid) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.started_now(container, uid))
    }

    fn ended<'a>(&'a self, container: &'a str, uid: Uid) -> BoxFuture<'a, Result<Exit, Error>> {
        Box::pin(self.ended_now(container, uid))
    }

    fn last_word<'a>(&'a self, container: &'a Container, ran: &'a Ran) -> BoxFuture<'a, String> {
        Box::pin(self.last_word_now(container, ran))
    }

    fn told(&self, container: &str, restarts: u32) -> Option<String> {
        self.volumes.kept_word(container, restarts)
    }

    fn stop<'a>(
        &'a self,
        container: &'a str,
        uid: Uid,
        grace: Duration,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.stop_now(container, uid, grace))
    }

    fn admit(&self, kept: &Kept) -> Result<(), Error> {
        let grown = self.counted().grow(&kept.counted());
        grown.map_err(|e| e.field("pod.spec"))
    }

    fn keep<'a>(&'a self, kept: &'a Kept) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let annex = self.seal.seal(&self.tenant, &self.path, self.uid, kept)?;
            let permit = self.permit(UPDATE_CELL, &self.path)?;
            self.runtime.annex(permit, &self.pod(), annex).await?;
            self.counted().set(&kept.counted());
            Ok(())
        })
    }

    fn gone(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Ok(permit) = self.permit(WAIT, &self.path) else {
                return std::future::pending().await;
            };
            // Whatever the answer is: it isn't there.
            drop(self.runtime.wait(permit, &self.pod()).await);
        })
    }

    fn remove(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.remove_now())
    }

    fn clean(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.clean_now())
    }
}
