// SPDX-License-Identifier: Apache-2.0
//! The port to what a pod runs in. Containers are known by name, volumes by name, ports by number:
//! the code above knows nothing of how a sandbox keeps them apart.

use std::time::Duration;

use futures_util::future::BoxFuture;
use model::error::Error;
use model::exit::{Exit, How};
use model::label::Labels;
use model::name::Uid;
use model::pod::PodSpec;
use model::pod::debug::Debug;
use model::pod::spec::Container;
use model::pod::steps::Count;
use model::time::Timestamp;

use crate::kept::Kept;
use crate::reach::Reach;

/// The last run of a container's program, as the sandbox has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Program {
    /// Which run.
    pub(crate) uid: Uid,
    /// How often it was started again, as noted at its start.
    pub(crate) count: Count,
    /// What is asked after a start was done for it.
    pub(crate) started: bool,
    /// When it began.
    pub(crate) since: Timestamp,
    /// How it has ended.
    pub(crate) exit: Option<Exit>,
    /// It was asked to end.
    pub(crate) stopping: bool,
}

/// A run that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ran {
    /// The container's place: its name, or that of one that was added.
    pub(crate) place: String,
    /// Which run.
    pub(crate) uid: Uid,
    /// How often it was started again.
    pub(crate) restarts: u32,
    /// It has not exited with 0.
    pub(crate) failed: bool,
}

impl Ran {
    pub(crate) fn new(place: &str, uid: Uid, restarts: u32, exit: Exit) -> Self {
        Self {
            place: place.to_owned(),
            uid,
            restarts,
            failed: exit.how != How::Code(0),
        }
    }
}

/// What a pod runs in.
pub(crate) trait Sandbox: Reach + 'static {
    /// The name of its class.
    fn class(&self) -> &'static str;

    /// Makes what all containers need, where it isn't there yet, and brings what is there to what
    /// the spec says. Done again it changes nothing.
    fn settle<'a>(&'a self, spec: &'a PodSpec) -> BoxFuture<'a, Result<(), Error>>;

    /// The labels that the pod has now: a call on its cell may have changed them.
    fn labels(&self) -> Option<Labels>;

    /// Gives the pod these labels and no other.
    fn label<'a>(&'a self, labels: &'a Labels) -> BoxFuture<'a, Result<(), Error>>;

    /// Brings files that tell the pod's labels to what those are now. Where they say it already, it
    /// does nothing.
    fn tell(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Makes the place of a container that is added, and starts its program. The container's name
    /// is [`Debug::place`] then.
    fn debug<'a>(&'a self, debug: &'a Debug) -> BoxFuture<'a, Result<Program, Error>>;

    /// Makes a container's place, where it isn't there yet. Nothing runs in it.
    fn make<'a>(&'a self, container: &'a Container) -> BoxFuture<'a, Result<(), Error>>;

    /// Starts its program.
    fn start<'a>(
        &'a self,
        container: &'a Container,
        count: Count,
    ) -> BoxFuture<'a, Result<Program, Error>>;

    /// The last run of its program.
    fn program(&self, container: &str) -> Option<Program>;

    /// Notes that what is asked after a start was done for a run.
    fn started<'a>(&'a self, container: &'a str, uid: Uid) -> BoxFuture<'a, Result<(), Error>>;

    /// Resolves when that run has ended.
    fn ended<'a>(&'a self, container: &'a str, uid: Uid) -> BoxFuture<'a, Result<Exit, Error>>;

    /// The last word of a run that has ended, which is kept then ([`Self::told`]).
    fn last_word<'a>(&'a self, container: &'a Container, ran: &'a Ran) -> BoxFuture<'a, String>;

    /// The last word that was kept of the run that was started again so often.
    fn told(&self, container: &str, restarts: u32) -> Option<String>;

    /// Asks that run to end, with that grace; resolves when it has.
    fn stop<'a>(
        &'a self,
        container: &'a str,
        uid: Uid,
        grace: Duration,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Counts what is about to be kept in the tenant's quota where it is longer than what was:
    /// refused where that is beyond it.
    fn admit(&self, kept: &Kept) -> Result<(), Error>;

    /// Keeps what the next daemon has to know. When it answers, `kill -9` doesn't lose it.
    fn keep<'a>(&'a self, kept: &'a Kept) -> BoxFuture<'a, Result<(), Error>>;

    /// Resolves when the sandbox is gone, whatever has ended it.
    fn gone(&self) -> BoxFuture<'_, ()>;

    /// Removes it with all that is in it, also what still runs.
    fn remove(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Removes what it has left on the node, once it is gone.
    fn clean(&self) -> BoxFuture<'_, ()>;
}
