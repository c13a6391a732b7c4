// SPDX-License-Identifier: Apache-2.0
//! The requests of `Pods`, checked, with the caller's tenant filled in.

use std::time::Duration;

use super::spec::PodSpec;
use crate::label::Labels;
use crate::name::{ObjectPath, Tenant};
use crate::object::ObjectRef;

/// When a Run call answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitFor {
    /// The node keeps the pod.
    #[default]
    Created,
    /// Every container that goes on running is ready, or the pod has ended.
    Ready,
    /// The pod has ended.
    Ended,
}

/// The checked request of `Pods.Run`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunPod {
    /// The tenant that the pod will belong to.
    pub tenant: Tenant,
    /// The path of its cell.
    pub path: ObjectPath,
    /// Labels that selectors find its cell by.
    pub labels: Labels,
    /// The spec, checked.
    pub spec: PodSpec,
    /// When the call answers.
    pub wait_for: WaitFor,
}

/// The checked request of `Pods.Stop`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StopPod {
    /// The pod.
    pub target: ObjectRef,
    /// `None`: the pod's own; zero: at once.
    pub grace: Option<Duration>,
}

/// The checked request of `Pods.Remove`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemovePod {
    /// The pod.
    pub target: ObjectRef,
    /// Stop what still runs, first.
    pub force: bool,
}

/// The checked request of `Pods.Dial`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dial {
    /// The pod.
    pub target: ObjectRef,
    /// From 1.
    pub port: u16,
}
