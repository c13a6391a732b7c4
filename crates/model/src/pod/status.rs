// SPDX-License-Identifier: Apache-2.0
//! What is known of a pod, as clients see it.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::network::Attached;
use crate::status::Meta;
use crate::time::Timestamp;

use super::qos::Qos;
use super::spec::PodSpec;

/// Where a pod is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Init containers aren't done, or a container was never started.
    Pending,
    /// Something runs, or will again.
    Running,
    /// Every container has exited with 0.
    Succeeded,
    /// Every container has ended, and one has failed.
    Failed,
}

impl Phase {
    /// Nothing of it begins again.
    pub fn is_final(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }
}

/// The status of a pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodStatus {
    /// Of its cell.
    pub meta: Meta,
    /// As sent.
    pub spec: PodSpec,
    /// Where it is in its life.
    pub phase: Phase,
    /// A stop was asked for.
    pub stopping: bool,
    /// Every container that goes on running is ready.
    pub ready: bool,
    /// Its class of service.
    pub qos: Qos,
    /// What keeps it apart: the name of a class.
    pub sandbox_class: Arc<str>,
    /// Init containers first, in the spec's order.
    pub containers: Vec<ContainerStatus>,
    /// Those that were added to look at it, in that order.
    pub debug: Vec<ContainerStatus>,
    /// What has happened, the oldest first; at most [`MAX_EVENTS`].
    pub events: Vec<Event>,
    /// What it is attached to; `None`: nothing of its own.
    pub network: Option<Attached>,
    /// What the node sends to the world with, IPv6 first.
    pub host_addresses: Vec<IpAddr>,
}

/// The most events that are told of a pod. Older ones go.
pub const MAX_EVENTS: usize = 32;

/// Something that has happened to a pod.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// When, the last time.
    pub at: Timestamp,
    /// To which container; empty: to the pod.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub container: String,
    /// What, for people.
    pub message: String,
    /// How often in a row.
    pub count: u32,
}

/// The status of a container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub state: ContainerState,
    /// How often it was started again.
    pub restarts: u32,
    /// It runs, and what is asked after its start was done.
    pub started: bool,
    /// It runs, and its readiness probe says so.
    pub ready: bool,
    /// Of the last run that has ended.
    pub last_exit: Option<Exit>,
    /// When it is started again.
    pub next_start: Option<Timestamp>,
    /// Why it waits or was stopped, for people.
    pub message: String,
    /// What the run of `last_exit` has left as its last word.
    pub termination_message: String,
}

/// Where a container is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContainerState {
    /// It isn't its turn, or it is being made.
    Waiting,
    /// Its program runs.
    Running,
    /// It has ended and will be started again.
    BackingOff,
    /// It has ended.
    Ended,
}
