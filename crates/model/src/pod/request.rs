// SPDX-License-Identifier: Apache-2.0
//! The requests of `Pods`, checked, with the caller's tenant filled in.

use std::time::Duration;

use super::debug::Debug;
use super::spec::PodSpec;
use crate::label::Labels;
use crate::name::{ObjectPath, Tenant};
use crate::object::ObjectRef;
use crate::request::Scope;
use crate::selector::Selector;

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

/// The checked request of `Pods.Update`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdatePod {
    /// The pod.
    pub target: ObjectRef,
    /// All its labels from now on.
    pub labels: Labels,
    /// As it is to be from now on.
    pub spec: PodSpec,
}

/// The checked request of `Pods.Debug`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DebugPod {
    /// The pod.
    pub target: ObjectRef,
    /// The container that is added. What else it must be the pod's spec says.
    pub debug: Debug,
}

/// The checked request of `Pods.List`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListPods {
    /// The tenants whose pods are listed.
    pub scope: Scope,
    /// The most of one page; one with long specs has fewer.
    pub page_size: usize,
    /// From the page before.
    pub page_token: Option<String>,
}

/// The checked request of `Pods.Watch`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchPods {
    /// The tenants whose pods are watched.
    pub scope: Scope,
    /// Only pods with such labels.
    pub selector: Selector,
    /// Of the last event seen. `None`: from the beginning.
    pub resume_token: Option<String>,
}

/// The checked request of `Pods.Dial`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dial {
    /// The pod.
    pub target: ObjectRef,
    /// From 1.
    pub port: u16,
}
