// SPDX-License-Identifier: Apache-2.0
//! The status of a pod for the wire.

use model::pod::qos::Qos;
use model::pod::status::{ContainerState, ContainerStatus, Event, Phase, PodStatus};
use model::status::Meta;

use super::spec::to_spec;
use crate::convert::network::to_status as to_network_status;
use crate::convert::scalar::to_timestamp;
use crate::convert::status::{to_exit, to_meta};
use crate::pod::v0 as wire;

/// The message of a pod's status.
pub fn to_status(status: &PodStatus) -> wire::PodStatus {
    let qos = match status.qos {
        Qos::Guaranteed => wire::Qos::Guaranteed,
        Qos::Burstable => wire::Qos::Burstable,
        Qos::BestEffort => wire::Qos::BestEffort,
    };
    let mut all = status.containers.iter().map(to_container);
    let hosts = status.host_addresses.iter();
    let inits = status.spec.init_containers.len();
    wire::PodStatus {
        meta: Some(to_meta(&status.meta)),
        spec: Some(to_spec(&status.spec)),
        phase: to_phase(status.phase).into(),
        stopping: status.stopping,
        ready: status.ready,
        qos: qos.into(),
        init_containers: all.by_ref().take(inits).collect(),
        containers: all.collect(),
        debug_containers: status.debug.iter().map(to_container).collect(),
        events: status.events.iter().map(to_event).collect(),
        network: status.network.as_ref().map(to_network_status),
        host_addresses: hosts.map(ToString::to_string).collect(),
        sandbox_class: status.sandbox_class.to_string(),
    }
}

/// The message of a pod that is gone: the rest of it isn't known any more.
pub fn to_gone(meta: &Meta, phase: Phase) -> wire::PodStatus {
    wire::PodStatus {
        meta: Some(to_meta(meta)),
        phase: to_phase(phase).into(),
        ..wire::PodStatus::default()
    }
}

fn to_phase(phase: Phase) -> wire::Phase {
    match phase {
        Phase::Pending => wire::Phase::Pending,
        Phase::Running => wire::Phase::Running,
        Phase::Succeeded => wire::Phase::Succeeded,
        Phase::Failed => wire::Phase::Failed,
    }
}

fn to_event(event: &Event) -> wire::Event {
    wire::Event {
        time: Some(to_timestamp(event.at)),
        container: event.container.clone(),
        message: event.message.clone(),
        count: event.count,
    }
}

fn to_container(container: &ContainerStatus) -> wire::ContainerStatus {
    use wire::container_status::State;
    let state = match container.state {
        ContainerState::Waiting => State::Waiting,
        ContainerState::Running => State::Running,
        ContainerState::BackingOff => State::BackingOff,
        ContainerState::Ended => State::Ended,
    };
    wire::ContainerStatus {
        name: container.name.clone(),
        state: state.into(),
        restarts: container.restarts,
        started: container.started,
        ready: container.ready,
        last_exit: container.last_exit.as_ref().map(to_exit),
        next_start: container.next_start.map(to_timestamp),
        message: container.message.clone(),
        termination_message: container.termination_message.clone(),
    }
}
